"""How kernels are compiled and kept: read-only installs, edits, processes at once, a learner's kernels."""

import ast
import os
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

import minires.kernels
from minires.kernels.cache import cache_info, imported_kernels, keepable, source_stamp
from minires.kernels.checks import same_float_dtype
from minires.kernels.jit import njit
from minires.messages import DtypeError

FOLDER = Path(minires.kernels.__file__).parent
HELPER = """
from minires.kernels.jit import njit

@njit
def more(x):
    return x + 1
"""
KERNEL = """
from minires.kernels.helper import more
from minires.kernels.jit import njit

@njit
def double(x, out):
    for i in range(x.size):
        out[i] = 2 * more(x[i])
"""
PAUSE = """
from numba.extending import overload

def pause():
    pass

@overload(pause)
def _pause():
    import time
    time.sleep(1.1)
    return lambda: None
"""
USE = """
import sys
import numpy as np
from minires.kernels.tiny import double
for dtype in sys.argv[1:]:
    x, out = np.zeros(3, dtype), np.empty(3, dtype)
    double(x, out)
    print(out[0], sum(double.stats.cache_hits.values()))
"""


@pytest.fixture
def install(tmp_path):
    """A small copy of the package whose kernels may be edited, with a kernel of its own."""
    kernels = tmp_path / "minires" / "kernels"
    kernels.mkdir(parents=True)
    for name in ("cache.py", "jit.py", "__init__.py"):
        shutil.copy(FOLDER / name, kernels)
    (tmp_path / "minires" / "__init__.py").write_text("")
    (kernels / "helper.py").write_text(HELPER)
    (kernels / "tiny.py").write_text(KERNEL)
    return tmp_path


def start(install, *dtypes, code=USE, **environment):
    settings = {**os.environ, "PYTHONPATH": str(install), "PYTHONDONTWRITEBYTECODE": "1", **environment}
    settings = {name: value for name, value in settings.items() if value is not None}
    command = [sys.executable, "-c", textwrap.dedent(code), *dtypes]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=install, env=settings, **pipes)


def finish(process):
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out.splitlines(), err


def test_second_process_loads_and_says_nothing(install, tmp_path):
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    lines, notice = finish(start(install, "float32", **cache))
    assert lines == ["2.0 0"]
    assert notice.count("compiling kernels") == 1
    assert finish(start(install, "float32", **cache)) == (["2.0 1"], "")


def test_an_edit_of_an_imported_file_compiles_again(install, tmp_path):
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    finish(start(install, "float32", **cache))
    path = install / "minires" / "kernels" / "helper.py"
    path.write_text(path.read_text().replace("x + 1", "x + 2"))
    lines, _ = finish(start(install, "float32", **cache))
    assert lines == ["4.0 0"]


@pytest.mark.parametrize("home", [None, "/dev/null"])
def test_read_only_install_works_and_says_so_once(install, home):
    (install / "minires" / "kernels" / "__pycache__").write_text("a file where the folder should be")
    nowhere = {"NUMBA_CACHE_DIR": None, "HOME": home or "/dev/null/home", "XDG_CACHE_HOME": "/dev/null/cache"}
    lines, notice = finish(start(install, "float32", "float64", **nowhere))
    assert lines == ["2.0 0", "2.0 0"]
    assert notice.count("no writable folder") == 1


def test_four_processes_start_from_an_empty_cache(install, tmp_path):
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    orders = [("float32", "float64"), ("float64", "float32")] * 2
    running = [start(install, *order, **cache) for order in orders]
    for lines, _ in map(finish, running):
        assert [line[:3] for line in lines] == ["2.0", "2.0"]
    lines, _ = finish(start(install, "float32", "float64", **cache))
    assert [line[:3] for line in lines] == ["2.0", "2.0"]


def test_machine_code_of_another_signature_is_not_run(install, tmp_path):
    """What a race of two processes leaves behind: the index names the other signature's file."""
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    finish(start(install, "float32", "float64", **cache))
    first, second = sorted((tmp_path / "kept").rglob("tiny.double-*.nbc"))
    a, b = first.read_bytes(), second.read_bytes()
    first.write_bytes(b)
    second.write_bytes(a)
    lines, _ = finish(start(install, "float32", "float64", **cache))
    assert lines == ["2.0 0", "2.0 0"]


def test_a_damaged_cache_is_made_anew(install, tmp_path):
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    finish(start(install, "float32", **cache))
    for path in (tmp_path / "kept").rglob("tiny.double-*"):
        path.write_bytes(path.read_bytes()[:40])
    assert finish(start(install, "float32", **cache))[0] == ["2.0 0"]
    assert finish(start(install, "float32", **cache))[0] == ["2.0 1"]


