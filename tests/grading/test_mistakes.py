"""The graders are graded: every known wrong answer fails with its own message, and combinations with all of theirs."""

import inspect
import itertools

import numpy as np
import pytest

from minires.grading import Answer, Case, Course, Diagnosed, LearnerError, NotAttempted
from minires.grading.compare import run
from minires.grading.course import load_module, shipped
from minires.grading.diagnose import Trial
from minires.grading.stubs import exercise_file, is_fresh

COURSE = Course(shipped(), shipped())
EXERCISES = COURSE.exercises
KNOWN = [(e.id, m) for e in EXERCISES.values() for m in e.mistakes.MISTAKES[e.function]]
PAIRS = [
    ("layernorm/backward", "variance_term_left_out", "gamma_forgotten"),
    ("layernorm/backward", "mean_term_left_out", "rows_averaged"),
    ("layernorm/backward", "rstd_forgotten", "dgamma_without_xhat"),
    ("layernorm/forward", "sample_variance", "beta_forgotten"),
    ("layernorm/jacobian", "variance_term_left_out", "gamma_on_the_input_side"),
    ("residual_add/block_backward", "no_skip", "batch_mean"),
    ("residual_add/block_backward", "no_relu_gate", "pre_activation"),
    ("residual_add/paths", "jacobian_transposed", "longest_first"),
]


def grader(exercise):
    """The test function that grades this exercise."""
    found = [f for f in vars(load_module(exercise.grader)).values() if getattr(f, "exercise_id", None) == exercise.id]
    assert len(found) == 1, f"{exercise.id} needs one grader in {exercise.grader.name}"
    return found[0]


def judge(exercise_id, function):
    exercise = EXERCISES[exercise_id]
    grader(exercise)(Answer(exercise, function, exercise.home / "mistakes.py"))


def making(exercise_id, *wrong):
    exercise = EXERCISES[exercise_id]
    function = getattr(exercise.mistakes, exercise.function)

    def wrong_answer(*args, **options):
        with np.errstate(all="ignore"):  # without eps, a row of equal numbers is 0/0
            return function(set(wrong), *args, **options)

    return wrong_answer


def diagnosis(exercise_id, function):
    with pytest.raises(Diagnosed) as caught:
        judge(exercise_id, function)
    return caught.value


@pytest.mark.parametrize("exercise_id", EXERCISES)
def test_the_mistakes_file_without_mistakes_is_right(exercise_id):
    judge(exercise_id, making(exercise_id))


@pytest.mark.parametrize(("exercise_id", "mistake"), KNOWN, ids=[f"{e}-{m.name}" for e, m in KNOWN])
def test_every_known_mistake_fails_with_its_own_message(exercise_id, mistake):
    found = diagnosis(exercise_id, making(exercise_id, mistake.name))
    assert {f.mistake for f in found.findings} == {mistake.name}
    for part in (mistake.must, mistake.yours, mistake.look):
        assert part and part in str(found)


@pytest.mark.parametrize(("exercise_id", "first", "second"), PAIRS)
def test_two_mistakes_at_once_are_both_named(exercise_id, first, second):
    found = diagnosis(exercise_id, making(exercise_id, first, second))
    assert {f.mistake for f in found.findings} == {first, second}


SAME_NUMBERS = {  # two mistakes that undo each other, and two that give what another pair gives
    ("residual_add/block_backward", "no_skip", "skip_twice"): set(),
    ("layernorm/forward", "no_eps", "no_root"): {"no_root", "eps_outside_the_root"},
}


@pytest.mark.parametrize("exercise_id", EXERCISES)
def test_no_pair_of_mistakes_is_taken_for_others(exercise_id):
    """One of two mistakes may hide the other. But nobody is told of a mistake that they did not make."""
    exercise = EXERCISES[exercise_id]
    for pair in itertools.combinations([m.name for m in exercise.mistakes.MISTAKES[exercise.function]], 2):
        try:
            judge(exercise_id, making(exercise_id, *pair))
            found = set()
        except Diagnosed as problem:
            found = {f.mistake for f in problem.findings}
        if (exercise_id, *pair) in SAME_NUMBERS:
            assert found == SAME_NUMBERS[(exercise_id, *pair)]
        else:
            assert found and found <= set(pair), pair


