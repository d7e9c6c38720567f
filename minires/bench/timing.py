"""Comparing programs on a machine that does other things too: they take turns, and medians count."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

SAMPLE = 1e-3  # seconds that one sample takes at least: far above the clock's steps
MOST_ROUNDS = 41


class Times(dict):
    """name → seconds per call, one number per round."""

    def median(self, name: str) -> float:
        return float(np.median(self[name]))

    def best(self, name: str) -> float:
        """The shortest round: what the code takes when nobody else uses the core."""
        return float(min(self[name]))

    def ratio(self, name: str, to: str) -> float:
        """How many times longer `name` took than `to`: the median over rounds, in each of which both ran."""
        return float(np.median(np.array(self[name]) / np.array(self[to])))

    def ratios(self, to: str) -> dict[str, float]:
        """Everybody else's ratio to one of them."""
        return {name: self.ratio(name, to) for name in self if name != to}


def side_by_side(works: Mapping[str, Callable[[], Any]], seconds: float = 0.3, rounds: int = MOST_ROUNDS) -> Times:
    """Time calls without arguments for about `seconds` in all, 3 to `rounds` rounds; each round begins with another."""
    repeat = {name: repetitions(work) for name, work in works.items()}
    began, times, names = time.perf_counter(), Times({name: [] for name in works}), list(works)
    for turn in range(rounds):
        if turn >= 3 and time.perf_counter() - began > seconds:
            break
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            times[name].append(timed(works[name], repeat[name]))
    return times


def repetitions(work: Callable[[], Any]) -> int:
    """How many calls make a sample. The first calls, which may compile, do not count."""
    work()
    return max(1, round(SAMPLE / max(1e-7, min(timed(work, 1), timed(work, 1)))))


def timed(work: Callable[[], Any], repeat: int) -> float:
    """Seconds per call."""
    began = time.perf_counter()
    for _ in range(repeat):
        work()
    return (time.perf_counter() - began) / repeat
