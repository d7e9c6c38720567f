"""Kernels made inside functions are told apart, and found again by the next process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("numba")

CODE = """
from numba import types
from minires.kernels import attention
from minires.kernels.cache import described
from minires.kernels.vector import UNITS
for unit in (UNITS["avx2"], UNITS["avx512"]):
    for real in (types.float32, types.float64):
        print(described(getattr(attention.make_forward(unit, real), "py_func", None)))
"""


def test_the_key_is_the_same_in_every_process_and_different_for_every_kernel():
    texts = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        texts.append(done.stdout.splitlines())
    assert texts[0] == texts[1]
    assert len(set(texts[0])) == 4
    assert " at 0x" not in done.stdout
