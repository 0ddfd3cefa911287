"""Bayesian linear regression with known noise: the one learner behind latency and quality. Pure.

Weights have independent standard normal priors, so all prior knowledge lies in the scale of the features: a
feature of value s contributes a prior standard deviation of s. With rows X, residuals y and noise variances
v,

    Λ = I + Xᵀ diag(1/v) X,   mean = Λ⁻¹ Xᵀ (y / v),   var(x) = xᵀ Λ⁻¹ x

(Bishop, *Pattern Recognition and Machine Learning*, §3.3; one row more by the Sherman-Morrison formula).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Features = Mapping[str, float]
"""Named features of one row; absent ones are 0."""

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LinearBelief:
    """The posterior over weights. `names` holds the features that data spoke of; all others keep their
    prior."""

    names: tuple[str, ...]
    mean: Array
    covariance: Array

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
        precision = np.eye(len(names)) + (x * weights[:, None]).T @ x
        covariance: Array = np.asarray(np.linalg.inv(precision), dtype=np.float64)
        mean: Array = covariance @ (x.T @ (weights * np.asarray(residuals, dtype=np.float64)))
        return cls(names, mean, covariance)

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
        total = variance + x @ gain
        return LinearBelief(
            names,
            mean + gain * ((residual - x @ mean) / total),
            covariance - np.outer(gain, gain) / total,
        )

    def predict(self, rows: Sequence[Features]) -> tuple[Array, Array]:
        """Mean and variance of the linear form at each row; features never seen add their prior variance."""
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
        variance = np.einsum("ij,jk,ik->i", x, self.covariance, x) + unseen
        return x @ self.mean, np.maximum(variance, 0.0)