def test_three_mistakes_at_once_are_all_named():
    wrong = {"variance_term_left_out", "gamma_forgotten", "rows_averaged"}
    assert {f.mistake for f in diagnosis("layernorm/backward", making("layernorm/backward", *wrong)).findings} == wrong


@pytest.mark.parametrize("exercise_id", EXERCISES)
def test_five_mistakes_or_more_and_no_two_alike(exercise_id):
    exercise = EXERCISES[exercise_id]
    mistakes = exercise.mistakes.MISTAKES[exercise.function]
    assert len(mistakes) >= 5
    for part in ("name", "yours", "look"):
        texts = [getattr(m, part) for m in mistakes]
        assert part == "look" or len(set(texts)) == len(texts)


# ----------------------------------------------------------- mistakes of conduct, tried on every exercise there is


def wrapped(exercise_id, change):
    exercise = EXERCISES[exercise_id]
    solution = getattr(exercise.solution, exercise.function)
    return lambda *args: change(solution, args)


def kinds(found):
    return {f.mistake for f in found.findings}


def first_array(values):
    return next(a for v in values for a in (v if isinstance(v, list | tuple) else [v]) if isinstance(a, np.ndarray))


@pytest.mark.parametrize("exercise_id", EXERCISES)
def test_writing_into_an_argument_is_found(exercise_id):
    def change(solution, args):
        result = solution(*args)
        result = (
            [r.copy() if isinstance(r, np.ndarray) else r for r in result]
            if isinstance(result, tuple)
            else result.copy()
        )
        first_array(args)[...] = 0
        return result

    found = [f.mistake for f in diagnosis(exercise_id, wrapped(exercise_id, change)).findings]
    assert found.count("changed_argument") == 1


def test_a_result_that_shares_memory_is_found_unless_the_solution_does_it_too():
    def apart(x):
        return x + 1, x + 1

    def together(x):
        return (x + 1,) * 2

    def found(yours, right):
        cases, names = [Case((np.ones(3),))], ("a", "b")
        outcomes = [[run(f, case, names, twice=True) for case in cases] for f in (yours, right)]
        return {f.mistake for f in Trial(cases, names, *outcomes, lambda wrong, x: right(x), []).findings()}

    assert found(together, apart) == {"shared_memory"}
    assert found(together, together) == found(apart, together) == found(apart, apart) == set()


@pytest.mark.parametrize("exercise_id", EXERCISES)
def test_float64_from_float32_is_found(exercise_id):
    def change(solution, args):
        return widened(solution(*args))

    def widened(result):
        if isinstance(result, tuple):
            return tuple(map(widened, result))
        return result.astype(np.float64) if isinstance(result, np.ndarray) else result

    assert "wrong_dtype" in kinds(diagnosis(exercise_id, wrapped(exercise_id, change)))


@pytest.mark.parametrize("exercise_id", EXERCISES)
@pytest.mark.parametrize("back", [False, True], ids=["float32", "and back"])
def test_an_answer_computed_in_float32_is_told_so(exercise_id, back):
    def change(solution, args):
        return shortened(solution(*args))

    def shortened(result):
        if isinstance(result, tuple):
            return tuple(map(shortened, result))
        short = result.astype(np.float32) if isinstance(result, np.ndarray) else result
        return short.astype(result.dtype) if back and isinstance(result, np.ndarray) else short

    found = diagnosis(exercise_id, wrapped(exercise_id, change))
    assert kinds(found) == {"low_precision"} and "as if computed in float32" in str(found)


@pytest.mark.parametrize("exercise_id", EXERCISES)
def test_the_docstring_says_that_the_dtype_stays(exercise_id):
    exercise = EXERCISES[exercise_id]
    assert "float32 stays float32" in inspect.getdoc(getattr(exercise.solution, exercise.function))


def test_rows_in_a_list_stand_for_an_array():
    for exercise_id in ("layernorm/jacobian", "residual_add/paths"):

        def listed(solution, args):
            result = solution(*args)
            return tuple(map(list, result)) if isinstance(result, tuple) else list(result)

        judge(exercise_id, wrapped(exercise_id, listed))


def test_numbers_in_a_list_are_judged_as_an_array():
    as_lists = wrapped("layernorm/jacobian", lambda solution, args: [a.tolist() for a in solution(*args)])
    assert kinds(diagnosis("layernorm/jacobian", as_lists)) == {"wrong_dtype"}


