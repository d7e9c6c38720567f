"""One look for every figure: a style sheet, the colours by name, and files that are equal from run to run.

Colours are those of Okabe and Ito (2008), which people with any kind of colour vision can tell apart; its black
is left to text and axes (`INK`), and its yellow, too pale on white, is left out. Never tell series apart by colour
alone.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from typing import Any

BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, INK = (f"C{i}" for i in range(7))  # places in the style's colour cycle
CYCLE = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY)
PAPER = {"light": "#ffffff", "dark": "#0d1117"}

# What changes where the page is dark: ink turns light, paper dark, and blue, too dark there, a little lighter.
_DARK = {"#222222": "#d6dde5", "#0072b2": "#3d9be0", PAPER["light"]: PAPER["dark"]}
_INK_SETTINGS = (
    "text.color", "axes.labelcolor", "axes.edgecolor", "axes.titlecolor", "xtick.color", "ytick.color", "grid.color",
    "patch.edgecolor",
)  # fmt: skip


@contextmanager
def style(dark: bool = False) -> Iterator[None]:
    """Draw and save inside this block; what was set before comes back afterwards."""
    import matplotlib.style

    with matplotlib.rc_context(), resources.as_file(resources.files("minires.style") / "minires.mplstyle") as sheet:
        matplotlib.style.use(sheet)
        if dark:
            matplotlib.rcParams.update(_dark_settings(matplotlib.rcParams))  # type: ignore[arg-type, call-overload]
        yield


def _dark_settings(now: Any) -> dict[str, Any]:
    from cycler import cycler

    colours = [_DARK.get(c.lower(), c) for c in now["axes.prop_cycle"].by_key()["color"]]
    return {**dict.fromkeys(_INK_SETTINGS, _DARK["#222222"]), "axes.prop_cycle": cycler("color", colours)}


def paper() -> str:
    """The colour of the page under the present style, for a box that hides what runs behind it."""
    import matplotlib

    return PAPER["dark" if matplotlib.rcParams["text.color"] == _DARK["#222222"] else "light"]


def add_caption(figure: Any, text: str) -> None:
    """The caption below the axes, wrapped to the figure's width."""
    width = int(figure.get_figwidth() * 15.5)
    figure.supxlabel(textwrap.fill(text, width), x=0.012, ha="left", fontsize=8.5, linespacing=1.35)


def spread(values: Sequence[float], gap: float) -> list[float]:
    """Positions for labels: as close to `values` as can be, in the same order, with at least `gap` between any two.

    Without their gaps the positions must not fall; the nearest such sequence comes from pooling neighbours that do.
    """
    order = sorted(range(len(values)), key=lambda i: values[i])
    pools: list[list[float]] = []
    for rank, i in enumerate(order):
        pools.append([values[i] - rank * gap])
        while len(pools) > 1 and _mean(pools[-2]) > _mean(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    flat = [_mean(pool) for pool in pools for _ in pool]
    placed = {i: flat[rank] + rank * gap for rank, i in enumerate(order)}
    return [placed[i] for i in range(len(values))]


def _mean(pool: list[float]) -> float:
    return sum(pool) / len(pool)


def svg_bytes(figure: Any, title: str, description: str) -> bytes:
    """The figure as SVG: no date, no random ids, and rules that turn the ink light where the page is dark."""
    buffer = io.BytesIO()
    named = {"Title": title, "Description": description, "Date": None, "Creator": None}
    figure.savefig(buffer, format="svg", metadata=named)
    text = buffer.getvalue().decode()
    pairs = [(part, *colours) for colours in _DARK.items() for part in ("fill", "stroke")]
    rules = " ".join(f'[style*="{part}: {light}"] {{ {part}: {dark} !important }}' for part, light, dark in pairs)
    sheet = f"<style>@media (prefers-color-scheme: dark) {{ {rules} }}</style>"
    return text.replace("</metadata>", f"</metadata>\n {sheet}", 1).encode()


def png_bytes(figure: Any, paper: str) -> bytes:
    """The figure as PNG on opaque "light" or "dark" paper (draw it inside the style of the same name)."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", facecolor=PAPER[paper], metadata={"Software": None})
    return buffer.getvalue()
