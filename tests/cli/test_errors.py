"""What a user can type wrong is explained in three parts, without a traceback, with exit code 2."""

import os
import signal
import subprocess
import sys

import pytest

from minires import cli
from minires.messages import ShapeError

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
