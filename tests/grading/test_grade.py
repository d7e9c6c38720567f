"""`grade` from end to end: processes, time limits, exceptions, prints, progress; and the copy that `init` makes."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from minires.grading import Course, Grade, find_course, grade, init_course, print_grades, shipped
from minires.grading.course import load_module
from minires.grading.progress import Progress
from minires.grading.stubs import is_fresh
from minires.messages import FileProblem, UnknownName, ValueProblem

ADD, BLOCK, BACKWARD = "residual_add/add_backward", "residual_add/block_backward", "layernorm/backward"
RIGHT = "return dy, dy"


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """A fresh copy of the course."""
    return init_course(tmp_path_factory.mktemp("fresh")).folder


@pytest.fixture
def course(tmp_path):
    return init_course(tmp_path / "course").folder


def answer(course, exercise_id, body):
    """Fill in one exercise."""
    file = Course(course).exercises[exercise_id].answer
    text = file.read_text()
    stub = f'raise NotImplementedError("{exercise_id}")'
    assert stub in text
    file.write_text(text.replace(stub, body.replace("\n", "\n    ")))
    return file


def one(course, exercise_id, body, **options):
    answer(course, exercise_id, body)
    (result,) = grade([exercise_id], course, **options)
    return result


# ------------------------------------------------------------------------------------------------------- verdicts


def test_a_right_answer_passes_and_the_next_one_is_named(course, capsys):
    result = one(course, ADD, RIGHT)
    assert (result.status, result.mistake, result.findings) == ("passed", None, [])
    print_grades([result, Grade(BLOCK, "not attempted")])
    shown = capsys.readouterr().out
    assert "1 of 2 passed" in shown and f"Next: fill in {BLOCK}" in shown


def test_two_mistakes_in_a_learners_file_are_named_in_three_parts(course, capsys):
    body = """xhat, rstd, gamma, has_beta = saved
