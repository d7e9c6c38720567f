"""The learner's function in the grader's hands."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from minires.grading.compare import Case, Outcome, run
from minires.grading.course import Exercise, load_module
from minires.grading.diagnose import Diagnosed, Finding, Trial
from minires.messages import Explained, did_you_mean


class NotAttempted(Exception):
    """The stub is still there."""


class LearnerError(Explained, RuntimeError):
    """An exception in the learner's code: shown with the learner's own line, without our frames."""


def grades(exercise_id: str) -> Callable[[Callable], Callable]:
    """Mark a test function as the grader of an exercise; its fixture `answer` is then that exercise's Answer."""

    def mark(test: Callable) -> Callable:
        test.exercise_id = exercise_id  # type: ignore[attr-defined]
        return test

    return mark


class Answer:
    """One function under test. Graders call `check` and then, if it replaces a part of the engine, `trains`."""

    def __init__(self, exercise: Exercise, function: Callable, file: Path):
        self.exercise, self.function, self.file = exercise, function, file

    @classmethod
    def from_file(cls, exercise: Exercise, file: Path) -> Answer:
        """The function as it stands in `file`. Raises LearnerError if the file does not run or lacks the function."""
        module = _load(file)
        function = getattr(module, exercise.function, None)
        if not callable(function):
            known = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
            raise LearnerError(
                f"{file.name} must define the function {exercise.function}",
                f"a file with {', '.join(known) or 'no functions'}",
                did_you_mean(exercise.function, known),
            )
        return cls(exercise, function, file)

    def check(self, cases: Iterable[Case]) -> None:
        """Compare with the solution on every case. Raises NotAttempted, LearnerError, or Diagnosed."""
        cases = list(cases)
        names, name = self.exercise.returns, self.exercise.function
        right = [run(getattr(self.exercise.solution, name), case, names) for case in cases]
        yours = [self._run(case, wanted) for case, wanted in zip(cases, right, strict=True)]
        book = self.exercise.mistakes
        trial = Trial(cases, names, yours, right, getattr(book, name), book.MISTAKES[name])
        findings = trial.findings()
        broken = next((i for i, o in enumerate(yours) if o.error), None)
        if broken is not None and not any(f.mistake in {m.name for m in trial.mistakes} for f in findings):
            raise explained(yours[broken].error, self.file, cases[broken])
        if findings:
            raise Diagnosed(findings)

    def _run(self, case: Case, right: Outcome) -> Outcome:
        outcome = run(self.function, case, self.exercise.returns, twice=True, arrays=right.arrays)
        if isinstance(outcome.error, NotImplementedError):
            raise NotAttempted(self.exercise.id)
        return outcome

    def trains(self, build: Callable[[], tuple[Any, Callable]], steps: int = 8) -> None:
        """A small model must train on this function exactly as on the engine's own (`minires.use`).

        build: () → (model, its loss as a function without arguments). Raises Diagnosed or LearnerError.
        """
        from minires.grading.engine import losses

        right = losses(build, steps)
        try:
            yours = losses(build, steps, {self.exercise.function: self.function})
        except (Exception, SystemExit) as error:
            raise explained(error, self.file) from None
        if abs(yours[-1] - right[-1]) > 1e-6 * abs(right[-1]):
            raise Diagnosed([_other_training(yours, right)])


def _other_training(yours: list[float], right: list[float]) -> Finding:
    return Finding(
        "training",
        "trains_differently",
        "inside a model, your function must give what the engine's own gives",
        f"after {len(right) - 1} steps a loss of {yours[-1]:.6f}, where the engine reaches {right[-1]:.6f}",
        "It was right on its own: does it treat an axis or an argument of None differently than the docstring says?",
    )


# --------------------------------------------------------------------------------------- exceptions of learners


def _load(file: Path) -> ModuleType:
    try:
        return load_module(file)
    except FileNotFoundError:
        raise LearnerError(
            "the exercise file must be there",
            f"no {file.name} in {file.parent}",
            "`minires init` puts a missing one back.",
        ) from None
    except SyntaxError as error:
        line = (error.text or "").strip()
        raise LearnerError(
            f"{file.name} must be valid Python",
            f"{error.msg} at line {error.lineno}: {line}",
            _layout_advice(error),
        ) from None
    except (Exception, SystemExit) as error:
        raise explained(error, file) from None


def _layout_advice(error: SyntaxError) -> str:
    if isinstance(error, TabError):
        return "Tabs and spaces are mixed: use spaces only, four for each level."
    if isinstance(error, IndentationError):
        return "Look at the spaces in front of this line and of the one above: lines of one block begin in one column."
    return "Look for a bracket, a colon or a quote."


def explained(error: BaseException | None, file: Path, case: Case | None = None) -> LearnerError:
    """The learner's own line, what was raised there, and on which arguments."""
    assert error is not None
    own = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) == file]
    if not own and error.__context__ is not None:  # the engine turned it into a message of its own
        return explained(error.__context__, file, case)
    where = f" at line {own[-1].lineno} of {file.name}: {own[-1].line}" if own else ""
    name = own[-1].name if own and own[-1].name != "<module>" else file.name
    return LearnerError(f"{name} must run to its end", f"{type(error).__name__}: {error}{where}", _advice(error, case))


def _advice(error: BaseException, case: Case | None) -> str:
    arguments = f" The arguments were: {case}{f' ({case.note})' if case.note else ''}." if case else ""
    return _ADVICE.get(type(error), "Read the line aloud: what is each name at that point?") + arguments


_ADVICE: dict[type, str] = {
    ValueError: "Often two shapes that do not fit: write the shape behind every line.",
    TypeError: "Often None where an array is expected, or a function called with the wrong number of arguments.",
    NameError: "A name that is not defined there: a typing error, or a value that was not unpacked from saved?",
    IndexError: "An index or an axis that the array does not have.",
    RecursionError: "The function calls itself without an end.",
    EOFError: "Nobody can type while a function is graded: take everything from the arguments, not from input().",
    SystemExit: "An exercise must return, not exit.",
    ModuleNotFoundError: "Everything needed here is NumPy and minires.",
}
