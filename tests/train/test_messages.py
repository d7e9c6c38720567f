"""Wrong inputs to training, models and files: each one gets a message in three parts, of the right class."""

import numpy as np
import pytest

from minires import train
from minires.data import CharCorpus
from minires.files import atomic_write
from minires.messages import DtypeError, Explained, FileProblem, ShapeError, UnknownName, ValueProblem
from minires.models import DecoderLM, DeepMLP, Encoder
from minires.models.rebuild import build
from minires.nn import Dropout, Linear, Maker, Parameter, get_init, get_norm
from minires.train import SGD, Adam, AdamW, fit, generate, load_checkpoint, save_checkpoint, schedules

CORPUS = CharCorpus("to be or not to be " * 20)
RNG = np.random.default_rng(0)


def lm(**settings):
    return DecoderLM(**{**dict(vocab=len(CORPUS.vocab), d=8, heads=2, blocks=1, context=6), **settings})


def mlp(**settings):
    return DeepMLP(4, 3, d=8, blocks=1, **settings)


def trained(batch, model=None, steps=1, **options):
    model = model or lm()
    batches = batch if callable(batch) else lambda rng: batch
    return fit(model, batches, SGD(model.parameters()), steps, **options)


def features(**change):
    """A good batch for the MLP, with one thing changed."""
    good = dict(x=np.ones((2, 4), np.float32), y=np.zeros(2, int))
    return tuple({**good, **change}.values())


def sgd(**settings):
    return SGD(lm().parameters(), **settings)


def nan_loss(rng):
    return features(x=np.full((2, 4), 3e38, np.float32))


class NotATensor(Linear):
    """Its loss is a plain number."""

    def loss(self, x, y):
        return 3.0


IDS = np.zeros((2, 6), int)
Row = tuple[str, object, type, str, str]

