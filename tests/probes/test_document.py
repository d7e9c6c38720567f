"""The page about instruments: its example runs, and its table names what there is."""

import re
from pathlib import Path

from minires import probes

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "instruments.md").read_text(encoding="utf-8")


def test_the_example_runs_and_its_parts_add_up(tmp_path, monkeypatch, capsys):
    import matplotlib

    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    names: dict = {}
    exec(compile(code, "instruments.md", "exec"), names)
    assert names["found"].error < 1e-5 and "0 attention head 2" in capsys.readouterr().out
    assert (tmp_path / "attribution.png").stat().st_size > 1000


def test_every_instrument_is_in_the_table_and_every_name_in_the_table_exists():
    named = set(re.findall(r"`(\w+)`", PAGE.split("|---|---|---|")[1]))
    assert named <= set(probes.__all__)
    helpers = {"composite_of", "forward", "inverse_size_product", "kendall_tau", "layernorm_jacobian", "rearranged",
               "record", "rounded", "skip_path_product", "state_gradients", "wiring_of"}  # fmt: skip
    functions = {name for name in probes.__all__ if name[0].islower()}
    assert functions - helpers == named
