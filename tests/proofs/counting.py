"""Shares with exact intervals, and work shared out over processes, with seeds that do not depend on them."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from statistics import NormalDist
from threading import Thread
from typing import TypeVar

import numpy as np

from knowledge.exact_interval import exact_bounds

_Job = TypeVar("_Job")
_Found = TypeVar("_Found")

LEVEL = 0.95
"""Of the intervals of shares."""


@dataclass(frozen=True)
class Share:
    """`count` of `of`."""

    count: int
    of: int

    @property
    def value(self) -> float:
        """The share itself; 0 of nothing."""
        return self.count / self.of if self.of else 0.0

    def bounds(self, level: float = LEVEL) -> tuple[float, float]:
        """The exact binomial interval of Clopper and Pearson (Biometrika 26, 1934)."""
        return exact_bounds(self.count, self.of, level)

    def score_bounds(self, level: float = LEVEL) -> tuple[float, float]:
        """The score interval of Wilson (Journal of the American Statistical Association 22, 1927)."""
        z, n, p = NormalDist().inv_cdf((1 + level) / 2), self.of, self.value
        middle, half = p + z**2 / (2 * n), z * math.sqrt(p * (1 - p) / n + (z / (2 * n)) ** 2)
        return (middle - half) / (1 + z**2 / n), (middle + half) / (1 + z**2 / n)

    def __str__(self) -> str:
        low, high = self.bounds()
        return f"{percent(self.value)} ({self.count} of {self.of}; {percent(low)} to {percent(high)})"


def less(one: Share, other: Share, level: float = LEVEL) -> tuple[float, float]:
    """The interval of the first share less the second, of independent trials, by Newcombe's hybrid score
    (Statistics in Medicine 17, 1998, p. 873, method 10). It has a width where both shares are 1."""
    (low, high), (other_low, other_high) = one.score_bounds(level), other.score_bounds(level)
    difference = one.value - other.value
    return (
        difference - math.hypot(one.value - low, other_high - other.value),
        difference + math.hypot(high - one.value, other.value - other_low),
    )


def percent(share: float) -> str:
    """A share in percent with three digits that count: `0.0367 %`, `94.9 %`, `100 %`."""
    digits = max(0, min(4, 2 - int(np.floor(np.log10(abs(100 * share)))))) if share else 0
    return f"{100 * share:.{digits}f} %"


def plain(share: float) -> str:
    """A round share, such as a target, in percent: `5 %`."""
    return f"{100 * share:g} %"


def seed_of(*key: int) -> int:
    """A seed for one piece of work, from the run's seed and the place of the piece."""
    return int(np.random.SeedSequence(key).generate_state(1)[0])


def at_least_one(text: str) -> int:
    """A number of seeds or of processes from a command line, for argparse to refuse what is none."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is none: give 1 or more")
    return number


class Workers:
    """So many processes for as long as the context lasts; one process does everything itself. They end when
    this one does, however it ends."""

    def __init__(self, processes: int) -> None:
        self._pool = (
            ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=_end_with_parent)
            if processes > 1
            else None
        )

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def map(self, work: Callable[[_Job], _Found], jobs: Sequence[_Job]) -> list[_Found]:
        """The results of all jobs, in their order; `work` is a function of a module."""
        return list(map(work, jobs) if self._pool is None else self._pool.map(work, jobs))


def _end_with_parent() -> None:
    """End this worker as soon as the process that made it has: a pool that was killed ends none, and they
    would wait for work for ever."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    Thread(target=watch, daemon=True, name="parent").start()
