"""What an A/A series says of the assumptions that the judge rests on. Pure.

Every assumption is answered in three ways, because an interval that holds 0 shows nothing by itself. It
*holds* when the whole interval lies within what does not matter, it *does not hold* when the interval
excludes what is assumed, and else there were too few launches to say. Each sentence ends with what the judge
does about it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean

from agent.judge import aa_statistics as statistics
from agent.judge.aa_components import Components, components
from agent.judge.aa_pairs import AaPair, centres, differences, effects, follower, level, requests_of
from agent.judge.aa_replay import Replay, plan_of, replay
from agent.judge.aa_statistics import Estimate
from agent.judge.scale import bound_of
from configs.quantities import SECONDS_IN, format_duration
from experiments.measurement.judging import Judge
from experiments.measurement.plan import StoppingPlan
from knowledge.figures import percent, percent_interval, signed

BIAS_SHARE = 0.5
"""A bias does not matter where it is at most this share of `min_effect`."""

INDEPENDENT_BELOW = 0.2
"""A correlation of neighbours below which 100 values say as much as 67 at least."""

PAIRS_INDEPENDENT_BELOW = 0.5
"""The same for pairs, of which an experiment has 2 to 6: what is told apart needs about 16 of them."""

LEAST_FOR_NORMALITY = 20
"""Pairs below which Shapiro and Wilk's test finds only what is far from normal."""

NORMALITY_ALPHA = 0.05
"""Level of that test."""

LEAST_UNITS = 4
"""Pairs (or couples of them) below which nothing is claimed: an interval from 2 or 3 is narrow by luck."""

_HOUR_S = 3600.0


class Status(StrEnum):
    """What a series says of an assumption."""

    HOLDS = "holds"
    FAILS = "does not hold"
    TOO_FEW = "too few launches to say"


@dataclass(frozen=True)
class Assumption:
    """One assumption with its answer; `estimate` is in natural logs, or what its name says."""

    name: str
    status: Status
    sentence: str
    estimate: Estimate | None = None


@dataclass(frozen=True)
class Contrast:
    """What the other condition (`alone` or `beside`) does: to the metric, as log of the other over tests',
    and to the standard deviation between launches."""

    what: str
    level: Estimate | None
    sd_without: Estimate | None
    sd_with: Estimate | None
    sd_ratio: Estimate | None


@dataclass(frozen=True)
class AaReport:
    """What an A/A series says. `pairs` were measured as tests are, `pairs_apart` under the other condition;
    `samples` is the number of requests of a launch and `effective` what they are worth."""

    pairs: int
    pairs_apart: int
    launch_sd: Estimate | None
    parts: Components | None
    samples: int
    effective: float | None
    assumptions: tuple[Assumption, ...]
    contrast: Contrast | None
    judged: Replay
    plan: StoppingPlan


def report(
    pairs: Sequence[AaPair],
    plan: StoppingPlan,
    judge: Judge,
    blocks: int,
    condition: str | None = None,
) -> AaReport:
    """Look at a series of pairs of `blocks` blocks an arm; `condition` is `alone`, `beside` or None."""
    metric = plan.metric
    kept = [pair for pair in pairs if not pair.differs]
    seats = [effect.effect_log for effect in effects(kept, metric)]
    followers = [follower(pair, metric) for pair in kept]
    order = fmean(followers) if followers else 0.0
    requests = statistics.autocorrelation([requests_of(pair, metric, order) for pair in kept])
    samples = round(fmean(len(launch.values(metric)) for p in kept for launch in p.launches)) if kept else 0
    parts = components([differences(pair, metric, order) for pair in kept])
    hours = [pair.at_s / _HOUR_S for pair in kept]
    drift = statistics.slope(hours, [level(pair, metric) for pair in kept])
    contrast = None if condition is None else _contrast(pairs, plan, condition)
    own = plan_of(plan, blocks)
    worth = BIAS_SHARE * abs(bound_of(plan))
    found = [
        _launches_rule(parts),
        _requests_independent(requests, samples),
        _pairs_independent(seats),
        _no_drift(drift, hours, worth),
        _normal(seats),
        _seats_alike(seats, worth),
        _order_alike(followers, worth),
    ]
    if contrast is not None:
        found.append(_condition_alike(contrast, worth))
    return AaReport(
        pairs=len(kept),
        pairs_apart=len(pairs) - len(kept),
        launch_sd=_spread(kept, plan),
        parts=parts,
        samples=samples,
        effective=None if requests is None else statistics.effective_samples(samples, requests.value),
        assumptions=tuple(found),
        contrast=contrast,
        judged=replay(pairs, own, judge),
        plan=own,
    )


