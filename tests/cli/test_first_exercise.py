"""What README promises a new learner: the LayerNorm exercise, two mistakes named, then a pass."""

import json

import pytest

STUB = '    raise NotImplementedError("layernorm/backward")\n'
START = "    xhat, rstd, gamma, has_beta = saved\n    rows = tuple(range(dy.ndim - 1))\n"
END = (
    "    dgamma = None if gamma is None else (dy * xhat).sum(axis=rows)\n"
    "    dbeta = dy.sum(axis=rows) if has_beta else None\n    return dx, dgamma, dbeta\n"
)
WITH_GAMMA = "    g = dy if gamma is None else dy * gamma\n"
WITHOUT_GAMMA = "    g = dy\n"
MEAN_ONLY = "    dx = rstd * (g - g.mean(-1, keepdims=True))\n"
COMPLETE = "    dx = rstd * (g - g.mean(-1, keepdims=True) - xhat * (g * xhat).mean(-1, keepdims=True))\n"

TRIES = [
    ("not begun", None, "not attempted", []),
    ("both mistakes", WITHOUT_GAMMA + MEAN_ONLY, "failed", ["gamma_forgotten", "variance_term_left_out"]),
    ("the variance term", WITH_GAMMA + MEAN_ONLY, "failed", ["variance_term_left_out"]),
    ("the gain", WITHOUT_GAMMA + COMPLETE, "failed", ["gamma_forgotten"]),
    ("right", WITH_GAMMA + COMPLETE, "passed", []),
]


@pytest.fixture(scope="module")
def course(tmp_path_factory, minires):
    folder = tmp_path_factory.mktemp("learner") / "course"
    assert minires("init", folder).returncode == 0
    return folder


@pytest.mark.parametrize(("body", "status", "mistakes"), [t[1:] for t in TRIES], ids=[t[0] for t in TRIES])
def test_each_try_is_told_what_it_did(course, minires, body, status, mistakes):
    file = course / "lessons" / "02_layernorm" / "exercise.py"
    fresh = file.read_text("utf-8")
    if body is not None:
        assert STUB in fresh
        file.write_text(fresh.replace(STUB, START + body + END), "utf-8")
    try:
        done = minires("grade", "layernorm/backward", "--json", "grade.json", cwd=course)
    finally:
        file.write_text(fresh, "utf-8")
    (grade,) = json.loads((course / "grade.json").read_text("utf-8"))
    assert done.returncode == (0 if status == "passed" else 1)
    assert (grade["id"], grade["status"]) == ("layernorm/backward", status)
    assert sorted((grade["mistake"] or "").split(" + ")) == (mistakes or [""])
    assert all(name.replace("_", " ") in done.stdout for name in mistakes)


def test_the_solutions_pass(call, course, monkeypatch):
    monkeypatch.chdir(course)
    done = call("grade", "layernorm", "--solutions")
    assert done.code == 0 and "3 of 3 passed" in done.out


def test_a_second_init_keeps_what_was_written(course, minires):
    file = course / "lessons" / "01_residual_add" / "exercise.py"
    mine = file.read_text("utf-8") + "# mine\n"
    file.write_text(mine, "utf-8")
    done = minires("init", course)
    assert done.returncode == 0 and "Kept as you left it: lessons/01_residual_add/exercise.py" in done.stdout
    assert file.read_text("utf-8") == mine