def test_the_literal_one_of_the_articles_is_known():
    def block_backward(dy, saved):
        _, h, w1, w2 = saved
        dh = dy @ w2.T * (h > 0)
        _, dw1, dw2 = EXERCISES["residual_add/block_backward"].solution.block_backward(dy, saved)
        return 1 + dh @ w1.T, dw1, dw2

    assert kinds(diagnosis("residual_add/block_backward", block_backward)) == {"plus_one"}


@pytest.mark.parametrize("exercise_id", EXERCISES)
@pytest.mark.parametrize("value", [None, 3.0, "dx", (), [1, 2, 3, 4, 5, 6]], ids=repr)
def test_a_wrong_kind_of_result_is_found(exercise_id, value):
    found = diagnosis(exercise_id, lambda *args: value)
    assert kinds(found) & {"wrong_return", "wrong_type", "wrong_shape"}


@pytest.mark.parametrize("exercise_id", EXERCISES)
def test_an_unknown_mistake_is_shown_with_values_side_by_side(exercise_id):
    def change(solution, args):
        result = solution(*args)
        odd = lambda a: a + 0.01 * np.sin(np.arange(a.size).reshape(a.shape)).astype(a.dtype)  # noqa: E731
        return (odd(result[0]), *result[1:]) if isinstance(result, tuple) else odd(result)

    found = diagnosis(exercise_id, wrapped(exercise_id, change))
    assert kinds(found) == {"unknown"}
    assert "right" in str(found) and "largest error at" in str(found)


def test_a_sum_that_grows_from_call_to_call_is_found():
    calls = itertools.count()

    def change(solution, args):
        dx, df = solution(*args)
        return dx + next(calls) * 1e-3, df

    with pytest.raises(Diagnosed):
        judge("residual_add/add_backward", wrapped("residual_add/add_backward", change))


def test_results_kept_between_calls_are_found():
    seen = []

    def change(solution, args):
        dx, df = solution(*args)
        seen.append(args)
        again = len(seen) > 1 and seen[-1][0] is seen[-2][0]
        return (dx * 2, df) if again else (dx, df)

    assert kinds(diagnosis("residual_add/add_backward", wrapped("residual_add/add_backward", change))) == {
        "not_repeatable"
    }


def test_a_mistake_in_special_cases_only_names_the_case():
    def one_pass(x, gamma, beta, eps=1e-5):
        mean = x.mean(axis=-1, keepdims=True)
        variance = (x * x).mean(axis=-1, keepdims=True) - mean**2
        rstd = 1 / np.sqrt(np.maximum(variance, 0) + eps)
        xhat = (x - mean) * rstd
        y = xhat if gamma is None else gamma * xhat
        return y.copy() if beta is None else y + beta, (xhat, rstd, gamma, beta is not None)

    found = diagnosis("layernorm/forward", one_pass)
    assert kinds(found) == {"special_case"}
    assert "a mean that is a million times larger than the spread" in str(found)


def test_an_exception_shows_the_arguments():
    def stumbles(dy, saved):
        return dy @ dy.T.T.T, dy

    with pytest.raises(LearnerError, match=r"float64\[2, 3, 5\]|float64\[4, 3\]"):
        judge("residual_add/add_backward", stumbles)


def test_right_alone_but_wrong_inside_a_model(monkeypatch):
    """An answer that looks at more than its arguments is caught when the model trains."""

    def sly(dy, saved):
        return (dy, dy) if dy.shape[-1] != 12 else (dy, 0 * dy)

    assert kinds(diagnosis("residual_add/add_backward", sly)) == {"trains_differently"}


# ------------------------------------------------------------------------------------------------ stubs and files


@pytest.mark.parametrize("exercise_id", EXERCISES)
def test_every_stub_is_not_attempted(exercise_id, tmp_path):
    exercise = EXERCISES[exercise_id]
    lesson = next(one for one in COURSE.lessons if exercise in one.exercises)
    file = tmp_path / "exercise.py"
    file.write_text(exercise_file(lesson))
    with pytest.raises(NotAttempted):
        grader(exercise)(Answer.from_file(exercise, file))