# what · how it is called · class · words of the rule or of what was given · words of the hint
ROWS = [
    # ------------------------------------------------------------------------------------------------- training
    ("an empty batch", lambda tmp: trained((IDS[:0], IDS[:0])), ValueProblem, "at least one example", "empty"),
    ("a batch of length 0", lambda tmp: trained((IDS[:, :0], IDS[:, :0])), ValueProblem, "step 0", "batch"),
    ("one array for two", lambda tmp: trained(IDS), DtypeError, "pair", "two arrays"),
    ("unequal lengths", lambda tmp: trained((IDS, IDS[:1])), ShapeError, "equally many", "first axis"),
    ("NaN inputs", lambda tmp: trained(features(x=np.full((2, 4), np.nan, np.float32)), mlp()), ValueProblem,
     "8 NaN or infinite of 8 at step 0", "0/0"),
    ("infinite inputs", lambda tmp: trained(features(x=np.full((2, 4), -np.inf, np.float32)), mlp()), ValueProblem,
     "finite", "Look at the data"),
    ("float64 inputs", lambda tmp: trained(features(x=np.ones((2, 4))), mlp()), DtypeError, "float32",
     "astype(np.float32)"),
    ("text as a batch", lambda tmp: trained((np.array(["to", "be"]),) * 2), DtypeError, "integers or floats", "encode"),
    ("a list of unequal lists", lambda tmp: trained(lambda rng: (np.array([[1], [2, 3]], object), IDS)), DtypeError,
     "object", "padded"),
    ("float targets", lambda tmp: trained(features(y=np.zeros(2, np.float32)), mlp()),
     DtypeError, "class ids", "argmax"),
    ("a loss that overflows", lambda tmp: trained(nan_loss, mlp()), ValueProblem, "at step 0", "learning rate"),
    ("a target that is no symbol", lambda tmp: trained((IDS, IDS + 99)), ValueProblem, "targets must be in", "column"),
    ("a loss that is a number", lambda tmp: trained((IDS, IDS), NotATensor(2, 2, Maker.of(0))), DtypeError, "Tensor",
     ".item()"),
    ("zero steps", lambda tmp: trained((IDS, IDS), steps=0), ValueProblem, "steps", "counts"),
    ("half a step", lambda tmp: trained((IDS, IDS), steps=2.5), ValueProblem, "whole number", "steps"),
    ("too few batches", lambda tmp: fit(m := lm(), [(IDS, IDS)], SGD(m.parameters()), 2), ValueProblem,
     "an end after 1 of 2", "cycle"),
    ("clip = 0", lambda tmp: trained((IDS, IDS), clip=0), ValueProblem, "above 0", "None does not clip"),
    ("a misspelt option", lambda tmp: trained((IDS, IDS), check_point="a.npz"), UnknownName, "resume", "'checkpoint'"),
    ("another model's optimiser", lambda tmp: fit(lm(), [(IDS, IDS)], sgd(), 1), ValueProblem,
     "must be the model's", "deepcopy"),
    ("an evaluation of nothing", lambda tmp: train.mean_loss([]), ValueProblem, "at least one batch", "corpus.batch"),
    # ----------------------------------------------------------------------------------------------- optimisers
    ("no parameters", lambda tmp: AdamW([]), ValueProblem, "needs parameters", "parameters()"),
    ("arrays for parameters", lambda tmp: AdamW([np.ones(3)]), DtypeError, "Parameter", "nn.Parameter"),
    ("two dtypes", lambda tmp: AdamW([Parameter(np.ones(2)), Parameter(np.ones(2, np.float32))]), DtypeError,
     "float32 and float64", "dtype"),
    ("a negative learning rate", lambda tmp: sgd(lr=-1), ValueProblem, "lr", "1e-3"),
    ("lr = NaN", lambda tmp: sgd(lr=float("nan")), ValueProblem, "finite", "1e-3"),
    ("beta = 1", lambda tmp: Adam(lm().parameters(), betas=(0.9, 1.0)), ValueProblem, "[0, 1)", "0.999"),
    ("eps = 0", lambda tmp: Adam(lm().parameters(), eps=0.0), ValueProblem, "eps", "1e-8"),
    ("nesterov alone", lambda tmp: sgd(nesterov=True), ValueProblem, "momentum", "momentum=0.9"),
    ("a step without gradients", lambda tmp: sgd().step(), ValueProblem, "gradients", "backward()"),
    ("an unknown optimiser", lambda tmp: train.get_optimizer("adamm"), UnknownName, "adamw", "Did you mean 'adam"),
    ("an unknown schedule", lambda tmp: train.get_schedule("cosin", 1, 2), UnknownName, "linear", "'cosine'"),
    ("warm-up longer than the run", lambda tmp: schedules.warmup_cosine(20, 10), ValueProblem, "20 steps", "tenth"),
    ("a share of the steps", lambda tmp: schedules.warmup(0.1), ValueProblem, "whole number", "int(0.1"),
    ("a floor above 1", lambda tmp: schedules.warmup_linear(1, 10, floor=2), ValueProblem, "floor", "share"),
    ("a gradient of NaN", lambda tmp: train.clip_gradients([np.ones(2), np.array([np.nan])], 1.0), ValueProblem,
     "1 of 2", "clip"),
    ("a state of another optimiser", lambda tmp: sgd().load_state_dict(Adam(lm().parameters()).state_dict()),
     ValueProblem, "velocity", "another optimiser"),
    # -------------------------------------------------------------------------------------------------- writing
    ("a negative temperature", lambda tmp: generate(lm(), CORPUS, "to", 3, -1.0),
     ValueProblem, "temperature", "bolder"),
    ("temperature NaN", lambda tmp: generate(lm(), CORPUS, "to", 3, float("nan")),
     ValueProblem, "temperature", "bolder"),
    ("top_k = 0", lambda tmp: generate(lm(), CORPUS, "to", 3, 1.0, 0), ValueProblem, "top_k", "None draws"),
    ("top_k above the vocabulary", lambda tmp: generate(lm(), CORPUS, "to", 3, 1.0, 99), ValueProblem, "vocabulary",
     "None"),
    ("n = -1", lambda tmp: generate(lm(), CORPUS, "to", -1), ValueProblem, "at least 0", "symbols"),
    ("an empty prompt", lambda tmp: generate(lm(), CORPUS, "", 3), ShapeError, "at least one id", "line break"),
    ("an unknown symbol", lambda tmp: generate(lm(), CORPUS, "tö", 3), ValueProblem, "'ö' at position 1", "accents"),
    # --------------------------------------------------------------------------------------------------- models
    ("heads that do not divide d", lambda tmp: lm(d=10, heads=4), ValueProblem, "d = 10 and 4 heads", "[1, 2, 5, 10]"),
    ("no blocks", lambda tmp: lm(blocks=0), ValueProblem, "blocks", ""),
    ("d = 8.5", lambda tmp: lm(d=8.5), Explained, "d must be", ""),
    ("text longer than the context", lambda tmp: lm()(np.zeros((1, 7), int)), ShapeError, "at most 6", "pieces"),
    ("one sequence without a batch", lambda tmp: lm()(np.zeros(6, int)), ShapeError, "(B, T)", "ids[None, :]"),
    ("ids out of range", lambda tmp: lm()(np.full((1, 3), 99)), ValueProblem, "ids from 99", "vocabulary"),
    ("float ids", lambda tmp: lm()(np.zeros((1, 3))), DtypeError, "integers", "astype"),
    ("a wrong segment", lambda tmp: Encoder(9, d=8, heads=2, blocks=1, context=4)(IDS[:, :4], segments=IDS[:, :4] + 2),
     ValueProblem, "ids must be in 0 … 1", ""),
    ("an unknown connection", lambda tmp: lm(connection="pre-norm"),
     UnknownName, "pre_norm", "Did you mean 'pre_norm'"),
    ("an unknown norm", lambda tmp: get_norm("layer_norm"), UnknownName, "rmsnorm", "'layernorm'"),
    ("an unknown initialiser", lambda tmp: get_init("Xavier"), UnknownName, "xavier", "'xavier'"),
    ("an unknown activation", lambda tmp: lm(activation="gelu-tanh"), UnknownName, "silu", "'gelu_tanh'"),
    ("an unknown model", lambda tmp: build("DecoderLm", {}), UnknownName, "Encoder", "'DecoderLM'"),
    ("dropout of 10", lambda tmp: Dropout(10, RNG), ValueProblem, "[0, 1)", "0.1"),
    ("a state with a missing name", lambda tmp: lm().load_state_dict({}), ValueProblem, "missing", "same settings"),
    ("a state of another width", lambda tmp: lm().load_state_dict(lm(d=16).state_dict()), ShapeError, "must have shape",
     "same settings"),
    # ---------------------------------------------------------------------------------------------------- files
    ("no such folder", lambda tmp: atomic_write(tmp / "no" / "a.txt", "x"), FileProblem, "a.txt", "create it"),
    ("a file as a folder", lambda tmp: ((tmp / "f").write_text("x"), atomic_write(tmp / "f" / "a", "x")), FileProblem,
     "folder that exists", "not a folder"),
    ("a folder as a file", lambda tmp: save_checkpoint(tmp, lm()), FileProblem, "folder", "add a file name"),
    ("no checkpoint there", lambda tmp: load_checkpoint(tmp / "run.npz"), FileProblem, "run.npz", "path"),
    ("text as a checkpoint", lambda tmp: ((tmp / "a").write_text("hello"), load_checkpoint(tmp / "a")), FileProblem,
     "5 bytes", "another kind of file"),
    ("training into a missing folder", lambda tmp: trained((IDS, IDS), checkpoint=tmp / "no" / "a.npz"), FileProblem,
     "folder", "create it"),
    ("resuming from nothing", lambda tmp: trained((IDS, IDS), resume=tmp / "a.npz"), FileProblem, "exist", "path"),
]  # fmt: skip


@pytest.mark.parametrize("what, call, kind, words, hint", ROWS, ids=[row[0] for row in ROWS])
def test_the_message(tmp_path, what, call, kind, words, hint):
    with pytest.raises(kind) as caught:
        call(tmp_path)
    error = caught.value
    assert isinstance(error, Explained) and error.must and error.given and error.hint
    assert words in f"{error.must}; got {error.given}" and hint in error.hint
    assert str(error) == f"{error.must}; got {error.given}. {error.hint}"


def test_a_missing_folder_is_noticed_before_hours_of_training(tmp_path):
    """The first step has not been made when the message comes."""
    seen = []
    with pytest.raises(FileProblem):
        trained((IDS, IDS), steps=5, checkpoint=tmp_path / "no" / "a.npz", on_step=lambda step, h: seen.append(step))
    assert seen == []


def test_the_loop_shows_one_message_and_not_our_insides():
    with pytest.raises(ValueProblem) as caught:
        trained((IDS[:0], IDS[:0]))
    assert caught.value.__suppress_context__
    assert len(caught.traceback) <= 3
