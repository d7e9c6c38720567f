"""Starting is quick: `--help` answers at once, and importing costs little more than NumPy itself."""

import subprocess
import sys
import time

import pytest

from minires.cli import COMMANDS

HEAVY = ("numpy", "numba", "matplotlib", "rich", "pytest", "threadpoolctl")


@pytest.fixture
def seconds(environment):
    """The best of several runs of Python: what it takes when nobody else is using the machine."""

    def once(arguments):
        began = time.perf_counter()
        subprocess.run([sys.executable, *arguments], env=environment(), stdout=subprocess.DEVNULL, check=True)
        return time.perf_counter() - began

    return lambda *arguments, times=5: min(once(arguments) for _ in range(times))


@pytest.mark.parametrize("words", [["--help"], ["train", "--help"], ["tour", "--help"]])
def test_help_answers_within_a_fifth_of_a_second(words, seconds):
    """Beyond that, at most six times what Python takes to start, for machines that are slow or busy."""
    assert seconds("-m", "minires", *words) < max(0.2, 6 * seconds("-c", "pass"))


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command_loads_nothing_heavy(command, environment):
    code = (
        "import sys\nfrom minires.cli import main\n"
        f"try: main([{command!r}, '--help'])\nexcept SystemExit: pass\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert f"usage: minires {command}" in done.stdout


def test_importing_everything_costs_at_most_twice_numpy(seconds):
    assert seconds("-c", "import minires.api") <= 2 * seconds("-c", "import numpy")


def test_import_and_first_gradient_load_neither_compiler_nor_pictures(environment):
    code = (
        "import sys, minires\nassert 'numpy' not in sys.modules\n"
        "x = minires.Tensor([1.0, 2.0], requires_grad=True); (x * x).sum().backward()\n"
        "print([m for m in ('matplotlib', 'rich', 'pytest') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
