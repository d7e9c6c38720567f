"""docs/speed.md and the READMEs say about speed what docs/results/bench.json says."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_tables_are_those_of_the_committed_benchmark():
    command = [sys.executable, ROOT / "tools" / "write_speed.py", "--check"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
