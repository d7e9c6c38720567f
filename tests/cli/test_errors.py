"""What a user can type wrong is explained in three parts, without a traceback, with exit code 2."""

import os
import signal
import subprocess
import sys

import pytest

from minires import cli
from minires.messages import ShapeError, ValueProblem

WRONG = [
    (["trian"], "command must be one of", "Did you mean 'train'?"),
    (["doctor", "--jsno", "x"], "takes the options", "Did you mean '--json'?"),
    (["doctor", "--json"], "minires doctor --help", "expected one argument"),
    (["doctor", "--json", "no/such/folder/x.json"], "folder that exists", "create it first"),
    (["doctor", "surplus"], "takes the options", "surplus"),
    (["cache", "claer"], "action must be one of", "Did you mean 'clear'?"),
    (["run"], "minires run --help", "NAME"),
    (["run", "gradient_tabel"], "experiment must be one of", "Did you mean 'gradient_table'?"),
    (["run", "jacobian_products", "--set", "sede=1"], "setting of jacobian_products", "Did you mean 'seed'?"),
    (["run", "jacobian_products", "--set", "seed"], "NAME=VALUE", "no blanks"),
    (["run", "jacobian_products", "--set", "seed=one"], "'seed' must be an int", "'one'"),
    (["run", "jacobian_products", "--set", "seed=-1"], "seed must be a whole number, at least 0", "-1"),
    (["compare", "--seed", "-1"], "seed must be a whole number, at least 0", "-1"),
    (["run", "gradient_table", "--set", "models="], "'models' needs at least one value", "decoder,encoder"),
    (["run", "gradient_table", "--set", "inits="], "'inits' needs at least one value", "xavier"),
    (["experiments", "gradient"], "experiment must be one of", "Did you mean 'gradient_table'?"),
]


@pytest.mark.parametrize(
    ("words", "rule", "hint"), WRONG, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_wrong_words_are_explained(call, words, rule, hint):
    done = call(*words)
    assert done.code == 2 and done.out == ""
    lines = done.err.splitlines()
    assert [line.split(":")[0] for line in lines if line[:1] != " "] == ["The rule", "Given", "Hint"]
    assert rule in lines[0] and hint in done.err and "Traceback" not in done.err


def test_debug_shows_the_traceback(call):
    with pytest.raises(LookupError):
        call("cache", "claer", "--debug")
    with pytest.raises(LookupError):
        call("--debug", "cache", "claer")


def test_a_part_of_several_lines_stays_indented():
    text = cli.explain(ShapeError("one\ntwo", "three", "four"))
    assert text == "The rule: one\n          two\nGiven:    three\nHint:     four"


def test_no_words_print_the_help(call):
    done = call()
    assert done.code == 0 and all(name in done.out for name in cli.COMMANDS)


def test_version(call):
    from minires import __version__

    assert call("--version").out == f"minires {__version__}\n"


def test_every_command_has_a_file_and_every_file_a_command():
    from importlib import resources

    files = {
        p.name.removesuffix(".py") for p in resources.files("minires.commands").iterdir() if p.name.endswith(".py")
    }
    assert set(cli.COMMANDS) == files - {"__init__", "output", "setup"}


@pytest.mark.skipif(os.name == "nt", reason="pipes of Windows do not break this way")
def test_a_reader_that_goes_away_is_no_error(environment):
    command = [sys.executable, "-m", "minires", "--help"]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(command, env=environment(), stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert done.stderr == "" and done.returncode in (0, 141)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["at the end", "at once"])
@pytest.mark.parametrize("words", [["--help"], ["residuals", "--list"], ["cache", "--json", "-"]], ids=" ".join)
def test_a_full_disk_under_the_output_is_explained(environment, words, unbuffered):
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "minires", *words]
        env = environment(PYTHONUNBUFFERED=unbuffered)
        done = subprocess.run(command, env=env, stdout=full, stderr=subprocess.PIPE, text=True)
        silent = subprocess.run(command, env=env, stdout=full, stderr=full)
    assert done.returncode == silent.returncode == 2
    assert [line.split(":")[0] for line in done.stderr.splitlines()] == ["The rule", "Given", "Hint"]
    assert "standard output: No space left" in done.stderr


def _takes_json():
    """Every command with the option, found by asking each parser."""
    return [name for name in cli.COMMANDS if "--json" in cli.build_parser(name)[1].option_names()]


@pytest.mark.parametrize("command", _takes_json())
def test_a_result_without_a_place_is_refused_before_it_is_measured(call, monkeypatch, command):
    def measured(args):
        raise AssertionError("it began to measure")

    monkeypatch.setattr(f"minires.commands.{command}.run", measured)
    done = call(command, *(["plus_i"] if command == "run" else []), "--json", "no/such/folder/x.json")
    assert done.code == 2 and "folder that exists" in done.err and done.out == ""


def test_a_figure_without_a_place_is_refused_before_it_is_measured(call, monkeypatch):
    monkeypatch.setattr("minires.experiments.plus_i.run", None)  # would be a TypeError
    done = call("run", "plus_i", "--figure", "no/such/folder/x.svg")
    assert done.code == 2 and "folder that exists" in done.err


@pytest.mark.parametrize("empty", ["models", "inits", "widths"])
def test_an_empty_gradient_table_is_refused_from_python_too(monkeypatch, empty):
    from minires.experiments import gradient_table
    from minires.experiments.registry import run_experiment

    monkeypatch.setattr(gradient_table, "cell", None)
    with pytest.raises(ValueProblem, match="needs at least one value"):
        run_experiment("gradient_table", {empty: ()})


@pytest.mark.skipif(os.name == "nt", reason="Windows has other signals")
def test_ctrl_c_is_calm(environment):
    waiting = (
        "import sys, time\nfrom minires.commands import cache\nfrom minires.cli import main\n"
        "def run(args):\n    print('waiting', flush=True)\n    time.sleep(60)\n"
        "cache.run = run\nsys.exit(main(['cache']))"
    )
    process = subprocess.Popen([sys.executable, "-c", waiting], env=environment(), stdout=-1, stderr=-1, text=True)
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130 and err.strip() == "Stopped. Every file is whole."


def test_an_old_terminal_gets_a_question_mark(environment):
    code = "import sys\nfrom minires import cli\ncli._print_any_character()\nprint('γ is here')"
    env = environment(PYTHONIOENCODING="ascii")
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "? is here\n"
