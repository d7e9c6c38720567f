"""What `minires train` can learn: each problem brings batches, fixed ones to check on, a model that fits, and the
losses that a trained model must beat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from minires.data import CharCorpus, copy_task, digits, hamlet, induction, modular_addition, reversal
from minires.data.tasks import IGNORE, SequenceTask
from minires.messages import UnknownName, ValueProblem
from minires.models import DecoderLM, DeepMLP, get_recipe
from minires.nn import Module
from minires.tensor import no_grad
from minires.train import generate

Pair = tuple[np.ndarray, np.ndarray]
MODEL_SETTINGS = ("d", "blocks", "heads", "connection", "norm", "init", "activation", "dropout")
CHECKS = 8  # batches to check on, the same for every run, so that runs compare


@dataclass(frozen=True)
class Problem:
    """One thing to learn.

    batches(rng) → (inputs, targets). check: batches never trained on. references: losses in nats by what reaches
    them. build(settings) → a fresh model. show(model, rng) → text: what the model does. notes: kept in checkpoints.
    unused: settings of the command line that mean nothing here.
    """

    batches: Callable[[np.random.Generator], Pair]
    check: list[Pair]
    references: dict[str, float]
    build: Callable[[Mapping[str, Any]], Module]
    show: Callable[[Any, np.random.Generator], str]
    notes: dict[str, Any] = field(default_factory=dict)
    unused: tuple[str, ...] = ()


def make_problem(settings: Mapping[str, Any]) -> Problem:
    """The problem called `settings["data"]`. Raises UnknownName, and ValueProblem for settings that do not fit it."""
    name = settings["data"]
    if name not in PROBLEMS:
        raise UnknownName("data", name, PROBLEMS)
    return PROBLEMS[name](settings)


def check_seed(seed: int) -> None:
    """Raises ValueProblem for a seed below 0, which NumPy does not take."""
    if seed < 0:
        raise ValueProblem("a seed must be a whole number, at least 0", str(seed), "Any seed is as good: 0, 1, 2.")


def decoder(vocab: int, context: int, settings: Mapping[str, Any]) -> DecoderLM:
    """A fresh language model: by a recipe if `settings` name one, else from the connection, the norm and the rest."""
    chosen = {name: settings[name] for name in MODEL_SETTINGS}
    if not settings["recipe"]:
        return DecoderLM(vocab, context=context, rng=settings["seed"], **chosen)
    chosen = {name: value for name, value in chosen.items() if name not in ("connection", "norm")}
    return get_recipe(settings["recipe"]).build(vocab, context=context, rng=settings["seed"], **chosen)


def _checks(draw: Callable[[np.random.Generator], Pair]) -> list[Pair]:
    rng = np.random.default_rng(2026)
    return [draw(rng) for _ in range(CHECKS)]


# ------------------------------------------------------------------------------------------------------ text


def play(settings: Mapping[str, Any], text: str | None = None) -> Problem:
    """Characters of the shipped play (or of another text): predict the next one."""
    corpus = CharCorpus(hamlet() if text is None else text)
    size = settings["batch"], settings["length"]
    baselines = corpus.baselines()
    return Problem(
        batches=lambda rng: corpus.batch(rng, *size),
        check=_checks(lambda rng: corpus.batch(rng, *size, "val")),
        references={"letter frequencies (unigram)": baselines.unigram, "letter pairs (bigram)": baselines.bigram},
        build=partial(decoder, len(corpus.vocab), settings["length"]),
        show=lambda model, rng: generate(model, corpus, opening(corpus), 300, temperature=0.8, rng=rng),
        notes={"vocab": corpus.vocab},
        unused=("text",) if text is None else (),
    )


def text_file(settings: Mapping[str, Any]) -> Problem:
    """As `play`, with a UTF-8 text of your own, `settings["text"]`."""
    from minires.files import read_bytes

    if not settings["text"]:
        raise ValueProblem("the data `text` needs a file", "no --text", "Write --text FILE.")
    try:
        return play(settings, read_bytes(settings["text"]).decode("utf-8"))
    except UnicodeDecodeError as error:
        hint = "Save it as UTF-8 first."
        raise ValueProblem("the text must be UTF-8", f"{settings['text']!r}: {error.reason}", hint) from None


def opening(corpus: CharCorpus) -> str:
    """A prompt that every text has: a line break, or its first symbol."""
    return "\n" if "\n" in corpus.vocab else corpus.vocab[0]


def alphabet(vocab: str) -> CharCorpus:
    """A corpus that only knows how these symbols are numbered: enough to write with a trained model."""
    return CharCorpus(vocab * 4, val_fraction=0.5)


# ------------------------------------------------------------------------------------------------------ tasks


def _task(settings: Mapping[str, Any], draw: Callable[..., SequenceTask], unused: tuple[str, ...] = ()) -> Problem:
    """A sequence problem whose best loss is 0 nats: `draw(rng, batch)`."""
    example = draw(np.random.default_rng(0), 1)

    def pair(rng: np.random.Generator) -> Pair:
        batch = draw(rng, settings["batch"])
        return batch.inputs, batch.targets

    return Problem(
        batches=pair,
        check=_checks(pair),
        references={"an even guess": example.chance, "the best possible": 0.0},
        build=partial(decoder, example.vocab_size, example.inputs.shape[1]),
        show=lambda model, rng: _answers(model, draw(rng, 256)),
        unused=(*unused, "text"),
    )


def _sequence(task: Callable[..., SequenceTask]) -> Callable[[Mapping[str, Any]], Problem]:
    return lambda settings: _task(settings, partial(task, length=settings["length"]))


def _modular(settings: Mapping[str, Any]) -> Problem:
    return _task(settings, modular_addition, unused=("length",))


def _answers(model: Any, task: SequenceTask) -> str:
    """How many of the asked tokens are right, and the first sequence in full."""
    asked = task.asked
    said = _logits(model, task.inputs).argmax(-1)  # (B, T)
    right = (said == task.targets)[asked].mean()
    first = [
        ("read ", task.inputs[0]),
        ("asked", np.where(asked[0], task.targets[0], IGNORE)),
        ("said ", np.where(asked[0], said[0], IGNORE)),
    ]
    rows = [f"{name} " + " ".join("  ." if n == IGNORE else f"{n:3d}" for n in row) for name, row in first]
    return "\n".join([f"{right:.1%} of the asked tokens are right.", *rows])


# ------------------------------------------------------------------------------------------------------ images


def _digits(settings: Mapping[str, Any]) -> Problem:
    """8×8 images of handwritten digits, for the deep MLP."""
    images = digits(seed=settings["seed"])

    def draw(rng: np.random.Generator) -> Pair:
        chosen = rng.integers(0, len(images.x_train), settings["batch"])
        return images.x_train[chosen], images.y_train[chosen]

    def build(settings: Mapping[str, Any]) -> Module:
        chosen = {name: settings[name] for name in MODEL_SETTINGS if name not in ("heads", "dropout")}
        return DeepMLP(64, 10, rng=settings["seed"], **chosen)

    return Problem(
        batches=draw,
        check=[(images.x_test, images.y_test)],
        references={"an even guess": float(np.log(10)), "the best possible": 0.0},
        build=build,
        show=lambda model, rng: _accuracy(_logits(model, images.x_test).argmax(-1) == images.y_test),
        unused=("heads", "length", "dropout", "text", "recipe"),
    )


def _accuracy(right: np.ndarray) -> str:
    return f"{right.sum()} of {right.size} test images are right ({right.mean():.1%})."


def _logits(model: Any, inputs: np.ndarray) -> np.ndarray:
    model.eval()
    with no_grad():
        return model(inputs).data


PROBLEMS: dict[str, Callable[[Mapping[str, Any]], Problem]] = {
    "play": play,
    "text": text_file,
    "copy": _sequence(copy_task),
    "reversal": _sequence(reversal),
    "induction": _sequence(induction),
    "modular": _modular,
    "digits": _digits,
}


def used(problem: Problem, given: Iterable[str], name: str) -> None:
    """Raises ValueProblem if a setting was given that has no use: nothing is silently ignored."""
    given = list(given)
    idle = [setting for setting in given if setting in problem.unused]
    if idle:
        options = ", ".join(f"--{setting}" for setting in idle)
        hint = "Leave it out, or write --data text." if "text" in idle else "Leave it out."
        raise ValueProblem(f"a setting must mean something for the data {name!r}", options, hint)
    twice = [setting for setting in ("connection", "norm") if setting in given and "recipe" in given]
    if twice:
        options = f"--recipe and --{' and --'.join(twice)}"
        raise ValueProblem("a recipe brings its own connection and norm", options, "Leave out one of the two.")
