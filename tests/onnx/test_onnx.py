"""ONNX's node cases, each one a test: our functions give ONNX's numbers, or the list says why they do not apply.

python -m tests.onnx.test_onnx      writes uncovered.json anew and prints the count
"""

import json
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="install the development extra: pip install -e .[dev]")

from minires import Tensor  # noqa: E402
from tests.onnx.cases import RELEVANT, relevant_cases  # noqa: E402
from tests.onnx.operators import OPERATORS, NotCovered  # noqa: E402

LIST = Path(__file__).with_name("uncovered.json")
CASES = relevant_cases()
UNCOVERED = json.loads(LIST.read_text(encoding="utf-8"))["uncovered"] if LIST.exists() else {}


def run(case):
    """Our results for a case, as arrays, in the order of its outputs."""
    parts = {"num_outputs": len(case.wanted)} if case.operator == "Split" else {}
    result = OPERATORS[case.operator](*case.inputs, **{**parts, **case.attributes})
    results = result if isinstance(result, tuple) else (result,)
    if len(results) < len(case.wanted):
        raise NotCovered(f"{len(case.wanted)} results, of which we have {len(results)}")
    chosen = [r for name, r in zip(case.wanted, results, strict=False) if name]
    return [r.data if isinstance(r, Tensor) else r for r in chosen]


def why_not(case):
    """The reason why a case does not apply here, or None (also if it goes wrong: then `test_case` shows how)."""
    try:
        run(case)
    except NotCovered as reason:
        return str(reason)
    except Exception:
        return None
    return None


def test_every_relevant_operator_is_in_the_map():
    assert set(RELEVANT) == set(OPERATORS)


@pytest.mark.parametrize("name", [n for n in CASES if n not in UNCOVERED])
def test_case(name):
    case = CASES[name]
    found = run(case)
    assert len(found) == len(case.outputs)
    for ours, theirs in zip(found, case.outputs, strict=True):
        assert ours.shape == theirs.shape
        assert ours.dtype.kind == theirs.dtype.kind and (ours.dtype == theirs.dtype or theirs.dtype.kind != "f")
        np.testing.assert_allclose(ours, theirs, rtol=case.rtol, atol=case.atol)


@pytest.mark.parametrize("name", UNCOVERED)
def test_uncovered(name):
    """The list is true: the reason is the one that the map gives today."""
    if name not in CASES:
        pytest.skip(f"onnx {onnx.__version__} has no case of this name")
    assert why_not(CASES[name]) == UNCOVERED[name]


def test_the_count_is_published():
    record = json.loads(LIST.read_text(encoding="utf-8"))
    assert record["passing"] + len(record["uncovered"]) == record["relevant"]
    if record["onnx"] == onnx.__version__:
        assert record["relevant"] == len(CASES)


def write_list():
    from minires.files import atomic_write

    uncovered = {name: reason for name, case in CASES.items() if (reason := why_not(case))}
    record = {
        "onnx": onnx.__version__,
        "relevant": len(CASES),
        "passing": len(CASES) - len(uncovered),
        "uncovered": uncovered,
    }
    atomic_write(LIST, json.dumps(record, indent=1) + "\n")
    print(f"{record['passing']} of {record['relevant']} relevant cases of onnx {onnx.__version__} apply and pass")


if __name__ == "__main__":
    write_list()
