"""How much of an outcome is heard that lies far off from what was believed. Pure.

An outcome that is very far off says that this one thing is otherwise than was thought: one kernel may take
seven times as long as another. It says nothing of how sure all else is, and little of what is alike. With
normal beliefs it would: a single surprise of twenty standard deviations makes every spread several times as
wide, and moves whatever shares a feature with it. So a surprise beyond `FARTHEST` standard deviations is
heard as one of so many, one outcome after another, by what was believed before it: Huber's bounded influence
(*Annals of Mathematical Statistics* 35, 1964), in a filter as Masreliez and Martin have it (*IEEE
Transactions on Automatic Control* 22, 1977).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from agent.surrogate.linear import Features, LinearBelief, learnt_scale

Row: TypeAlias = tuple[Features, float, float]
"""Features, residual and its variance."""

FARTHEST = 3.0
"""Standard deviations beyond which an outcome is heard as if it lay there; judgement."""

TOGETHER = 64
"""Rows to a matrix product: changes how quickly they are heard, not what."""


def heard(rows: Sequence[Row], farthest: float = FARTHEST) -> list[Row]:
    """The rows with what is heard of their residuals, in this order, from knowing nothing on.

    Rows are taken `TOGETHER` at a time: with L Lᵀ = X Σ Xᵀ + diag(v) by Cholesky, forward substitution finds
    the very surprises z, in standard deviations, that one row after another would have had.
    """
    if math.isinf(farthest):
        return list(rows)
    names = sorted({name for features, _, _ in rows for name in features})
    place = {name: k for k, name in enumerate(names)}
    mean, covariance = np.zeros(len(names)), np.eye(len(names))
    misfit: float = 0.0
    found: list[Row] = []
    for batch in (rows[start : start + TOGETHER] for start in range(0, len(rows), TOGETHER)):
        x = np.zeros((len(batch), len(names)))
        for number, (features, _, _) in enumerate(batch):
            for name, value in features.items():
                x[number, place[name]] = value
        spread = covariance @ x.T
        lower = np.linalg.cholesky(x @ spread + np.diag([variance for _, _, variance in batch]))
        means = x @ mean
        z = np.zeros(len(batch))
        for number, (features, residual, variance) in enumerate(batch):
            deviation = float(lower[number, number])
            expected = float(means[number] + lower[number, :number] @ z[:number])
            most = farthest * learnt_scale(misfit, len(found))
            z[number] = _bounded((residual - expected) / deviation, most)
            found.append((features, expected + float(z[number]) * deviation, variance))
            misfit += float(z[number]) ** 2
        gain = np.linalg.solve(lower, spread.T).T
        mean += gain @ z
        covariance -= gain @ gain.T
    return found


def heard_after(belief: LinearBelief, row: Row, farthest: float = FARTHEST) -> Row:
    """What is heard of one row more by who believes this."""
    features, residual, variance = row
    [mean], [spread] = belief.predict([features])
    most = farthest * math.sqrt(float(spread) + belief.scale**2 * variance)
    return features, float(mean) + _bounded(residual - float(mean), most), variance


def _bounded(surprise: float, most: float) -> float:
    return max(-most, min(most, surprise))
