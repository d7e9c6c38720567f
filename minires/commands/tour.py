"""`minires tour`: the first two minutes. Verified gradients, the gradient table, a trained Transformer, what next."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from minires.commands.output import write_json

TABLE = {"models": ("decoder",), "inits": ("xavier", "gpt2"), "widths": (64,), "seeds": (1,), "batch": 2, "length": 32}
TRAINING = {"steps": 300, "lr": 6e-3, "blocks": 4, "d": 64, "heads": 4, "length": 64, "batch": 16}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    steps = TRAINING["steps"]
    parser.add_argument("--steps", type=int, default=steps, metavar="N", help=f"training steps (default: {steps})")
    parser.add_argument(
        "--out", metavar="DIR", help="keep the results, the figure and the model here (default: nothing)"
    )


def run(args: argparse.Namespace) -> int:
    """Four stops, all on the NumPy functions that a learner reads and replaces: nothing has to be compiled first."""
    from minires.commands.setup import machine
    from minires.train.loop import check_steps

    check_steps("steps", args.steps)
    began, out = time.monotonic(), _folder(args.out)
    with machine("numpy", 1):
        gradients(out)
        table(out)
        training(out, args.steps)
    what_next(time.monotonic() - began)
    return 0


def _folder(path: str | None) -> Path | None:
    """The folder to keep things in, made if it is missing."""
    if path is None:
        return None
    from minires.files import write_problem

    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_problem(path, error) from None
    return Path(path)


def heading(number: int, text: str) -> None:
    """A line across the page on a terminal, a plain line in a log."""
    from rich.console import Console

    console = Console(highlight=False, emoji=False)
    print()
    if console.is_terminal:
        console.rule(f"[bold]{number}. {text}", align="left")
    else:
        print(f"{number}. {text}")


def say(text: str) -> None:
    """A paragraph, broken between words."""
    import shutil
    import textwrap

    print(textwrap.fill(text, min(100, shutil.get_terminal_size().columns)))


# ------------------------------------------------------------------------------------------------- the four stops


def gradients(out: Path | None) -> None:
    """Judge the hand-written backward passes."""
    from dataclasses import asdict

    from minires import ui
    from minires.verify import verify

    heading(1, "Are the hand-written backward passes right?")
    found = verify()
    columns = ["operation", "entries compared", "derivative by", "largest relative error"]
    ui.table([(v.operation, v.entries, f"{v.method} step", f"{v.error:.0e}") for v in found], columns=columns)
    worst = max(v.error for v in found)
    say(
        f"Yes: {sum(v.entries for v in found)} gradient entries agree with numerical derivatives to {worst:.0e} or "
        "better, with a random upstream gradient, in float64."
    )
    if out:
        write_json([asdict(v) for v in found], str(out / "gradients.json"))


def table(out: Path | None) -> None:
    """The article's table of gradient norms beside ours."""
    from minires import ui
    from minires.experiments import get_experiment

    heading(2, "Gradient norms through 12 layers, relative to layer 12")
    experiment = get_experiment("gradient_table")
    result = experiment.run(**TABLE)
    ui.table(result.data["rows"], columns=["norm", "init", "layer", "total", "skip", "branches", "article"])
    say(result.data["verdict"]["text"])
    if out:
        from minires.experiments import save_result
        from minires.figures import save_picture

        save_result(result, out / "gradient_table.json")
        save_picture(experiment, result, out / "gradient_table.svg")


def training(out: Path | None, steps: int) -> None:
    """A small Pre-Norm Transformer on the shipped play."""
    from minires.commands.train import make_settings, train

    heading(3, "A Transformer with Pre-Norm residuals, trained on Hamlet, character by character")
    settings = make_settings({**TRAINING, "steps": steps})
    result = train(settings, checkpoint=str(out / "model.npz") if out else None)
    if out:
        write_json(result, str(out / "training.json"))
    _stopped_if(result["history"]["interrupted"])


def _stopped_if(interrupted: bool) -> None:
    """Ctrl-C during the training ends the tour as well."""
    if interrupted:
        raise KeyboardInterrupt


def what_next(seconds: float) -> None:
    """The way to the first exercise."""
    from minires import ui

    heading(4, f"That took {ui.duration(seconds)}. Now you")
    say("Write the backward pass of LayerNorm yourself. You are told which mistake you made:")
    for line in (
        "minires init course",
        "cd course",
        "python lessons/02_layernorm/lesson.py",
        "(fill in layernorm_backward in lessons/02_layernorm/exercise.py)",
        "minires grade layernorm/backward",
    ):
        print(f"    {line}")
    say(
        "Or look around: minires experiments, minires doctor, or the same training, longer and compiled: minires train."
    )