@pytest.mark.parametrize("lesson", COURSE.lessons, ids=lambda lesson: lesson.name)
def test_the_stubs_in_the_course_are_those_of_the_solutions(lesson):
    text = (lesson.home / "exercise.py").read_text()
    if is_fresh(text, lesson):
        assert text == exercise_file(lesson), "run `python -m minires.grading.stubs`"
    stubs = load_module(lesson.home / "exercise.py")
    for exercise in lesson.exercises:
        yours, right = getattr(stubs, exercise.function), getattr(exercise.solution, exercise.function)
        assert inspect.signature(yours) == inspect.signature(right)
        assert len(inspect.getdoc(right)) > 150, "a docstring says shapes, formula and what to return"
        wrong_way = inspect.signature(getattr(exercise.mistakes, exercise.function))
        assert list(wrong_way.parameters)[1:] == list(inspect.signature(right).parameters)


def test_a_name_that_replaces_nothing_is_not_claimed():
    """An exercise that says it goes into the engine has the engine's signature."""
    from minires.tensor import OPS

    for exercise in EXERCISES.values():
        name, _, side = exercise.function.rpartition("_")
        if name in OPS and side in ("forward", "backward"):
            theirs = inspect.signature(OPS[name].reference[side == "backward"])
            right = inspect.signature(getattr(exercise.solution, exercise.function))
            assert list(right.parameters) == list(theirs.parameters)


def test_outcomes_do_not_depend_on_earlier_cases():
    case = Case((np.ones(3), None))
    outcome = run(lambda dy, saved: (dy * 2, dy), case, ("dx", "df"))
    assert outcome.changed == [] and np.array_equal(case.args[0], np.ones(3))


# ------------------------------------------------------------------------------- right answers written another way


def add_backward_with_copies(dy, saved):
    return [dy.copy(), 1.0 * dy]


def block_backward_with_einsum(dy, saved):
    x, h, w1, w2 = saved
    rows = [list(range(dy.ndim - 1))] * 2
    dh = np.where(h > 0, np.einsum("...o,ho->...h", dy, w2), 0).astype(dy.dtype)
    dx = dy + np.einsum("...h,ih->...i", dh, w1)
    return dx, np.tensordot(x, dh, rows), np.tensordot(h * (h > 0), dy, rows)


def paths_with_a_polynomial(jacobians, dy):
    rows = [dy]
    for J in jacobians[::-1]:
        longer = [row @ J for row in rows]
        rows = [rows[0], *(a + b for a, b in zip(rows[1:], longer[:-1])), longer[-1]]
    return np.stack(rows)


def forward_with_var(x, gamma, beta, eps=1e-5):
    rstd = 1 / np.sqrt(np.var(x, -1, keepdims=True) + eps)
    xhat = (x - np.mean(x, -1, keepdims=True)) * rstd
    y = xhat * (1 if gamma is None else gamma) + (0 if beta is None else beta)
    return y, [xhat, rstd, gamma, beta is not None]


def backward_with_matrices(dy, saved):
    xhat, rstd, gamma, has_beta = saved
    d = dy.shape[-1]
    gain = np.ones(d, dy.dtype) if gamma is None else gamma
    core = np.eye(d, dtype=dy.dtype) - np.ones((d, d), dy.dtype) / d - xhat[..., :, None] * xhat[..., None, :] / d
    dx = np.einsum("...i,...ij->...j", dy * gain, core) * rstd
    flat, hats = dy.reshape(-1, d), xhat.reshape(-1, d)
    return dx, None if gamma is None else np.einsum("nd,nd->d", flat, hats), flat.sum(0) if has_beta else None


def jacobian_from_backward_passes(x, gamma, eps=1e-5):
    from minires.ops.norms import layernorm_backward, layernorm_forward

    saved = layernorm_forward(x, gamma, None, eps)[1]
    J = np.stack([layernorm_backward(row, saved)[0] for row in np.eye(len(x), dtype=x.dtype)])
    blind = np.stack([np.ones_like(x), x - x.mean()])
    return J, blind / np.sqrt((blind**2).sum(1, keepdims=True))


@pytest.mark.parametrize(
    ("exercise_id", "function"),
    [
        ("residual_add/add_backward", add_backward_with_copies),
        ("residual_add/block_backward", block_backward_with_einsum),
        ("residual_add/paths", paths_with_a_polynomial),
        ("layernorm/forward", forward_with_var),
        ("layernorm/backward", backward_with_matrices),
        ("layernorm/jacobian", jacobian_from_backward_passes),
    ],
)
def test_right_answers_written_another_way_pass(exercise_id, function):
    judge(exercise_id, function)