def test_clear_cache_removes_what_cache_info_counts(install, tmp_path):
    code = (
        USE
        + """
from minires.kernels.cache import cache_info, clear_cache
before = cache_info()
print(before["files"] == clear_cache() > 0, before["bytes"] > 0, cache_info()["files"])
"""
    )
    lines, _ = finish(start(install, "float32", code=code, NUMBA_CACHE_DIR=str(tmp_path / "kept")))
    assert lines[-1] == "True True 0"


# ------------------------------------------------------------------------------------------------- old versions


def edit(install, amount):
    (install / "minires" / "kernels" / "helper.py").write_text(HELPER.replace("x + 1", f"x + {amount}"))


def folders_of(name, kept):
    return set((kept / "minires").glob(f"{name}-*"))


def age(folder, days):
    """As if nobody had asked for it since."""
    os.utime(folder, (time.time() - days * 24 * 3600,) * 2)


@pytest.fixture
def three_versions(install, tmp_path):
    """The folders of tiny.py's code: of the first version, and of two edits of the file that it imports."""
    folders, kept = [], tmp_path / "kept"
    for amount in (1, 2, 3):
        edit(install, amount)
        before = folders_of("tiny", kept)
        assert finish(start(install, "float32", NUMBA_CACHE_DIR=str(kept)))[0] == [f"{2 * amount}.0 0"]
        folders += folders_of("tiny", kept) - before
    return folders


def test_two_versions_side_by_side_keep_their_code(install, three_versions, tmp_path):
    assert len(three_versions) == 3
    for amount in (1, 2, 3, 1):
        edit(install, amount)
        assert finish(start(install, "float32", NUMBA_CACHE_DIR=str(tmp_path / "kept")))[0] == [f"{2 * amount}.0 1"]


def test_what_an_edit_replaced_goes_after_a_day_when_something_new_is_kept(install, three_versions, tmp_path):
    first, second, third = three_versions
    for folder, days in ((first, 1.1), (second, 0.9), (third, 400)):  # the third is the one that is in force
        age(folder, days)
    finish(start(install, "float32", NUMBA_CACHE_DIR=str(tmp_path / "kept")))  # keeps nothing new
    assert first.exists()
    age(third, 400)
    finish(start(install, "float64", NUMBA_CACHE_DIR=str(tmp_path / "kept")))
    assert [f.exists() for f in (first, second, third)] == [False, True, True]


def test_another_copy_of_the_package_keeps_its_code_for_a_month(install, three_versions, tmp_path):
    elsewhere, kept = tmp_path / "elsewhere", tmp_path / "kept"
    shutil.copytree(install / "minires", elsewhere / "minires")
    age(three_versions[0], 29)
    age(three_versions[1], 31)
    assert finish(start(elsewhere, "float32", NUMBA_CACHE_DIR=str(kept)))[0] == ["6.0 0"]
    assert [f.exists() for f in three_versions] == [True, False, True]
    assert len(folders_of("tiny", kept)) == 3


def test_asking_for_kept_code_marks_its_folder_as_used(install, three_versions, tmp_path):
    age(three_versions[2], 20)
    finish(start(install, "float32", NUMBA_CACHE_DIR=str(tmp_path / "kept")))
    assert time.time() - three_versions[2].stat().st_mtime < 3600


def test_nothing_else_in_the_folder_is_touched(install, three_versions, tmp_path):
    mine = tmp_path / "kept" / "minires" / "notes-of-mine"
    mine.mkdir()
    age(mine, 400)
    finish(start(install, "float64", NUMBA_CACHE_DIR=str(tmp_path / "kept")))
    assert mine.exists()


def test_code_that_is_deleted_under_a_running_process_is_compiled_again(install, three_versions, tmp_path):
    code = USE.replace("for dtype", "import shutil; shutil.rmtree(double._cache.cache_path)\nfor dtype")
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    lines, notice = finish(start(install, "float32", "float64", code=code, **cache))
    assert lines == ["6.0 0", "6.0 0"] and "could not be kept" not in notice
    assert finish(start(install, "float32", "float64", **cache))[0] == ["6.0 1", "6.0 2"]


