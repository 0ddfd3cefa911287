"""Bayesian linear regression with known noise: the one learner behind latency and quality. Pure.

Weights have independent standard normal priors, so all prior knowledge lies in the scale of the features: a
feature of value s contributes a prior standard deviation of s. With rows X, residuals y and noise variances
v,

    Λ = I + Xᵀ diag(1/v) X,   mean = Λ⁻¹ Xᵀ (y / v),   var(x) = s² xᵀ Λ⁻¹ x

(Bishop, *Pattern Recognition and Machine Learning*, §3.3; one row more by the Sherman-Morrison formula).

How wide the stated scales should have been is learnt too: all variances, of weights and of noise, have a
common factor s² with a scaled inverse-χ² prior around 1 that weighs as much as `SCALE_COUNT` outcomes (Gelman
et al., *Bayesian Data Analysis*, §14.2). After n outcomes with the misfit q = yᵀ (XXᵀ + diag v)⁻¹ y, the sum
of their squared standardized surprises one after another,

    s² = (SCALE_COUNT + q) / (SCALE_COUNT + n)

It moves no mean: who was surprised more than was expected is less sure of everything, and the other way
round.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Features = Mapping[str, float]
"""Named features of one row; absent ones are 0."""

Array = npt.NDArray[np.float64]

SCALE_COUNT = 5.0
"""Outcomes that the stated scales weigh as much as."""


@dataclass(frozen=True)
class LinearBelief:
    """The posterior over weights. `names` holds the features that data spoke of; all others keep their
    prior."""

    names: tuple[str, ...]
    mean: Array
    covariance: Array
    misfit: float = 0.0
    count: int = 0

    @property
    def scale(self) -> float:
        """The factor s of all standard deviations; 1 before any outcome."""
        return learnt_scale(self.misfit, self.count)

    @classmethod
    def learn(
        cls, rows: Sequence[Features], residuals: Sequence[float], variances: Sequence[float]
    ) -> LinearBelief:
        """The posterior after `residuals` with noise `variances` (> 0) were seen at `rows`."""
        names = tuple(sorted({name for row in rows for name in row}))
        place = {name: k for k, name in enumerate(names)}
        x = np.zeros((len(rows), len(names)))
        for number, row in enumerate(rows):
            for name, value in row.items():
                x[number, place[name]] = value
        weights = 1 / np.asarray(variances, dtype=np.float64)
        y = np.asarray(residuals, dtype=np.float64)
        precision = np.eye(len(names)) + (x * weights[:, None]).T @ x
        covariance: Array = np.asarray(np.linalg.inv(precision), dtype=np.float64)
        mean: Array = covariance @ (x.T @ (weights * y))
        misfit = float(y @ (weights * y) - mean @ precision @ mean)  # by Woodbury's identity
        return cls(names, mean, covariance, max(0.0, misfit), len(y))

    def after(self, row: Features, residual: float, variance: float) -> LinearBelief:
        """The posterior after one row more, without those before it; as `learn` of all, but for rounding.

        Σ' = Σ − Σx (Σx)ᵀ / (v + xᵀΣx),   mean' = mean + Σx (y − xᵀmean) / (v + xᵀΣx)
        """
        names = (*self.names, *(name for name in row if name not in self.names))
        known, count = len(self.names), len(names)
        covariance, mean = np.eye(count), np.zeros(count)
        covariance[:known, :known], mean[:known] = self.covariance, self.mean
        x = np.array([row.get(name, 0.0) for name in names])
        gain = covariance @ x
        total = float(variance + x @ gain)
        surprise = float(residual - x @ mean)
        return LinearBelief(
            names,
            mean + gain * (surprise / total),
            covariance - np.outer(gain, gain) / total,
            self.misfit + surprise**2 / total,
            self.count + 1,
        )

    def predict(self, rows: Sequence[Features]) -> tuple[Array, Array]:
        """Mean and variance of the linear form at each row; features never seen add their prior variance. The
        learnt scale is in all of it."""
        place = {name: k for k, name in enumerate(self.names)}
        x = np.zeros((len(rows), len(self.names)))
        unseen = np.zeros(len(rows))
        for number, row in enumerate(rows):
            for name, value in row.items():
                at = place.get(name)
                if at is None:
                    unseen[number] += value * value
                else:
                    x[number, at] = value
        variance = ((x @ self.covariance) * x).sum(axis=1) + unseen
        return x @ self.mean, self.scale**2 * np.maximum(variance, 0.0)


def learnt_scale(misfit: float, count: int) -> float:
    """The factor s of all standard deviations after so many outcomes with this misfit."""
    return math.sqrt((SCALE_COUNT + misfit) / (SCALE_COUNT + count))
