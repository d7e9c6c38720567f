"""The doctor sees what is wrong, says what to do, and never falls over."""

import builtins
import importlib.metadata
import json

import pytest

from minires import doctor
from minires.doctor import Finding, examine, healthy


def by_name(findings):
    return {f.about: f for f in findings}


def test_this_installation_is_healthy_and_the_report_is_json(call, tmp_path):
    path = tmp_path / "report.json"
    done = call("doctor", "--json", path)
    written = json.loads(path.read_text("utf-8"))
    assert done.code == 0 and written["healthy"] is True and "in order" in done.out
    names = [f["about"] for f in written["findings"]]
    assert {"Python", "numpy", "BLAS", "kernel cache", "compiled kernels", "LayerNorm backward"} <= set(names)


def test_json_on_standard_output_is_all_there_is(call):
    assert json.loads(call("doctor", "--json", "-").out)["healthy"] is True


def test_a_missing_package_is_a_problem_with_its_cure(monkeypatch, call):
    real = importlib.metadata.version

    def version(name):
        if name == "rich":
            raise importlib.metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    found = by_name(examine())["rich"]
    assert found.status == "problem" and 'pip install "rich>=13.0"' in found.advice
    assert call("doctor").code == 1


def test_an_old_package_is_a_problem(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "1.26.4")
    assert by_name(examine())["numpy"].status == "problem"


def test_without_numpy_the_doctor_still_answers(monkeypatch, capsys):
    real = builtins.__import__

    def no_numpy(name, *rest):
        if name == "numpy":
            raise ImportError("No module named 'numpy'")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", no_numpy)
    findings = examine()
    assert not healthy(findings) and "ImportError" in by_name(findings)["blas"].value


@pytest.mark.parametrize("switch", ["OPENBLAS_CORETYPE", "OMP_NUM_THREADS"])
def test_a_switch_that_changes_numbers_is_noted(monkeypatch, switch):
    monkeypatch.setenv(switch, "1")
    assert by_name(examine())[switch].status == "note"


def test_without_a_writable_cache_folder_there_is_advice(monkeypatch):
    from minires.kernels import cache

    monkeypatch.setattr(cache, "cache_folder", lambda: None)
    found = by_name(examine())["kernel cache"]
    assert found.status == "problem" and "NUMBA_CACHE_DIR" in found.advice


def test_disabled_compiler_is_a_problem(minires):
    done = minires("doctor", NUMBA_DISABLE_JIT="1")
    assert done.returncode == 1 and "unset NUMBA_DISABLE_JIT" in done.stdout


def test_a_wrong_gradient_is_a_problem(monkeypatch):
    import minires as package

    with package.use(layernorm_backward=lambda dy, saved: (dy, dy.sum((0,)), dy.sum((0,)))):
        found = by_name(examine())
    assert found["engine"].status == "problem"


def test_a_check_that_breaks_is_a_finding(monkeypatch):
    def _broken():
        yield Finding("first", "fine")
        raise ValueError("out of order")

    monkeypatch.setattr(doctor, "CHECKS", [_broken])
    assert [f.status for f in examine()] == ["ok", "problem"]