def test_tidy_deletes_what_this_version_does_not_need(install, three_versions, tmp_path):
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    (tmp_path / "kept" / "minires" / "flat.nbc").write_bytes(b"as older versions of the package left them")
    code = """
from minires.kernels.cache import cache_info, clear_cache
before = cache_info()
print(before["old_files"], clear_cache(old_only=True), before["files"] - cache_info()["files"])
print(cache_info()["old_files"], cache_info()["old_bytes"])
"""
    (old, deleted, fewer), left = [line.split() for line in finish(start(install, code=code, **cache))[0]]
    assert int(old) == int(deleted) == int(fewer) > 4 and left == ["0", "0"]
    assert [f.exists() for f in three_versions] == [False, False, True]
    assert finish(start(install, "float32", **cache))[0] == ["6.0 1"]


# --------------------------------------------------------------------------------------------------- the start


def test_loading_needs_nothing_that_only_compiling_needs(install, tmp_path):
    """The tables of everything that can be compiled take as long to load as numba itself."""
    code = USE + "print('numba.np.arraymath' in sys.modules)\n"
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    assert finish(start(install, "float32", code=code, **cache))[0] == ["2.0 0", "True"]
    assert finish(start(install, "float32", code=code, **cache))[0] == ["2.0 1", "False"]


def test_loaded_code_can_allocate_sort_draw_and_raise(install, tmp_path):
    """Whatever a kernel asks of numba's runtime is there although nothing was made ready for compiling."""
    body = """
import numpy as np
from minires.kernels.jit import njit

@njit
def double(x, out):
    room = np.sort(np.concatenate((x, np.zeros(3, x.dtype))))
    out[:] = 2 * np.exp(room[:3]) + 0 * np.random.rand()
    if x.size > 3:
        raise ValueError("too long")
"""
    (install / "minires" / "kernels" / "tiny.py").write_text(body)
    code = (
        USE
        + """
try:
    double(np.zeros(4, dtype), out)
except ValueError as problem:
    print(problem)
"""
    )
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    assert finish(start(install, "float32", code=code, **cache))[0] == ["2.0 0", "too long"]
    assert finish(start(install, "float32", code=code, **cache))[0] == ["2.0 1", "too long"]


def test_a_kernel_that_takes_long_to_compile_is_named_with_its_seconds(install, tmp_path):
    slow = KERNEL.replace("    for i", "    pause()\n    for i") + PAUSE
    (install / "minires" / "kernels" / "tiny.py").write_text(slow)
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    notice = finish(start(install, "float32", **cache))[1].splitlines()
    assert len(notice) == 2 and notice[1].startswith("minires: compiled tiny.double in ")
    assert finish(start(install, "float32", **cache))[1] == ""


def test_without_a_compiler_kernels_are_plain_functions(install):
    code = USE.replace("sum(double.stats.cache_hits.values())", "hasattr(double, 'py_func')")
    lines, notice = finish(start(install, "float32", code=code, NUMBA_DISABLE_JIT="1"))
    assert lines == ["2.0 False"]
    assert notice == ""


def test_kernels_of_learners_are_never_kept(tmp_path):
    @njit
    def mine(x):
        return x + 1

    assert mine(1.0) == 2.0
    assert not keepable(mine.py_func)
    assert mine.stats.cache_path is None


def test_stamp_follows_imports():
    assert imported_kernels("from minires.kernels.exp import exp\nimport numpy") == {"exp"}
    assert imported_kernels("    from minires.kernels.exp import (\n    exp)\nx = 1") == {"exp"}
    assert imported_kernels("from minires.messages import ShapeError") == set()
    assert source_stamp(FOLDER / "exp_error.py") != source_stamp(FOLDER / "exp.py")


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_the_search_for_imports_sees_what_the_parser_sees(path):
    """Any other way to import a kernel file would escape the stamp."""
    source, found = path.read_text("utf-8"), set()
    for node in ast.walk(ast.parse(source)):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        found |= {name.removeprefix("minires.kernels.") for name in names if name.startswith("minires.kernels")}
    assert imported_kernels(source) == found


def test_cache_info_names_a_folder():
    info = cache_info()
    assert set(info) == {"folder", "files", "bytes", "old_files", "old_bytes", "numba"}
    assert info["folder"] is None or Path(info["folder"]).is_dir()


def test_importing_the_package_of_kernels_loads_no_compiler():
    code = "import sys, minires.kernels; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=FOLDER.parents[1], timeout=60).returncode == 0


def test_formats_are_explained():
    x = np.ones(3, np.float32)
    assert same_float_dtype(x=x, gamma=None, beta=x) == np.float32
    with pytest.raises(DtypeError, match="gamma = a float64 array"):
        same_float_dtype(x=x, gamma=np.ones(3))
    with pytest.raises(DtypeError, match=r"write 1\. for 1"):
        same_float_dtype(x=np.arange(3))
    with pytest.raises(DtypeError, match=r"x = \[1, 2\]"):
        same_float_dtype(x=[1, 2])
