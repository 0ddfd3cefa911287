"""Effects of several campaigns made into one: a random-effects model in which the campaign is the unit. Pure.

Campaigns of one claim in one scope share what the scope records and differ in what it does not: the day, the
neighbours, the clocks, the calibration of a thermal limit. So the true effect of campaign i is taken as
θᵢ ~ N(μ, τ²), and what it measured as yᵢ ~ N(θᵢ, sᵢ²), where sᵢ is its interval's half-width over 1.96: the
interval read as an ordinary one of 95 %, which is wider than its launches alone would ask for, because it may
be looked at at any time. For a given τ the posterior of μ is normal (flat prior); τ is integrated out on a
grid under a half-Cauchy prior of scale `TAU_SCALE_LOG`.

From three campaigns on the interval is at least as wide as Hartung and Knapp's (Statistics in Medicine 20,
2001), at the median τ: it needs no prior and holds its level however much campaigns differ, but is too narrow
where they agree by chance, so the wider of both is taken (Wiksten, Rücker and Schwarzer, Statistics in
Medicine 35, 2016). Of two campaigns it leaves nothing: Student's t with one degree of freedom is 12.7, so two
that agree would give an interval several times as wide as either. There the prior decides alone: a weakly
informative one on τ is what is advised (Gelman, Bayesian Analysis 1, 2006: half-Cauchy; Friede, Röver, Wandel
and Neuenschwander, Biometrical Journal 59, 2017: two studies; Röver et al., Research Synthesis Methods 12,
2021). What it costs is measured by `tests.simulation.pooling` and told in docs/findings.md.

One campaign has no τ: its own interval comes back as it is, and speaks of that campaign alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import erfc, exp, fsum, hypot, log, log1p, sqrt

from knowledge.findings.pooling import Estimate

TAU_SCALE_LOG = 0.04
"""Scale of the prior on τ, in natural logarithms (4 %) or, of a share, in its own unit (four points): as
likely as not, campaigns of one scope differ by more, and by more than 10 % one time in four. A judgement; the
tail is heavy, so that campaigns which differ by more overrule it."""

LEAST_FOR_HARTUNG_KNAPP = 3
"""Campaigns from which on Hartung and Knapp's interval says anything."""

Z = 1.959964
"""Half-width of an ordinary 95 % interval in standard errors."""

_TAIL = 0.025
_STEPS = 160
"""Points of the grid over τ: four times as many move an end of an interval by less than 0.1 % of it."""

_NEGLIGIBLE = 1e-9
"""Probability of a τ that is left out of a quantile."""

_HALVINGS = 32
"""Halvings of the range in which a quantile is looked for: to a billionth of it."""


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
    return _pool(tuple(sorted(estimates, key=lambda each: (each.effect_log, each.half_width_log))))


@lru_cache(maxsize=512)  # a page asks for the same again at every look, and integrating takes 10 ms
def _pool(ordered: tuple[Estimate, ...]) -> Pooled:
    effects = [each.effect_log for each in ordered]
    errors = [each.half_width_log / Z for each in ordered]
    grid = _posterior(effects, errors)
    mean = fsum(each.weight * each.mean for each in grid)
    of_mean = [(each.weight, each.mean, each.sd) for each in grid]
    of_another = [(each.weight, each.mean, hypot(each.sd, each.tau)) for each in grid]
    tau = _median_tau(grid)
    least = _hartung_knapp(effects, errors, tau) if len(ordered) >= LEAST_FOR_HARTUNG_KNAPP else 0.0
    low = min(_quantile(of_mean, _TAIL), mean - least)
    high = max(_quantile(of_mean, 1 - _TAIL), mean + least)
    predicted = min(_quantile(of_another, _TAIL), low), max(_quantile(of_another, 1 - _TAIL), high)
    return Pooled(Estimate(mean, low, high), len(ordered), tau, _i_squared(effects, errors), predicted)


