"""Effects of several campaigns made into one: a random-effects model in which the campaign is the unit. Pure.

Campaigns of one claim in one scope share what the scope records and differ in what it does not: the day, the
neighbours, the clocks, the calibration of a thermal limit. So the true effect of campaign i is taken as
θᵢ ~ N(μ, τ²), and what it measured as yᵢ ~ N(θᵢ, sᵢ²), where sᵢ is its interval's half-width over 1.96: the
interval read as an ordinary one of 95 %, which is wider than its launches alone would ask for, because it may
be looked at at any time. For a given τ the posterior of μ is normal (flat prior); τ is integrated out on a
grid under a half-Cauchy prior of scale `TAU_SCALE_LOG`.

Why not the usual way of few campaigns, DerSimonian-Laird's τ² (Controlled Clinical Trials 7, 1986) with
Hartung and Knapp's interval (Statistics in Medicine 20, 2001), the wider of both taken (Wiksten, Rücker and
Schwarzer, Statistics in Medicine 35, 2016)? It needs no prior and holds its level, but of two campaigns it
leaves nothing: Student's t with one degree of freedom is 12.7, so two that agree give an interval several
times as wide as either. A weakly informative prior on τ is what is advised there (Gelman, Bayesian Analysis
1, 2006: half-Cauchy; Friede, Röver, Wandel and Neuenschwander, Biometrical Journal 59, 2017: two studies;
Röver et al., Research Synthesis Methods 12, 2021). What the prior costs is measured by
`tests.simulation.pooling` and told in docs/findings.md.

One campaign has no τ: its own interval comes back as it is, and speaks of that campaign alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr

from knowledge.findings.pooling import Estimate

TAU_SCALE_LOG = 0.02
"""Scale of the prior on τ, in natural logarithms (2 %) or, of a share, in its own unit (two points): as
likely as not, campaigns of one scope differ by more. Two thirds of the smallest effect worth having; the tail
is heavy, so that campaigns which differ by more overrule it."""

Z = 1.959964
"""Half-width of an ordinary 95 % interval in standard errors."""

_TAIL = 0.025
_STEPS = 240
"""Points of the grid over τ: twice as many move the ends of an interval by less than 1 % of its width."""

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Pooled:
    """The mean effect over campaigns with its 95 % interval, and how much campaigns differ.

    `tau_log` is the posterior median of their standard deviation, `i_squared` the share of their scatter that
    their own intervals do not explain (Higgins and Thompson 2002: (Q − df)/Q, at least 0), `predicted` where
    the effect of another campaign in this scope lies with 95 %. These are None of a single campaign.
    """

    estimate: Estimate
    campaigns: int
    tau_log: float | None = None
    i_squared: float | None = None
    predicted: tuple[float, float] | None = None


def pool_campaigns(estimates: Sequence[Estimate]) -> Pooled:
    """Return what the estimates of these campaigns say together, one estimate a campaign, in any order.

    Raises `ValueError` for none.
    """
    if not estimates:
        raise ValueError("there is nothing to pool")
    if len(estimates) == 1:
        return Pooled(estimates[0], 1)
    ordered = sorted(estimates, key=lambda each: (each.effect_log, each.half_width_log))
    effects = np.array([each.effect_log for each in ordered])
    errors = np.array([each.half_width_log for each in ordered]) / Z
    posterior = _posterior(effects, errors)
    mean = float(posterior.weights @ posterior.means)
    low, high = (_quantile(posterior, posterior.sds, tail) for tail in (_TAIL, 1 - _TAIL))
    spread = np.hypot(posterior.sds, posterior.taus)
    predicted = _quantile(posterior, spread, _TAIL), _quantile(posterior, spread, 1 - _TAIL)
    tau = float(np.interp(0.5, np.cumsum(posterior.weights), posterior.taus))
    return Pooled(Estimate(mean, low, high), len(ordered), tau, _i_squared(effects, errors), predicted)


@dataclass(frozen=True, slots=True)
class _Posterior:
    """Of each τ of the grid: its probability, and mean and standard deviation of μ given it."""

    taus: Vector
    weights: Vector
    means: Vector
    sds: Vector


def _posterior(effects: Vector, errors: Vector) -> _Posterior:
    least = min(float(errors.min()), TAU_SCALE_LOG) / 100
    most = 50 * max(float(np.ptp(effects)), float(errors.max()), TAU_SCALE_LOG)
    taus = np.geomspace(least, most, _STEPS)
    precisions = 1 / (errors[:, None] ** 2 + taus[None, :] ** 2)
    total = precisions.sum(axis=0)
    means = (precisions * effects[:, None]).sum(axis=0) / total
    misfit = (precisions * (effects[:, None] - means) ** 2).sum(axis=0)
    log_likelihood = 0.5 * (np.log(precisions).sum(axis=0) - np.log(total) - misfit)
    # The last term is the width of a step of the grid, which is even in log τ.
    log_weights = log_likelihood - np.log1p((taus / TAU_SCALE_LOG) ** 2) + np.log(taus)
    weights = np.exp(log_weights - log_weights.max())
    return _Posterior(taus, weights / weights.sum(), means, total**-0.5)


def _quantile(posterior: _Posterior, sds: Vector, share: float) -> float:
    """Where a mixture of normals about the means, with these standard deviations, has this share below."""
    reach = 40 * float(sds.max()) + float(np.ptp(posterior.means))
    middle = float(posterior.means.mean())

    def beyond(value: float) -> float:
        return float(posterior.weights @ ndtr((value - posterior.means) / sds)) - share

    return float(brentq(beyond, middle - reach, middle + reach, xtol=1e-9))


def _i_squared(effects: Vector, errors: Vector) -> float:
    weights = errors**-2.0
    mean = float(weights @ effects / weights.sum())
    scatter = float(weights @ (effects - mean) ** 2)
    return max(0.0, 1 - (len(effects) - 1) / scatter) if scatter > 0 else 0.0