def _spread(pairs: Sequence[AaPair], plan: StoppingPlan) -> Estimate | None:
    return statistics.launch_sd(_within(pairs, plan))


def _within(pairs: Sequence[AaPair], plan: StoppingPlan) -> list[float]:
    """The difference of the two launches of each pair."""
    return [second - first for first, second in (centres(pair, plan.metric) for pair in pairs)]


def _contrast(pairs: Sequence[AaPair], plan: StoppingPlan, what: str) -> Contrast:
    """Neighbours 2k and 2k + 1 got the same texts, one of them under the other condition."""
    couples: dict[int, dict[bool, float]] = {}
    for pair in pairs:
        couples.setdefault(pair.number // 2, {})[pair.differs] = level(pair, plan.metric)
    both = [each[True] - each[False] for each in couples.values() if len(each) == 2]
    without = _within([pair for pair in pairs if not pair.differs], plan)
    apart = _within([pair for pair in pairs if pair.differs], plan)
    return Contrast(
        what,
        statistics.mean(both),
        statistics.launch_sd(without),
        statistics.launch_sd(apart),
        statistics.spread_ratio(apart, without),
    )


def _launches_rule(parts: Components | None) -> Assumption:
    name = "launch is the unit"
    if parts is None:
        text = "It takes 2 pairs of 2 blocks of 2 requests to tell launches from what varies within them"
        return Assumption(name, Status.TOO_FEW, f"{text}; the judge counts launches until it is known.")
    launches, own = parts.launches, parts.shares[0]
    assert launches.low is not None
    assert launches.high is not None
    sd = f"{_sd(launches.value)} [{_sd(launches.low)}, {_sd(launches.high)}]"
    told = f"Launches differ by {sd} beyond their blocks and requests, {100 * own:.0f} % of what "
    told += "varies in a pair"
    rest = parts.blocks.value / parts.block_count
    rest += parts.requests.value / (parts.block_count * parts.request_count)
    if launches.n < LEAST_UNITS:
        return Assumption(name, Status.TOO_FEW, f"{told}; the judge counts launches all the same.", launches)
    if launches.low > 0:
        return Assumption(name, Status.HOLDS, f"{told}; the judge counts launches, never requests.", launches)
    if launches.high < rest:
        text = (
            f"{told}; counting launches then costs time and no truth, and more blocks a pair would pay more."
        )
        return Assumption(name, Status.FAILS, text, launches)
    return Assumption(name, Status.TOO_FEW, f"{told}; the judge counts launches all the same.", launches)


def _requests_independent(found: Estimate | None, samples: int) -> Assumption:
    name = "requests are independent"
    if found is None:
        return Assumption(
            name, Status.TOO_FEW, "No launch has requests that vary; the judge counts launches."
        )
    worth = statistics.effective_samples(samples, found.value)
    text = (
        f"Neighbouring requests of a launch correlate by {_number(found)}, so that {samples} requests say as "
        f"much as {worth:.1f} independent ones; the judge takes one number from a launch pair."
    )
    return Assumption(name, _three_ways(found, INDEPENDENT_BELOW), text, found)


def _pairs_independent(seats: Sequence[float]) -> Assumption:
    name = "pairs are independent"
    found = statistics.autocorrelation([[seats]])
    consequence = "the judge's interval takes the pairs of an experiment as independent."
    if found is None:
        return Assumption(name, Status.TOO_FEW, f"It takes more than 2 pairs; {consequence}")
    reach = 1.96 / math.sqrt(len(seats))
    found = Estimate(found.value, found.value - reach, found.value + reach, len(seats))
    text = f"The effects of neighbouring pairs correlate by {_number(found)} (n = {found.n}); {consequence}"
    return Assumption(name, _three_ways(found, PAIRS_INDEPENDENT_BELOW), text, found)


def _no_drift(found: Estimate | None, hours: Sequence[float], worth: float) -> Assumption:
    name = "no drift"
    consequence = (
        "blocks of both arms alternate, so that a linear drift cancels, and launches are compared within "
        "their pair alone."
    )
    if found is None or found.low is None or found.high is None:
        return Assumption(name, Status.TOO_FEW, f"It takes 3 pairs to see a drift; {consequence}")
    took = format_duration(SECONDS_IN["h"] * (max(hours) - min(hours)))
    text = (
        f"Over {took} the metric changed by {percent(found.value)} an hour "
        f"{percent_interval(found.low, found.high)}; {consequence}"
    )
    return Assumption(name, _three_ways(found, worth), text, found)


def _normal(seats: Sequence[float]) -> Assumption:
    name = "pair effects are normal"
    chance, tails = statistics.normality(seats), statistics.excess_kurtosis(seats)
    consequence = "the judge's interval is exact for normal effects and near to it for others."
    if chance is None or tails is None:
        return Assumption(name, Status.TOO_FEW, f"It takes 4 pairs that differ; {consequence}")
    text = (
        f"Shapiro and Wilk's test gives p = {chance:.2g} and the excess kurtosis is {_number(tails)} "
        f"(n = {tails.n} pairs); {consequence}"
    )
    if chance < NORMALITY_ALPHA:
        status = Status.FAILS
    else:
        status = Status.HOLDS if tails.n >= LEAST_FOR_NORMALITY else Status.TOO_FEW
    return Assumption(name, status, text, tails)


def _seats_alike(seats: Sequence[float], worth: float) -> Assumption:
    found = statistics.mean(seats)
    faster = sum(effect < 0 for effect in seats)
    return _bias(
        "seats are alike",
        found,
        worth,
        lambda shown: (
            f"Against the first seat the launch in the second takes {shown}; it was faster in {faster} of "
            f"{len(seats)} pairs (sign test p = {statistics.sign_test(seats):.2g})"
        ),
        "the arms take turns in the seats, so that it cancels over two pairs.",
    )


def _order_alike(followers: Sequence[float], worth: float) -> Assumption:
    return _bias(
        "order is alike",
        statistics.mean(followers),
        worth,
        lambda shown: f"Against the earlier of two neighbouring blocks the later takes {shown}",
        "the arms take turns in leading, so that it cancels within a pair.",
    )


def _condition_alike(contrast: Contrast, worth: float) -> Assumption:
    alone = contrast.what == "alone"
    name = "side by side is alone" if alone else "nothing beside matters"
    ratio = contrast.sd_ratio
    spread = (
        ""
        if ratio is None or ratio.low is None or ratio.high is None
        else f"; launches vary {ratio.value:.2f} times as much [{ratio.low:.2f}, {ratio.high:.2f}]"
    )
    return _bias(
        name,
        contrast.level,
        worth,
        lambda shown: (
            f"Against one with another beside it, a launch that is up alone takes {shown}{spread}"
            if alone
            else f"Against one without, a launch with the command beside it takes {shown}{spread}"
        ),
        "both arms of a test are up side by side, so that it is the same for both."
        if alone
        else "launches measured beside it are not counted in the noise profile.",
    )


def _bias(
    name: str,
    found: Estimate | None,
    worth: float,
    told: Callable[[str], str],
    consequence: str,
) -> Assumption:
    if found is None or found.low is None or found.high is None:
        return Assumption(
            name, Status.TOO_FEW, f"It takes at least 2 of what is compared; {consequence}", found
        )
    shown = f"{percent(found.value, 2)} {percent_interval(found.low, found.high, 2)}"
    return Assumption(name, _three_ways(found, worth), f"{told(shown)}; {consequence}", found)


def _three_ways(found: Estimate, worth: float) -> Status:
    """Holds within what does not matter, does not where 0 is excluded, open else."""
    if found.n < LEAST_UNITS:
        return Status.TOO_FEW
    if found.within(worth):
        return Status.HOLDS
    return Status.FAILS if found.excludes_zero else Status.TOO_FEW


def _number(found: Estimate) -> str:
    if found.low is None or found.high is None:
        return signed(found.value, 2)
    return f"{signed(found.value, 2)} [{signed(found.low, 2)}, {signed(found.high, 2)}]"


def _sd(variance: float) -> str:
    return f"{100 * math.sqrt(variance):.2f} %"
