"""Checkpoints: one .npz file with everything that a run needs to go on as if nothing had happened.

Arrays are stored as arrays and everything else as JSON; nothing is pickled, so that opening a stranger's file runs
no code. Members: `meta` (JSON as bytes), `model/NAME`, `optimizer/NAME`.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minires.files import atomic_path, read_bytes
from minires.messages import FileProblem, ValueProblem
from minires.models.rebuild import build
from minires.nn import Module
from minires.train.history import History
from minires.train.optimizers import Optimizer

FORMAT, VERSION = "minires checkpoint", 1


@dataclass(frozen=True)
class Checkpoint:
    """What a file holds. notes: what the caller added, for example the vocabulary of the text."""

    path: str
    model_state: dict[str, np.ndarray]
    optimizer_state: dict[str, np.ndarray]
    history: History
    generators: list[dict]
    model: dict[str, Any]
    optimizer: str | None
    notes: dict[str, Any]

    @property
    def step(self) -> int:
        return self.history.steps

    def build_model(self) -> Module:
        """The model as it was, ready to use. Raises ValueProblem if it was not built from plain settings."""
        model = build(self.model["class"], self.model["settings"])
        model.load_state_dict(self.model_state)
        return model

    def restore(self, model: Module, optimizer: Optimizer | None = None, generators: Sequence = ()) -> None:
        """Put the saved state into objects that were made with the same settings.

        generators: numpy Generators to set, in the order in which they were saved, before the model's own.
        Raises ValueProblem or ShapeError if something does not fit; then nothing of the model has changed.
        """
        if optimizer is not None and type(optimizer).__name__ != self.optimizer:
            hint = "Go on with the optimiser that the run began with."
            must = f"{self.path} was saved with {self.optimizer or 'no optimiser'}"
            raise ValueProblem(must, type(optimizer).__name__, hint)
        targets = [*generators, *model_generators(model)]
        if len(targets) != len(self.generators):
            given = f"{len(targets)} random generators for {len(self.generators)} saved states"
            raise ValueProblem("each saved generator needs its place", given, "Was the model built in the same way?")
        model.load_state_dict(self.model_state)
        if optimizer is not None:
            optimizer.load_state_dict(self.optimizer_state)
        for generator, state in zip(targets, self.generators):
            generator.bit_generator.state = state


def model_generators(model: Module) -> list[np.random.Generator]:
    """The random generators inside a model (for dropout), each once."""
    values = (value for module in model.modules() for value in vars(module).values())
    return list({id(v): v for v in values if isinstance(v, np.random.Generator)}.values())


def save_checkpoint(
    path: str | os.PathLike,
    model: Module,
    optimizer: Optimizer | None = None,
    *,
    history: History | None = None,
    generators: Sequence[np.random.Generator] = (),
    notes: Mapping[str, Any] | None = None,
) -> None:
    """Write a checkpoint; `path` holds the whole new one or the whole old one, whatever happens.

    generators: numpy Generators of the loop; the model's own are found. notes: anything that JSON can hold.
    Raises FileProblem if the file cannot be written.
    """
    states = [g.bit_generator.state for g in [*generators, *model_generators(model)]]
    meta = {
        "format": FORMAT,
        "version": VERSION,
        "model": {"class": type(model).__name__, "settings": getattr(model, "settings", None)},
        "optimizer": None if optimizer is None else type(optimizer).__name__,
        "history": (history or History()).to_dict(),
        "generators": states,
        "notes": dict(notes or {}),
    }
    arrays = {f"model/{name}": array for name, array in model.state_dict().items()}
    if optimizer is not None:
        arrays |= {f"optimizer/{name}": array for name, array in optimizer.state_dict().items()}
    text = json.dumps(meta, default=lambda array: array.tolist())
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez(file, meta=np.frombuffer(text.encode(), np.uint8), **arrays)  # type: ignore[arg-type]


def load_checkpoint(path: str | os.PathLike) -> Checkpoint:
    """Read a checkpoint. Raises FileProblem if the file is missing, cut short, damaged or something else."""
    name = os.fspath(path)
    arrays = _read_arrays(name)
    meta = _read_meta(name, arrays)
    return Checkpoint(
        name,
        _part(arrays, "model/"),
        _part(arrays, "optimizer/"),
        History.from_dict(meta["history"]),
        meta["generators"],
        meta["model"],
        meta["optimizer"],
        meta["notes"],
    )


def _part(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _read_arrays(name: str) -> dict[str, np.ndarray]:
    raw = read_bytes(name)
    try:
        damaged = zipfile.ZipFile(io.BytesIO(raw)).testzip()  # compares every member with its checksum
        if damaged:
            raise zipfile.BadZipFile(f"{damaged} does not have its checksum")
        with np.load(io.BytesIO(raw), allow_pickle=False) as stored:
            return {member: array for member, array in stored.items() if isinstance(array, np.ndarray)}
    except Exception as error:  # damaged bytes make the parsers raise nearly anything
        cut = raw[:2] == b"PK"
        hint = "It was cut short or damaged: use an older checkpoint." if cut else "Is it another kind of file?"
        given = f"{name!r} ({len(raw):,} bytes; {type(error).__name__}: {error})"
        raise FileProblem("a checkpoint is a whole .npz file of arrays", given, hint) from None


def _read_meta(name: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    must = f"a checkpoint carries the mark {FORMAT!r}, version {VERSION}"
    try:
        meta = json.loads(arrays["meta"].tobytes())
        mark = meta["format"], meta["version"]
    except (KeyError, TypeError, ValueError):
        hint = "It is an .npz file, but save_checkpoint did not write it."
        raise FileProblem(must, f"{name!r} without it", hint) from None
    if mark != (FORMAT, VERSION):
        raise FileProblem(must, f"{name!r} with {mark[0]!r}, version {mark[1]}", "Use the release that wrote it.")
    return meta