dx = rstd * (dy - dy.mean(axis=-1, keepdims=True))
rows = tuple(range(dy.ndim - 1))
return dx, None if gamma is None else (dy * xhat).sum(axis=rows), dy.sum(axis=rows) if has_beta else None"""
    result = one(course, BACKWARD, body)
    assert (result.status, result.mistake) == ("failed", "variance_term_left_out + gamma_forgotten")
    print_grades([result])
    shown = capsys.readouterr().out
    for words in ("variance term left out", "gamma forgotten", "must", "yours", "look"):
        assert words in shown


def test_stubs_are_not_attempted(fresh):
    assert {g.status for g in grade(["residual_add"], fresh)} == {"not attempted"}


def test_an_exception_shows_the_learners_line_and_no_other(course):
    result = one(course, ADD, "a = dy + 1\nreturn a @ no_such_name, a")
    assert result.status == "error"
    assert (
        "NameError" in result.message
        and "return a @ no_such_name, a" in result.message
        and "exercise.py" in result.message
    )
    assert "Traceback" not in result.message and "minires/grading" not in result.message


def test_an_exception_inside_the_engine_shows_the_learners_line_too(course):
    body = "if dy.shape[-1] == 12:\n    return dy[:, :1] @ dy, dy\nreturn dy, dy"
    assert "dy[:, :1] @ dy, dy" in one(course, ADD, body).message


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ("while True: pass", "error", "still running after 3 s"),
        ("import os; os._exit(3)", "error", "exit code 3"),
        ("raise SystemExit('bye')", "error", "must return, not exit"),
        ("return (", "error", "must be valid Python"),
        ("return dy", "failed", "return dx, df, in this order"),
        ("pass", "failed", "A missing return gives None"),
        ("return None, None", "failed", "None instead of"),
        ("return residual_add_backward(dy, saved)", "error", "RecursionError"),
        ("return input('?')", "error", "Nobody can type"),
        ("a = 1\n  return dy, dy", "error", "spaces in front of this line"),
        ("import os; os.kill(os.getpid(), 11)", "error", "by the signal SIGSEGV"),
    ],
    ids=[
        *("endless", "exit", "SystemExit", "syntax", "one value", "no return", "Nones", "recursion", "input"),
        *("indent", "crash"),
    ],
)
def test_learners_code_that_does_not_return_gradients(course, body, status, words):
    result = one(course, ADD, body, seconds=3 if "while" in body else None)
    assert result.status == status
    assert words in result.message
    assert "pytest" not in result.output


@pytest.mark.parametrize("seconds", [float("nan"), -1, 0, float("inf")])
def test_a_time_limit_that_is_none_is_refused(fresh, seconds):
    with pytest.raises(ValueProblem, match="time limit must be more than 0"):
        grade([ADD], fresh, seconds=seconds)


def test_a_line_printed_in_every_case_is_shown_once(course):
    result = one(course, ADD, "print('here')\nprint(dy.ndim, 'axes')\nreturn dy, dy")
    first, *others = result.output.splitlines()
    assert first.startswith("here  (") and first.endswith(" times)")
    assert len(others) == len({line.split()[0] for line in others}) == 2


def test_an_endless_loop_leaves_no_process_behind(course):
    mark = course / "still_alive"
    child = f"import time; time.sleep(5); open({str(mark)!r}, 'w')"
    body = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {child!r}])"
    assert one(course, ADD, body, seconds=2.5).status == "error"
    time.sleep(3.5)
    assert not mark.exists()


def test_prints_are_shown_and_long_ones_cut(course, capsys):
    result = one(course, ADD, "print('shape', dy.shape)\nprint('x' * 9000)\nreturn dy, dy")
    assert result.output.startswith("shape (4, 3)") and "more characters" in result.output
    print_grades([result])
    assert "shape (4, 3)" in capsys.readouterr().out


def test_a_function_that_is_gone_and_a_file_that_is_gone(course):
    file = Course(course).exercises[ADD].answer
    file.write_text(file.read_text().replace("def residual_add_backward", "def residual_add_backwards"))
    assert "residual_add_backwards" in grade([ADD], course)[0].message
    file.unlink()
    assert "minires init" in grade([ADD], course)[0].message


def test_settings_of_the_surrounding_folder_do_not_matter(course):
    (course / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    (course / "conftest.py").write_text("raise RuntimeError('read')\n")
    assert one(course, ADD, RIGHT).status == "passed"


def test_another_exercise_in_the_file_does_not_matter(course):
    answer(course, BLOCK, "return 1 / 0")
    assert one(course, ADD, RIGHT).status == "passed"


def test_ids_lessons_and_unknown_names(fresh):
    course = Course(fresh)
    names = [e.id for e in course.select(["2"])]
    assert names == [e.id for e in course.select(["layernorm"])] == [e.id for e in course.select(["02_layernorm"])]
    assert len(names) == 3 and len(course.select()) == len(course.exercises)
    with pytest.raises(UnknownName, match="layernorm/backward"):
        course.select(["layernorm/bakward"])


def test_solutions_pass_and_leave_no_trace(course):
    before = (course / "lessons" / "progress.json").read_bytes()
    assert {g.status for g in grade([ADD, "layernorm/jacobian"], course, solutions=True)} == {"passed"}
    assert (course / "lessons" / "progress.json").read_bytes() == before


def test_ctrl_c_stops_at_once_and_keeps_the_progress_file_whole(course):
    answer(course, ADD, "while True: pass")
    code = f"from minires.grading import grade; grade([{ADD!r}], {str(course)!r})"
    child = subprocess.Popen([sys.executable, "-c", code], cwd=shipped(), stderr=subprocess.PIPE, text=True)
    time.sleep(2.5)
    child.send_signal(signal.SIGINT)
    _, stderr = child.communicate(timeout=10)
    assert "KeyboardInterrupt" in stderr
    json.loads((course / "lessons" / "progress.json").read_text())


@pytest.mark.parametrize("k", range(1, len(Course(shipped(), shipped()).lessons) + 1))
def test_graders_of_lesson_k_need_the_solutions_of_lessons_up_to_k_only(tmp_path, k):
    whole = Course(shipped(), shipped())
    for lesson in whole.lessons[:k]:
        (tmp_path / "tests" / "lessons").mkdir(parents=True, exist_ok=True)
        home = tmp_path / "lessons" / lesson.folder
        home.mkdir(parents=True)
        for name in ("lesson.toml", "solution.py", "mistakes.py"):
            (home / name).write_bytes((lesson.home / name).read_bytes())
        grader = lesson.exercises[0].grader
        (tmp_path / "tests" / "lessons" / grader.name).write_bytes(grader.read_bytes())
    part = Course(tmp_path, tmp_path)
    wanted = [e.id for e in part.lessons[-1].exercises]
    assert {g.status for g in grade(wanted, course=part, solutions=True)} == {"passed"}


def test_a_lesson_of_ones_own_is_graded_by_its_own_files(course):
    home = course / "lessons" / "50_double"
    home.mkdir()
    entry = '[[exercise]]\nid = "twice"\ntitle = "2x"\nfunction = "twice"\nreturns = ["y"]\n'
    (home / "lesson.toml").write_text('name = "double"\ntitle = "Doubling"\n\n' + entry)
    (home / "solution.py").write_text("def twice(x):\n    return 2 * x\n")
    (home / "mistakes.py").write_text(
        "from minires.grading import Mistake\n\n\ndef twice(wrong, x):\n    return x * x if wrong else 2 * x\n\n\n"
        "MISTAKES = {'twice': [Mistake('squared', 'y = 2 x', 'yours is x squared', 'x + x')]}\n"
    )
    (home / "exercise.py").write_text("def twice(x):\n    return x**2\n")
    (course / "tests" / "lessons" / "test_50_double.py").write_text(
        "import numpy as np\nfrom minires.grading import Case, grades\n\n\n@grades('double/twice')\n"
        "def test_twice(answer):\n    answer.check([Case((np.arange(1.0, 5.0),))])\n"
    )
    assert grade(["double/twice"], course)[0].mistake == "squared"
    assert grade(["double"], course, solutions=True)[0].status == "passed"
    plain = [sys.executable, "-m", "pytest", "-q", "tests/lessons/test_50_double.py"]
    done = subprocess.run(plain, cwd=course, env=_environment(), capture_output=True, text=True)
    assert "1 passed" in done.stdout, done.stdout


# ------------------------------------------------------------------------------------------------------- progress


def test_what_was_passed_stays_passed(course):
    path = course / "lessons" / "progress.json"
    for status in ("not attempted", "failed", "passed", "failed"):
        Progress.update(path, [Grade(ADD, status, "no_skip" if status == "failed" else None)])
    entry = Progress.read(path).exercises[ADD]
    assert entry == {"passed": True, "tries": 3, "last": "failed", "mistake": "no_skip"}


def test_exercises_that_no_longer_exist_survive_an_upgrade(course):
    path = course / "lessons" / "progress.json"
    Progress.update(path, [Grade("old/gone", "passed")])
    grade([ADD], course)
    init_course(course)
    assert Progress.read(path).exercises["old/gone"]["passed"] is True


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe\x00",
        b'{"exercises": 3}',
        b'{"exercises": {"a": 1}}',
        b'{"exercises": {"a": {"tries": "x"}}}',
    ],
)
def test_a_broken_progress_file_is_kept_aside_and_said(course, content):
    path = course / "lessons" / "progress.json"
    path.write_bytes(content)
    progress = Progress.read(path)
    assert "progress.broken.json" in progress.notice and progress.exercises == {}
    assert (course / "lessons" / "progress.broken.json").read_bytes() == content
    path.write_bytes(content)
    assert "progress.broken-1.json" in str(init_course(course))


def test_a_progress_file_that_cannot_be_kept_costs_no_grades(course, capsys):
    path = course / "lessons" / "progress.json"
    path.write_bytes(b"{")
    assert grade([ADD], course)[0].status == "not attempted"
    assert "progress.broken.json" in capsys.readouterr().err
    path.unlink()
    path.mkdir()
    assert grade([ADD], course)[0].status == "not attempted"
    assert "Progress was not kept" in capsys.readouterr().err


# ----------------------------------------------------------------------------------------------------------- init


def test_init_copies_everything_and_says_so(tmp_path):
    result = init_course(tmp_path / "new" / "course")
    names = {p.relative_to(result.folder).as_posix() for p in result.folder.rglob("*") if p.is_file()}
    for lesson in Course(shipped(), shipped()).lessons:
        parts = ("lesson.py", "lesson.toml", "exercise.py", "solution.py", "mistakes.py")
        assert {f"lessons/{lesson.folder}/{name}" for name in parts} <= names
        assert f"tests/lessons/test_{lesson.folder}.py" in names
    assert "README.md" in names and set(result.written) == names - {"lessons/progress.json"}
    assert all(
        is_fresh((lesson.home / "exercise.py").read_text(), lesson)
        for lesson in Course(result.folder, result.folder).lessons
    )


def test_init_twice_keeps_what_the_learner_wrote(course):
    file = answer(course, ADD, RIGHT)
    mine, name = file.read_bytes(), file.relative_to(course).as_posix()
    again = init_course(course)
    assert file.read_bytes() == mine and again.kept == [name] and not again.written
    assert name in str(again) and "--force" in str(again)


def test_init_with_force_keeps_a_copy(course):
    file = answer(course, ADD, RIGHT)
    mine = file.read_bytes()
    for copy in ("exercise.mine.py", "exercise.mine-1.py"):
        file.write_bytes(mine)
        forced = init_course(course, force=True)
        assert file.with_name(copy).read_bytes() == mine and file.read_bytes() != mine
        assert copy in str(forced)


def test_init_renews_a_file_of_an_older_version_that_nobody_changed(course):
    path, text = course / "lessons" / "progress.json", course / "lessons" / "02_layernorm" / "lesson.py"
    progress = Progress.read(path)
    old = b"# an older version\n"
    text.write_bytes(old)
    import hashlib

    progress.files["lessons/02_layernorm/lesson.py"] = hashlib.sha256(old).hexdigest()
    progress.write(path)
    assert init_course(course).written == ["lessons/02_layernorm/lesson.py"]
    assert text.read_bytes() == (shipped() / "lessons" / "02_layernorm" / "lesson.py").read_bytes()


def test_init_refuses_a_file_and_its_own_home(tmp_path):
    (tmp_path / "file").write_text("here already")
    for folder in (tmp_path / "file", tmp_path / "file" / "below", shipped()):
        with pytest.raises(FileProblem) as problem:
            init_course(folder)
        assert problem.value.hint
    assert (tmp_path / "file").read_text() == "here already"


def test_an_installed_course_is_not_graded_in_place(tmp_path, monkeypatch):
    """Where no course is at hand, the stubs inside the package are not a learner's answers."""
    import minires

    inside = tmp_path / "minires"
    init_course(inside / "_course")
    monkeypatch.setattr(minires, "__file__", str(inside / "__init__.py"))
    assert shipped() == inside / "_course"
    with pytest.raises(FileProblem, match="minires init course"):
        grade([ADD], course=Course(inside / "_course"))


