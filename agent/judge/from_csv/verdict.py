"""The verdict on a table of times: the judge's own interval and evidence, without stages and without quality.
Pure.

A table has no preregistered plan and no order of looks. What may be said of it is what holds whenever one
looks: the interval is the confidence sequence of `agent.judge.interval`, and support is called at its
e-value. Every launch is a fresh process, so that no pair needs another to confirm it; whoever has named pairs
as a validation beforehand says so, and then they must agree by themselves, as in an experiment.

**Supported (latency only)**: the whole interval lies beyond `min_effect`, the e-value of "the gain is
smaller" is 1/alpha at least, and the validation pairs, if any were named, agree. **Refuted (latency only)**:
the whole interval says that the gain is smaller. **Inconclusive**: everything else, with what is missing; so
too where the pairs agree more closely than measured times do.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from agent.judge.from_csv.asked import Asked
from agent.judge.interval import Interval, PairNoise, e_value_below, interval, one_look_high, pair_noises
from agent.judge.pairs import PairEffect
from agent.judge.scale import bound_of
from agent.judge.sentences import NAMES, TOO_ALIKE, percent, relative
from agent.judge.sequence import MOST_TOLD_PAIRS, pairs_to_settle
from experiments.measurement.evidence import Json, Metric
from experiments.measurement.judging import Outcome
from knowledge.figures import counted

SCOPE = "latency only"
"""What such a verdict speaks of."""

UNLOOKED = "quality was not looked at, so this speaks of latency only"


@dataclass(frozen=True)
class Validation:
    """What the named pairs say by themselves, natural log; `high_log` is one-sided at alpha."""

    pairs: int
    effect_log: float
    high_log: float
    agrees: bool


@dataclass(frozen=True)
class LatencyVerdict:
    """The verdict: `effect_log` is the mean over pairs of the log of candidate over control, negative is
    faster; `now` its interval, None where the pairs tell no spread. `samples` counts the values of the metric
    in both arms."""

    outcome: Outcome
    reason: str
    asked: Asked
    metric: Metric
    pairs: tuple[PairEffect, ...]
    effect_log: float
    now: Interval | None
    e_value: float | None
    validation: Validation | None

    @property
    def launches(self) -> int:
        """Launches of both arms."""
        return 2 * len(self.pairs)

    @property
    def samples(self) -> int:
        """Values of the metric."""
        return sum(pair.samples for pair in self.pairs)

    def as_json(self) -> dict[str, Json]:
        """The verdict as data; effects are relative, −0.1 is ten percent less, None beyond any number; those
        in `_log` are natural logs."""
        ends = [self.now.low_log, self.now.high_log] if self.now and self.now.bounded else None
        known = self.now.noise if self.now else None
        found = self.validation
        return {
            "verdict": self.outcome.value,
            "scope": SCOPE,
            "metric": self.metric.value,
            "effect": relative(self.effect_log),
            "interval": None if ends is None else [relative(end) for end in ends],
            "effect_log": self.effect_log,
            "interval_log": None if ends is None else [*ends],
            "launches": self.launches,
            "pairs": len(self.pairs),
            "samples": self.samples,
            "e_value": self.e_value,
            "min_effect": self.asked.min_effect,
            "alpha": self.asked.alpha,
            "validation": None
            if found is None
            else {
                "pairs": found.pairs,
                "effect": relative(found.effect_log),
                "high": relative(found.high_log),
                "agrees": found.agrees,
            },
            "noise": None
            if known is None
            else {
                "source": known.source,
                "degrees_of_freedom": known.degrees_of_freedom,
                "pair_sd_log": known.sd_log,
            },
            "reason": self.reason,
        }


def judge_pairs(asked: Asked, metric: Metric, pairs: tuple[PairEffect, ...]) -> LatencyVerdict:
    """Judge the pairs of one metric, at least two."""
    bound = bound_of(asked.plan(metric))
    effect = fmean(pair.effect_log for pair in pairs)
    noises = pair_noises(pairs, asked.noise(metric))
    if not noises:
        count = counted(len(pairs), "launch pair")
        reason = (
            f"{NAMES[metric]} changed by {percent(effect)} % in each of {count}, "
            f"{TOO_ALIKE}, so nothing tells how launches vary (are the values copied, or rounded too much?); "
            f"{UNLOOKED}."
        )
        return LatencyVerdict(Outcome.INCONCLUSIVE, reason, asked, metric, pairs, effect, None, None, None)
    now = interval(pairs, noises, asked.alpha)
    e_value = e_value_below(pairs, noises, bound)
    validation = _validation(asked, pairs, noises[-1], bound)
    outcome, why = _decide(asked, metric, now, e_value, validation)
    reason = f"{_effect(asked, metric, now)}{why}; {UNLOOKED}."
    return LatencyVerdict(outcome, reason, asked, metric, pairs, effect, now, e_value, validation)


def _decide(
    asked: Asked, metric: Metric, now: Interval, e_value: float, validation: Validation | None
) -> tuple[Outcome, str]:
    bound, share = bound_of(asked.plan(metric)), f"{100 * asked.min_effect:g} %"
    if now.low_log > bound:
        return Outcome.REFUTED, f", so the gain is smaller than the {share} asked for"
    if now.high_log < bound and e_value >= 1 / asked.alpha:
        if validation is None:
            return Outcome.SUPPORTED, f", wholly beyond the {share} asked for"
        told = (
            f"the last {counted(validation.pairs, 'pair')}, named as validation, alone showed "
            f"{percent(validation.effect_log)} %"
        )
        if validation.agrees:
            return Outcome.SUPPORTED, f", wholly beyond the {share} asked for; {told}"
        high = percent(validation.high_log)
        return Outcome.INCONCLUSIVE, (
            f", beyond the {share} asked for, but {told}, one-sided at most {high} %, which does not agree"
        )
    more = pairs_to_settle(asked.plan(metric), now)
    open_still = "which neither reaches nor excludes" if now.bounded else "so nothing is said yet of"
    return Outcome.INCONCLUSIVE, (
        f", {open_still} the {share} asked for; "
        + (
            f"more than {MOST_TOLD_PAIRS} pairs like these would be needed to settle it"
            if more is None
            else f"about {more} pairs like these would settle it"
        )
    )


def _effect(asked: Asked, metric: Metric, now: Interval) -> str:
    start = f"{NAMES[metric]} changed by {percent(now.mean_log)} %"
    count = counted(now.pairs, "launch pair")
    if not now.bounded:
        return f"{start} over {count}, with no interval yet, because too little tells how launches vary"
    low, high = percent(now.low_log), percent(now.high_log)
    return f"{start} ({100 * (1 - asked.alpha):g} % interval {low} to {high} %, {count})"


def _validation(
    asked: Asked, pairs: tuple[PairEffect, ...], noise: PairNoise, bound: float
) -> Validation | None:
    named = [pair for pair in pairs if pair.validation]
    if not named:
        return None
    mean, high = fmean(pair.effect_log for pair in named), one_look_high(named, noise, asked.alpha)
    return Validation(len(named), mean, high, agrees=mean < bound and high < 0)
