"""The small image set: 1797 handwritten digits of 8×8 pixels."""

from __future__ import annotations

from importlib import resources
from typing import NamedTuple

import numpy as np

from minires.data._checks import whole

COUNT = 1797


class Digits(NamedTuple):
    """Images as float32 rows of 64 pixels, labels 0 … 9 as int64."""

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def load_raw() -> tuple[np.ndarray, np.ndarray]:
    """Pixels (1797, 64) uint8 in 0 … 16 and labels (1797,) uint8, in the order of the source."""
    with resources.files("minires.data").joinpath("digits.npz").open("rb") as file, np.load(file) as stored:
        return stored["pixels"], stored["labels"]


def digits(seed: int = 0, test: int = 450, normalise: bool = True) -> Digits:
    """A random split into 1797 − `test` images to train on and `test` to test on.

    `x.reshape(-1, 8, 8)` gives the pictures. With `normalise`, each pixel has mean 0 and standard deviation 1 over the
    *training* images, and the test images are moved by the same numbers; a pixel that is constant in training is 0
    everywhere, since nothing can be learned from it. Without, pixels are 0.0 … 16.0, as counted by the source.

    Raises ValueProblem or DtypeError unless `test` is a whole number in 1 … 1796 and `seed` one that is at least 0.
    """
    whole("test", test, 1, COUNT - 1, "It is a number of images, not a share.")
    pixels, labels = load_raw()
    order = np.random.default_rng(whole("seed", seed, 0)).permutation(COUNT)
    x, y = pixels[order].astype(np.float32), labels[order].astype(np.int64)
    if normalise:
        x = _z_scores(x, x[:-test])
    return Digits(x[:-test], y[:-test], x[-test:], y[-test:])


def _z_scores(x: np.ndarray, reference: np.ndarray) -> np.ndarray:
    mean, deviation = reference.mean(0, dtype=np.float64), reference.std(0, dtype=np.float64)  # (64,)
    scale = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 0)
    return ((x - mean) * scale).astype(np.float32)
