"""The plan of a check: as few launches as show again what was promised, and how sure it is to.

A check need not find out how large the gain is, as the first test had to, but whether it still lies beyond
what was promised less a margin (`Promise.bound_log`). That is mostly far from what was measured, so a few
short pairs of launches show it. How many is reckoned by what the first test's pairs varied, with the judge's
own interval, and told as a chance; more are run where today's vary more: as many as fit into the time that
the check has, at which it ends, and as the campaign's plan allows. How many the first test was allowed does
not count: its campaign's budget had to do for other tests too (`agent.plan.length`), and a check's time is
its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import floor, sqrt

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from agent.campaign.known.facts import Facts
from agent.judge import t_mixture
from agent.judge.interval import NOISE_DOF_CAP, chance_below
from agent.judge.pairs import TIMED_STAGES
from agent.judge.scale import bound_of
from agent.plan.length import blocks_for
from agent.recipe.recipe import Promise
from configs.quantities import format_duration
from db.models import Experiment, StageRun, Verdict
from experiments.measurement.evidence import NoiseProfile, Stage
from experiments.measurement.plan import Prediction, StoppingPlan
from experiments.recording import load_launches, load_noise
from knowledge.figures import counted
from knowledge.stored import number

CHECK_S = 300.0
"""Seconds that a check has, if it is given no others; on a large model two pairs may take longer."""

LEAST_PAIRS = 2
"""Pairs of launches of any check: one, and one of further fresh processes that must agree."""

ENOUGH = 0.9
"""Chance to find a gain again that is wholly there, from which on no more pairs are planned for: trials are
by convention planned to miss 10 to 20 % (ICH E9, Statistical Principles for Clinical Trials, 1998, 3.5)."""

_Z = 1.959964
"""Half-width of an interval of 95 % in standard deviations."""


@dataclass(frozen=True)
class ShortPlan:
    """A check's `plan`, which ends after `within_s`; `pairs` of launches are expected to do, with the chance
    `power` to find a gain again that is wholly there, None where nothing is known of how pairs vary, and take
    about `expected_s` seconds; `most_s` is that of all pairs that the plan allows, both as the first test
    ran."""

    plan: StoppingPlan
    pairs: int
    power: float | None
    expected_s: float
    most_s: float
    within_s: float = CHECK_S

    @property
    def most_pairs(self) -> int:
        """All pairs that the plan allows."""
        return self.plan.full_pairs + self.plan.validation_pairs

    @property
    def words(self) -> str:
        """What is planned, how long it takes and how sure it is, in clauses."""
        found = f"{counted(self.pairs, 'pair')} of launches, about {format_duration(round(self.expected_s))}"
        if self.most_pairs > self.pairs:
            most = format_duration(round(self.most_s))
            found += f" (up to {self.most_pairs}, about {most}, where they vary more than they did)"
        if self.expected_s > self.within_s:
            found += ", which is longer than it has"
        if self.power is None:
            return f"{found}; how sure it is to find the gain again is not known"
        sure = f"a gain that is wholly there is found again {_percent(self.power)}"
        return f"{found}; {sure}, if pairs vary as they did"


@dataclass(frozen=True)
class Spread:
    """What is known of a pair's effect: its standard deviation as a logarithm, on so many degrees of freedom,
    `earlier` of them by the noise profile of the target."""

    sd_log: float
    degrees_of_freedom: int
    earlier: int


def short_plan(
    session: Session, facts: Facts, original: Experiment, promise: Promise, within_s: float = CHECK_S
) -> ShortPlan:
    """The plan of a check of what `original` measured, on the target of `facts`, that ends after `within_s`
    seconds.

    It allows the pairs of the campaign's plan, or as many as fit into its time by what those of `original`
    took, `LEAST_PAIRS` at least.
    """
    plan = StoppingPlan.model_validate(original.plan)
    verdict = session.scalars(select(Verdict).where(Verdict.experiment_id == original.id)).one()
    pair_s, beside_s = _seconds(session, original, verdict)
    allowed = facts.spec.plan
    most = allowed.full_pairs + allowed.validation_pairs
    if pair_s > 0:
        most = min(most, max(LEAST_PAIRS, floor((within_s - beside_s) / pair_s)))
    asked = plan.model_copy(
        update={
            "min_effect": round(promise.least_effect, 3),
            "prediction": Prediction(
                log_ratio_mean=promise.effect_log,
                log_ratio_sd=max((promise.high_log - promise.low_log) / (2 * _Z), 1e-3),
            ),
            "support_alpha": None,
        }
    )
    noise = load_noise(session, facts.noise_key, facts.model_fingerprint, plan.metric)
    spread = _spread(verdict, noise)
    pairs, power = _pairs(asked, promise, spread, most)
    validation = min(plan.validation_pairs, max(1, pairs - LEAST_PAIRS))
    asked = asked.model_copy(update={"full_pairs": max(1, most - validation), "validation_pairs": validation})
    baseline = facts.baseline_experiment_id
    blocks = blocks_for(asked, [] if baseline is None else load_launches(session, baseline), noise)
    short = asked.model_copy(update={"quick_blocks": min(plan.quick_blocks, blocks), "full_blocks": blocks})
    return ShortPlan(
        StoppingPlan.model_validate(short.model_dump()),
        pairs,
        power,
        beside_s + pair_s * pairs,
        beside_s + pair_s * most,
        within_s,
    )


def power_of(plan: StoppingPlan, effect_log: float, spread: Spread, pairs: int) -> float:
    """The chance that over so many pairs the judge's interval lies wholly beyond `plan.min_effect`, if the
    effect is `effect_log`. Pure."""
    squares = spread.sd_log**2 * (spread.earlier + pairs - 1)
    reach = t_mixture.reach(pairs, squares, spread.earlier, plan.alpha)
    low = bound_of(plan) - reach
    return chance_below(low, effect_log, spread.sd_log / sqrt(pairs), spread.degrees_of_freedom)


def _pairs(
    plan: StoppingPlan, promise: Promise, spread: Spread | None, most: int
) -> tuple[int, float | None]:
    """The fewest pairs that are `ENOUGH`, `most` where none are, and their power."""
    if spread is None:
        return most, None
    for pairs in range(LEAST_PAIRS, most + 1):
        power = power_of(plan, promise.effect_log, spread, pairs)
        if power >= ENOUGH:
            break
    return pairs, power


def _spread(verdict: Verdict, noise: NoiseProfile) -> Spread | None:
    """How pairs vary: as the first test's did, which its judge told, else as the target's profile says."""
    earlier = 0 if noise.launch_sd_log is None else min(noise.degrees_of_freedom, NOISE_DOF_CAP)
    told = verdict.judge.get("details")
    sd_log, freedom = (
        (number(told.get("pair_sd_log")), number(told.get("degrees_of_freedom")))
        if isinstance(told, dict)
        else (None, None)
    )
    if sd_log and freedom:
        return Spread(sd_log, int(freedom), earlier)
    if noise.launch_sd_log and earlier:
        return Spread(sqrt(2) * noise.launch_sd_log, earlier, earlier)
    return None


def _seconds(session: Session, original: Experiment, verdict: Verdict) -> tuple[float, float]:
    """Seconds on the clock that a pair of the first test took, and what it took beside its pairs, without
    further workloads, which a check does not measure."""

    def took_s(stages: Iterable[Stage]) -> float:
        last = select(func.max(StageRun.attempt)).where(StageRun.experiment_id == original.id)
        runs = select(func.sum(StageRun.wall_s)).where(
            StageRun.experiment_id == original.id,
            StageRun.stage.in_([each.value for each in stages]),
            StageRun.attempt == last.scalar_subquery(),
        )
        return session.scalar(runs) or 0.0

    wall_s = max(0.0, (original.wall_s or 0.0) - took_s([Stage.FURTHER]))
    timed_s = took_s(TIMED_STAGES) or wall_s
    return timed_s / max(1, verdict.launches // 2), max(0.0, wall_s - timed_s)


def _percent(chance: float) -> str:
    return "with a chance of more than 99 %" if chance > 0.99 else f"with a chance of {100 * chance:.0f} %"