def weights_of(estimates: Sequence[Estimate], pooled: Pooled) -> tuple[float, ...]:
    """Return the share of each campaign in the pooled effect, at the median spread between campaigns."""
    tau = pooled.tau_log or 0.0
    precisions = [1 / ((each.half_width_log / Z) ** 2 + tau**2) for each in estimates]
    return tuple(each / fsum(precisions) for each in precisions)


@dataclass(frozen=True, slots=True)
class _Point:
    """A τ of the grid: its probability, and mean and standard deviation of μ given it."""

    tau: float
    weight: float
    mean: float
    sd: float


def _posterior(effects: Sequence[float], errors: Sequence[float]) -> list[_Point]:
    """The grid, even in log τ, with a flat prior on μ and a half-Cauchy one on τ."""
    spread = max(effects) - min(effects)
    least = min(*errors, TAU_SCALE_LOG) / 100
    most = 50 * max(spread, *errors, TAU_SCALE_LOG)
    step = log(most / least) / (_STEPS - 1)
    points = []
    for place in range(_STEPS):
        tau = least * exp(step * place)
        precisions = [1 / (error**2 + tau**2) for error in errors]
        total = fsum(precisions)
        mean = fsum(p * y for p, y in zip(precisions, effects, strict=True)) / total
        misfit = fsum(p * (y - mean) ** 2 for p, y in zip(precisions, effects, strict=True))
        log_likelihood = 0.5 * (fsum(map(log, precisions)) - log(total) - misfit)
        # The last term is the width of a step of the grid, which grows as τ does.
        log_weight = log_likelihood - log1p((tau / TAU_SCALE_LOG) ** 2) + log(tau)
        points.append((tau, log_weight, mean, total**-0.5))
    highest = max(log_weight for _, log_weight, _, _ in points)
    weights = [exp(log_weight - highest) for _, log_weight, _, _ in points]
    whole = fsum(weights)
    return [
        _Point(tau, weight / whole, mean, sd)
        for (tau, _, mean, sd), weight in zip(points, weights, strict=True)
    ]


def _quantile(mixture: Sequence[tuple[float, float, float]], share: float) -> float:
    """Where a mixture of normals (weight, mean, standard deviation) has this share below, by bisection."""
    kept = [each for each in mixture if each[0] > _NEGLIGIBLE]
    reach = max(sd for _, _, sd in kept) * 40
    low, high = min(mean for _, mean, _ in kept) - reach, max(mean for _, mean, _ in kept) + reach
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        below = fsum(weight * 0.5 * erfc((mean - middle) / (sd * sqrt(2))) for weight, mean, sd in kept)
        low, high = (middle, high) if below < share else (low, middle)
    return (low + high) / 2


def _median_tau(grid: Sequence[_Point]) -> float:
    """Where half of the probability is below, each point's spread evenly over its step in log τ."""
    step = log(grid[1].tau / grid[0].tau)
    below = 0.0
    for point in grid:
        if below + point.weight >= 0.5:
            return point.tau * exp(step * ((0.5 - below) / point.weight - 0.5))
        below += point.weight
    return grid[-1].tau


def _hartung_knapp(effects: Sequence[float], errors: Sequence[float], tau: float) -> float:
    """Half-width of Hartung and Knapp's 95 % interval of the mean, with weights at this τ."""
    from scipy.special import stdtrit  # loading it takes longer than most commands

    weights = [1 / (error**2 + tau**2) for error in errors]
    total, freedom = fsum(weights), len(effects) - 1
    mean = fsum(w * y for w, y in zip(weights, effects, strict=True)) / total
    scatter = fsum(w * (y - mean) ** 2 for w, y in zip(weights, effects, strict=True))
    return float(stdtrit(freedom, 1 - _TAIL)) * sqrt(scatter / (freedom * total))


def _i_squared(effects: Sequence[float], errors: Sequence[float]) -> float:
    weights = [error**-2 for error in errors]
    mean = fsum(w * y for w, y in zip(weights, effects, strict=True)) / fsum(weights)
    scatter = fsum(w * (y - mean) ** 2 for w, y in zip(weights, effects, strict=True))
    return max(0.0, 1 - (len(effects) - 1) / scatter) if scatter > 0 else 0.0
