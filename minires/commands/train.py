"""`minires train`: train a small model, beside the losses that it must beat, and show what it does."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import Any

from minires.commands.output import add_json, write_json

# name: (default, what it is). An option that was not given stays away from the namespace, so that a resumed run can
# tell what was asked for from what was not.
DATA: dict[str, tuple[Any, str]] = {
    "data": ("play", "play, text, copy, reversal, induction, modular or digits"),
    "text": ("", "a text file of your own; means --data text"),
    "length": (64, "characters (or symbols of a task) in one sequence"),
    "batch": (16, "sequences in one step"),
}
MODEL: dict[str, tuple[Any, str]] = {
    "connection": ("pre_norm", "how a sublayer joins the stream: none, residual, post_norm, pre_norm, …"),
    "recipe": ("", "a residual recipe in its place, with norm and initial scale: see `minires residuals --list`"),
    "norm": ("layernorm", "layernorm, rmsnorm, …"),
    "init": ("gpt2", "how weights begin: xavier, he, lecun, gpt2, gpt2_scaled, …"),
    "activation": ("gelu_tanh", "relu, gelu, gelu_tanh or silu"),
    "blocks": (4, "blocks, each of attention and feed-forward"),
    "d": (64, "width of the stream"),
    "heads": (4, "attention heads"),
    "dropout": (0.0, "probability"),
}
TRAINING: dict[str, tuple[Any, str]] = {
    "steps": (600, "optimiser steps in all"),
    "optimizer": ("adamw", "sgd, adam or adamw"),
    "lr": (3e-3, "highest learning rate"),
    "schedule": ("cosine", "constant, linear, cosine or inverse_sqrt, after the warm-up"),
    "warmup": (60, "steps until the highest learning rate"),
    "clip": (1.0, "largest global gradient norm; 0 does not clip"),
    "seed": (0, "for weights and batches"),
}
SETTINGS = {**DATA, **MODEL, **TRAINING}
CHANGEABLE = {"steps"}  # what may differ when a run goes on


def add_arguments(parser: argparse.ArgumentParser) -> None:
    for title, group in (("data", DATA), ("model", MODEL), ("training", TRAINING)):
        section = parser.add_argument_group(title)
        for name, (default, line) in group.items():
            text = f"{line} (default: {default})" if default != "" else line
            metavar = "FILE" if name == "text" else {str: "NAME", int: "N", float: "X"}[type(default)]
            section.add_argument(f"--{name}", type=type(default), default=argparse.SUPPRESS, metavar=metavar, help=text)
    files = parser.add_argument_group("files and machine")
    files.add_argument("--checkpoint", metavar="FILE", help="save the run here (.npz), also at Ctrl-C")
    files.add_argument("--resume", metavar="FILE", help="go on from a checkpoint, with its settings; saves there")
    files.add_argument("--load", metavar="FILE", help="a Python file of yours that registers a connection")
    files.add_argument("--backend", metavar="NAME", help="numpy or numba (default: numba where it is installed)")
    about = "share each batch among N cores; the result is the same for any N (default: one core, one piece)"
    files.add_argument("--threads", type=int, metavar="N", help=about)
    add_json(files)


def run(args: argparse.Namespace) -> int:
    """Train, compare, show."""
    from minires.commands.setup import machine, run_file, saved_names

    run_file(args.load)
    given = {name: value for name, value in vars(args).items() if name in SETTINGS}
    settings = _settings(given, args.resume)
    with machine(args.backend, 1), saved_names(args.resume):
        result = train(settings, given, args.checkpoint, args.resume, quiet=args.json == "-", threads=args.threads)
    write_json(result, args.json)
    return 130 if result["history"]["interrupted"] else 0


def _settings(given: Mapping[str, Any], resume: str | None) -> dict[str, Any]:
    """Every setting: as given, else as in the checkpoint, else the default."""
    if resume is None:
        return make_settings(given)
    from minires.train import load_checkpoint

    saved = load_checkpoint(resume).notes.get("settings", {})
    _refuse_changes(saved, given)
    return make_settings(saved | given)


def make_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults with what was given: a text means the data `text`, and a warm-up that nobody asked for shrinks
    with the number of steps. Raises ValueProblem for steps or a seed that cannot be.
    """
    settings = {name: default for name, (default, _) in SETTINGS.items()} | dict(given)
    if "text" in given and "data" not in given:
        settings["data"] = "text"
    _check(settings["steps"], settings["seed"])
    if "warmup" not in given:
        settings["warmup"] = min(settings["warmup"], settings["steps"] // 10)
    return settings


def _check(steps: int, seed: int) -> None:
    """Before anything is made of them: the warm-up of too few steps would be what the user reads about."""
    from minires.messages import ValueProblem
    from minires.problems import check_seed

    if steps < 1:
        raise ValueProblem("--steps must be at least 1", str(steps), "It counts the optimiser steps in all.")
    check_seed(seed)


def _refuse_changes(saved: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    changed = [name for name in given if name not in CHANGEABLE and saved.get(name, given[name]) != given[name]]
    if changed:
        from minires.messages import ValueProblem

        pairs = ", ".join(f"--{name} {given[name]} (was {saved[name]})" for name in changed)
        must = "a run that goes on keeps its settings; only --steps may change"
        raise ValueProblem(must, pairs, "Leave them out, or begin a new run without --resume.")


def train(
    settings: Mapping[str, Any], given: Iterable[str] = (), checkpoint: str | None = None,
    resume: str | None = None, quiet: bool = False, threads: int | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Train as `settings` say and return plain data: settings, history, references, the last loss, what it shows.

    threads: see `minires.parallel`; None for a step that is not cut into pieces.
    """
    import numpy as np

    from minires import problems
    from minires.parallel import sharded
    from minires.train import fit, get_optimizer, get_schedule, mean_loss
    from minires.train.loop import loss_and_gradients

    problem = problems.make_problem(settings)
    problems.used(problem, given, settings["data"])
    model = problem.build(settings)
    say = (lambda *words: None) if quiet else print
    say(f"{type(model).__name__} with {model.count_parameters():,} parameters: {_connection(model)}")
    history = fit(
        model,
        problem.batches,
        get_optimizer(settings["optimizer"])(model.parameters(), lr=settings["lr"]),
        settings["steps"],
        rng=np.random.default_rng([settings["seed"], 1]),
        schedule=get_schedule(settings["schedule"], settings["warmup"], settings["steps"]),
        clip=settings["clip"] or None,
        evaluate=mean_loss(problem.check),
        evaluate_every=max(1, settings["steps"] // 5),
        checkpoint=checkpoint or resume,
        resume=resume,
        notes={"settings": dict(settings), **problem.notes},
        gradients=loss_and_gradients if threads is None else sharded(model, threads),
    )
    result = _result(settings, model, history, problem)
    report(result, say)
    return result


def _connection(model: Any) -> str:
    return f"{model.stack.connection.equation or type(model.stack.connection).__name__}"


def _result(settings: Mapping[str, Any], model: Any, history: Any, problem: Any) -> dict[str, Any]:
    import numpy as np

    return {
        "settings": dict(settings),
        "parameters": model.count_parameters(),
        "loss": history.evaluations[-1][1] if history.evaluations else None,
        "references": problem.references,
        "shown": problem.show(model, np.random.default_rng(settings["seed"])),
        "spikes": history.spikes,
        "history": history.to_dict(),
    }


def report(result: Mapping[str, Any], say: Any = print) -> None:
    """The loss beside its references, how the run went, and what the model does."""
    from minires import ui

    history = result["history"]
    if result["loss"] is not None:
        say("Loss on data it was not trained on, in nats per prediction:")
        lines = [*result["references"].items(), (f"this model after {len(history['losses'])} steps", result["loss"])]
        for name, loss in sorted(lines, key=lambda line: -line[1]):
            say(f"  {loss:7.3f}  {name}")
    clipped = sum(history["clipped"]) / max(1, len(history["clipped"]))
    spikes = len(result["spikes"])
    say(f"{ui.duration(history['seconds'])}; {clipped:.0%} of the steps clipped; {spikes} loss or gradient spikes.")
    say(f"\n{result['shown']}")
