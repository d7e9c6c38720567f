"""What reaches a user: the data, its credits and the course must be inside the wheel."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import minires.data

FOLDER = Path(minires.data.__file__).parent
ROOT = Path(__file__).parents[2]
SHIPPED = sorted(p.name for p in FOLDER.iterdir() if p.suffix in {".gz", ".npz", ".npy", ".csv", ".txt", ".json"})


def test_there_is_data_and_it_is_small():
    assert {"hamlet.txt.gz", "digits.npz"} <= set(SHIPPED)
    assert sum((FOLDER / name).stat().st_size for name in SHIPPED) < 200_000


def test_credits_have_one_section_per_file_with_a_licence():
    sections = re.split(r"^## ", (FOLDER / "CREDITS.md").read_text(encoding="utf-8"), flags=re.M)[1:]
    by_name = {s.split("\n", 1)[0].strip(): s for s in sections}
    assert sorted(by_name) == SHIPPED
    assert all(re.search(r"public domain|Creative Commons", s) for s in by_name.values())


def test_lock_names_no_address_and_covers_every_direct_requirement():
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = project["dependencies"] + [w for extra in project["optional-dependencies"].values() for w in extra]
    names = {re.match(r"[\w-]+", w).group() for w in wanted}
    assert "://" not in lock and "--hash" not in lock
    assert names <= set(re.findall(r"^([\w-]+)==", lock, flags=re.M))
    assert not [w for w in wanted if re.search(r"<|==|~=", w)]  # people get lower bounds only


def test_wheel_carries_the_data_the_credits_and_the_course(tmp_path):
    build = "import sys, hatchling.build as b; print(b.build_wheel(sys.argv[1]))"
    made = subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=ROOT, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    (wheel,) = tmp_path.glob("minires-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        for name in [*SHIPPED, "CREDITS.md"]:
            assert archive.read(f"minires/data/{name}") == (FOLDER / name).read_bytes()
    for folder in ("lessons", "tests/lessons"):
        ours = [
            p for p in (ROOT / folder).rglob("*.*") if p.suffix in (".py", ".toml") and "__pycache__" not in p.parts
        ]
        missing = {f"minires/_course/{p.relative_to(ROOT).as_posix()}" for p in ours} - names
        assert not missing
    assert {n.split("/")[0] for n in names} == {"minires", wheel.name.split("-py3")[0] + ".dist-info"}
    assert not [n for n in names if n.endswith((".nbi", ".nbc", ".pyc", ".tmp"))]
