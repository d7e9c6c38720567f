"""Progress in a log and on a terminal, and tables. Time is a number that the test moves."""

import io
import subprocess
import sys

import pytest

from minires.ui import duration, progress, table


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class Terminal(io.StringIO):
    def isatty(self):
        return True


def work(steps, seconds_each, stream, **options):
    clock = Clock()
    done = []
    for item in progress(steps, "training", stream=stream, clock=clock, **options):
        clock.now += seconds_each
        done.append(item)
    return done


def test_work_of_less_than_two_seconds_is_silent():
    for stream in (io.StringIO(), Terminal()):
        assert work(19, 0.1, stream) == list(range(19))
        assert stream.getvalue() == ""


def test_a_log_gets_at_most_a_line_every_five_seconds_and_a_last_one():
    log = io.StringIO()
    work(100, 0.5, log)
    lines = log.getvalue().splitlines()
    assert lines[0].startswith("training 4/100, 4 %") and lines[-1] == "training 100/100, 100 %, 50 s in all"
    assert len(lines) == 11
    assert "\r" not in log.getvalue() and "\x1b" not in log.getvalue()


def test_the_time_left_is_measured_after_the_first_piece():
    """The first piece may compile: ten seconds for it do not make the other nine look like ninety."""
    log, clock = io.StringIO(), Clock()
    with progress(10, "work", stream=log, clock=clock) as bar:
        for seconds in (10, 1, 1, 1, 1, 1):
            clock.now += seconds
            bar.advance()
    assert "left" not in log.getvalue().splitlines()[0]
    assert "work 6/10, 60 %, 4.0 s left" in log.getvalue()


def test_a_terminal_gets_a_bar_that_is_taken_down():
    terminal = Terminal()
    work(100, 0.5, terminal)
    assert "training" in terminal.getvalue() and "100/100" in terminal.getvalue()
    assert terminal.getvalue().count("\x1b[?25h") == terminal.getvalue().count("\x1b[?25l") >= 1  # the cursor is back


def test_the_bar_is_taken_down_after_an_error():
    terminal, clock = Terminal(), Clock()
    with pytest.raises(ZeroDivisionError), progress(5, "training", stream=terminal, clock=clock) as bar:
        clock.now += 3
        bar.advance()
        raise ZeroDivisionError
    assert terminal.getvalue().count("\x1b[?25h") == terminal.getvalue().count("\x1b[?25l") >= 1


def test_square_brackets_in_a_label_are_not_markup():
    terminal, clock = Terminal(), Clock()
    with progress(2, "run [red]x[/red]", stream=terminal, clock=clock) as bar:
        clock.now += 3
        bar.advance(note="loss [1]")
    assert "[red]x[/red]" in terminal.getvalue() and "loss [1]" in terminal.getvalue()


def test_disabled_is_silent_and_iterables_without_length_work():
    log = io.StringIO()
    assert work(100, 1.0, log, enabled=False) and log.getvalue() == ""
    clock, seen = Clock(), []
    for item in progress((i for i in "abc"), "letters", stream=log, clock=clock):
        clock.now += 3
        seen.append(item)
    assert seen == ["a", "b", "c"] and "letters 3, 9.0 s in all" in log.getvalue()


def test_durations_as_people_say_them():
    values = [0.04, 9.94, 10, 59.4, 59.6, 61, 3599, 3600, 7890]
    expected = ["0.0 s", "9.9 s", "10 s", "59 s", "1 min 0 s", "1 min 1 s", "59 min 59 s", "1 h 0 min", "2 h 11 min"]
    assert [duration(v) for v in values] == expected


def test_tables_keep_brackets_align_numbers_and_go_to_stdout(capsys):
    table([{"name": "a[0]", "size": 1234567, "share": 0.123456}, {"name": "b", "size": 8, "share": None}], "sizes")
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert err == "" and "a[0]" in out and "1,234,567" in out and "0.1235" in out and lines[0].startswith("sizes")
    ends = [line.rstrip().rfind(text) + len(text) for line in lines for text in ("1,234,567",) if text in line]
    assert ends == [line.rstrip().rfind("8") + 1 for line in lines if line.strip() == "b           8" or " b " in line]


def test_tables_from_rows_without_names_and_empty_tables():
    out = io.StringIO()
    table([["x", 1], ["yy", 22]], stream=out)
    table([], "nothing", columns=["a"], stream=out)
    assert "yy" in out.getvalue() and "nothing" in out.getvalue()


def test_rich_is_imported_when_something_is_shown():
    code = "import sys, minires.ui, minires.files; print('rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
