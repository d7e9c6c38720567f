"""Files are whole or absent: every way in which writing can fail keeps what was there."""

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from minires.files import atomic_path, atomic_write, check_writable, read_bytes
from minires.messages import FileProblem


def test_text_and_bytes_arrive_as_they_are(tmp_path):
    atomic_write(tmp_path / "a.txt", "Zeile 1\nλ\r\n")
    assert (tmp_path / "a.txt").read_bytes() == "Zeile 1\nλ\r\n".encode()
    atomic_write(tmp_path / "a.txt", b"\x00\xff")
    assert read_bytes(tmp_path / "a.txt") == b"\x00\xff" and os.listdir(tmp_path) == ["a.txt"]


def test_the_temporary_file_is_beside_the_target_and_keeps_its_suffix(tmp_path):
    with atomic_path(tmp_path / "x.npz") as temporary:
        assert temporary.parent == tmp_path.resolve() and temporary.suffix == ".npz"
        np.savez(temporary, a=np.arange(3))
        assert not (tmp_path / "x.npz").exists()
    with np.load(tmp_path / "x.npz") as stored:
        assert stored["a"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, OSError])
def test_an_error_in_the_block_keeps_the_old_file_and_removes_the_new_one(tmp_path, error):
    atomic_write(tmp_path / "a.txt", "old")
    with pytest.raises((error, FileProblem)), atomic_path(tmp_path / "a.txt") as temporary:
        temporary.write_text("half of the ne")
        raise error
    assert (tmp_path / "a.txt").read_text() == "old" and os.listdir(tmp_path) == ["a.txt"]


def test_permissions_are_those_of_any_new_file(tmp_path):
    (tmp_path / "plain.txt").write_text("x")
    atomic_write(tmp_path / "ours.txt", "x")
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain.txt", "ours.txt")}
    assert len(modes) == 1


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to(tmp_path / "real" / "a.txt")
    atomic_write(tmp_path / "link.txt", "new")
    assert (tmp_path / "link.txt").is_symlink() and (tmp_path / "real" / "a.txt").read_text() == "new"


def test_relative_paths_and_plain_strings_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    atomic_write("a.txt", "x")
    assert (tmp_path / "a.txt").read_text() == "x"


def test_a_read_only_file_is_not_replaced(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("precious")
    path.chmod(0o444)
    with pytest.raises(FileProblem, match="marked read-only"):
        atomic_write(path, "new")
    assert path.read_text() == "precious" and os.listdir(tmp_path) == ["a.txt"]


TOO_BIG = """
import resource, signal, sys
from minires.files import atomic_write
from minires.messages import FileProblem
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    atomic_write(sys.argv[1], b"x" * 5000)
except FileProblem as problem:
    print(problem.hint)
"""

KILLED = """
import sys
from minires.files import atomic_write
number = 0
while True:
    number += 1
    atomic_write(sys.argv[1], str(number % 10) * 3_000_000)
    if number == 1:
        print("ready", flush=True)
"""


def run(code, *arguments, **options):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, env=environment, **options
    )


@pytest.mark.skipif(sys.platform == "win32", reason="limits on file size are a matter of POSIX")
def test_the_system_refuses_the_bytes(tmp_path):
    """A real limit on the file's size, as a full disk or a quota would be: it bites in the middle of the write."""
    (tmp_path / "a.bin").write_bytes(b"old")
    with run(TOO_BIG, str(tmp_path / "a.bin")) as process:
        assert b"The old file, if there was one, is whole" in process.stdout.read()
    assert (tmp_path / "a.bin").read_bytes() == b"old" and os.listdir(tmp_path) == ["a.bin"]


def test_a_killed_writer_leaves_a_whole_file(tmp_path):
    path = tmp_path / "a.txt"
    for delay in (0.003, 0.011, 0.017, 0.023, 0.031):
        with run(KILLED, str(path)) as process:
            assert process.stdout.readline() == b"ready\n"
            time.sleep(delay)
            process.kill()
        text = path.read_text()
        assert len(text) == 3_000_000 and len(set(text)) == 1


def test_reading_says_what_is_wrong(tmp_path):
    with pytest.raises(FileProblem, match="must exist") as caught:
        read_bytes(tmp_path / "nothing")
    assert "nothing" in caught.value.given and "path" in caught.value.hint
    with pytest.raises(FileProblem, match="folder"):
        read_bytes(tmp_path)


def test_a_file_problem_is_an_oserror_too():
    with pytest.raises(OSError):
        atomic_write(Path("no") / "such" / "folder.txt", "x")


def test_checking_beforehand_raises_the_same_and_changes_nothing(tmp_path):
    atomic_write(tmp_path / "a.txt", "old")
    check_writable(tmp_path / "a.txt")
    check_writable(tmp_path / "new.txt")
    assert os.listdir(tmp_path) == ["a.txt"] and (tmp_path / "a.txt").read_text() == "old"
    (tmp_path / "a.txt").chmod(0o444)
    for path in (tmp_path / "a.txt", tmp_path / "no" / "b.txt", tmp_path):
        with pytest.raises(FileProblem) as before:
            check_writable(path)
        with pytest.raises(FileProblem) as then:
            atomic_write(path, "x")
        assert str(before.value) == str(then.value)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_device_or_a_pipe_is_never_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(FileProblem, match="a device or a pipe"):
        atomic_write(pipe, "text")
    assert pipe.is_fifo()