def test_the_course_is_found_from_inside_and_elsewhere(course, tmp_path):
    assert find_course(course / "lessons" / "02_layernorm") == course
    assert find_course(tmp_path) == shipped()
    with pytest.raises(FileProblem, match="lessons/"):
        Course(tmp_path / "nothing")


# -------------------------------------------------------------------------------------------------------- lessons


@pytest.mark.parametrize("lesson", Course(shipped(), shipped()).lessons, ids=lambda lesson: lesson.name)
def test_the_lesson_runs_in_seconds_and_draws_its_figure(fresh, lesson):
    started = time.perf_counter()
    script = fresh / "lessons" / lesson.folder / "lesson.py"
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, env=_environment(), cwd=fresh.parent
    )
    assert done.returncode == 0, done.stderr
    assert time.perf_counter() - started < 60, "a lesson runs in seconds (the limit leaves room for a busy machine)"
    pictures = [p for p in (fresh / "figures").glob("*.svg") if p.stem in script.read_text()]
    assert pictures and str(pictures[0]) in done.stdout


def _environment():
    import os

    import minires

    return {**os.environ, "PYTHONPATH": str(Path(minires.__file__).parent.parent), "MPLBACKEND": "agg"}


@pytest.mark.parametrize("lesson", Course(shipped(), shipped()).lessons, ids=lambda lesson: lesson.name)
def test_the_lesson_names_its_claims_and_only_exercises_that_exist(lesson):
    import re

    text = (lesson.home / "lesson.py").read_text()
    assert set(re.findall(r"\bC\d\d+\b", text)) == set(lesson.claims)
    commands = re.findall(r"minires grade (\S+)", text + (lesson.home / "exercise.py").read_text())
    assert commands
    for word in commands:
        assert Course(shipped(), shipped()).select([word])
    for exercise in lesson.exercises:
        equations = re.findall(
            r"equations? (\d)", load_module(lesson.home / "solution.py").__dict__[exercise.function].__doc__
        )
        assert equations and all(f"\\tag{{{n}}}" in text for n in equations)
