"""What each request takes beyond the mean, whichever row serves it, and what is left of it as noise. Pure.

The rows of a table are measured with the same requests in the same order. At many requests at once those that
are served while others read their prompts take several times as long a token as those that come last, in
every row alike. That spread is the requests' own and no error: it cancels in the ratio of two rows, and in a
campaign, which pairs its arms request by request. With the logs y of row r and request i in an additive
two-way layout (Scheffé, *The Analysis of Variance*, 1959, ch. 4)

    y_ri = row_r + request_i + noise_ri

a measurement keeps row and request and has noise of its own. So it is drawn: the bootstrap of residuals
(Efron and Tibshirani, *An Introduction to the Bootstrap*, 1993, ch. 9), each widened by what estimating rows
and requests took of their freedom, √(R·n / ((R − 1)(n − 1))) for R rows of n requests. Of rows whose samples
have nothing to do with each other the effects of requests come out next to nothing, and draws as wide as
samples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

LEAST_REQUESTS = 2
"""Requests of a row from which on it has a spread."""


@dataclass(frozen=True)
class RequestEffects:
    """By request the log of what it takes over the mean of all of them, and the factor by which residuals are
    widened."""

    logs: tuple[float, ...]
    widened: float

    def of(self, samples: Sequence[float]) -> Array:
        """The effects of the requests of a row's samples, launch by launch."""
        found: Array = np.tile(np.array(self.logs), len(samples) // len(self.logs))
        return found

    def noise(self, samples: Sequence[float]) -> Array:
        """What row and requests leave of the logs of a row's samples, widened; zero on average."""
        logs: Array = np.log(np.array(samples))
        noise: Array = self.widened * (logs - logs.mean() - self.of(samples))
        return noise

    def drawn(self, samples: Sequence[float], random: np.random.Generator) -> tuple[float, ...]:
        """As many samples as there are, of the same requests with other noise."""
        noise = random.choice(self.noise(samples), size=len(samples))
        found = np.exp(float(np.log(samples).mean()) + self.of(samples) + noise)
        return tuple(found.tolist())

    def error_log(self, samples: Sequence[float]) -> float:
        """Standard error of a row's mean on the log scale, beside a row of the same requests."""
        return float(self.noise(samples).std()) / math.sqrt(len(samples))


def request_effects(rows: Sequence[Sequence[float]]) -> RequestEffects | None:
    """The effects of the requests that these rows' samples are of, each row with as many samples or, of
    several launches one after the other, several times as many; None of fewer than two rows or requests, or
    where a row has another number."""
    count = min((len(each) for each in rows), default=0)
    if len(rows) < LEAST_REQUESTS or count < LEAST_REQUESTS or any(len(each) % count for each in rows):
        return None
    logs = np.array([np.log(each).reshape(-1, count).mean(axis=0) for each in rows])
    effects = (logs - logs.mean(axis=1, keepdims=True)).mean(axis=0)
    freedom = (len(rows) - 1) * (count - 1)
    return RequestEffects(tuple(effects.tolist()), math.sqrt(len(rows) * count / freedom))


def paired_sd_log(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Standard deviation of a sample's noise on the log scale, from two measurements of the same requests:
    that of their ratios, request by request, over √2. None where their numbers don't fit."""
    short, long = sorted((one, other), key=len)
    if len(short) < LEAST_REQUESTS or len(long) % len(short):
        return None
    ratios = np.log(long) - np.log(np.tile(short, len(long) // len(short)))
    return float(ratios.std(ddof=1)) / math.sqrt(2)
