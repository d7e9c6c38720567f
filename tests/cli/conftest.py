"""How these tests call the command: in this process where it is quick, as a process of its own where that matters."""

import os
import subprocess
import sys

import pytest

from minires.cli import main


def _environment(**extra):
    """This environment without what would change the output, plus `extra`."""
    dropped = ("FORCE_COLOR", "NUMBA_DISABLE_JIT", "PYTHONIOENCODING")
    return {k: v for k, v in os.environ.items() if k not in dropped} | {"PYTHONPATH": os.pathsep.join(sys.path)} | extra


def _minires(*words, cwd=None, timeout=300, **extra):
    """`minires WORDS` as a process: returncode, stdout, stderr."""
    command = [sys.executable, "-m", "minires", *map(str, words)]
    text = dict(text=True, encoding="utf-8", stdin=subprocess.DEVNULL)
    return subprocess.run(command, cwd=cwd, env=_environment(**extra), capture_output=True, timeout=timeout, **text)


@pytest.fixture(scope="session")
def environment():
    return _environment


@pytest.fixture(scope="session")
def minires():
    return _minires


class Called:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def call(capsys):
    """`call("run", "NAME")` → exit code, stdout, stderr, without the price of a new process."""

    def called(*words):
        try:
            code = main([str(word) for word in words])
        except SystemExit as stop:  # argparse's --help and --version
            code = stop.code
        return Called(code, *capsys.readouterr())

    return called
