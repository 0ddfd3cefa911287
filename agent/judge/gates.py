"""Gates between evidence and verdict: small pure checks, each naming what it found. Pure.

A gate never weighs numbers; it says that evidence can't be judged (`Refused`), or that something besides the
claimed change differs between the arms (`Confounded`), or that the candidate can't do the work (`Broken`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from agent.judge.confounding import (
    CLOCK_TOLERANCE,
    MOST_SHOWN,
    Difference,
    differences,
    scored_otherwise,
    sentence,
    silent_launches,
)
from agent.judge.drafting import arm_is_due, drafting_report, dropped_head
from agent.judge.once import once
from agent.judge.pairs import TIMED_STAGES, paired_blocks, timed_launches
from experiments.measurement.evidence import (
    SCORED_METRICS,
    TIMED_METRICS,
    Arm,
    Evidence,
    LaunchRecord,
    Metric,
    Sample,
    Stage,
)
from experiments.measurement.judging import Outcome
from experiments.measurement.plan import StoppingPlan

NOT_NEGATIVE = frozenset(
    {
        Metric.KL_NATS,
        Metric.TOP1_AGREEMENT,
        Metric.TASK_CORRECT,
        Metric.DECODE_AGREEMENT,
        Metric.DIVERGENCES,
        Metric.NEAR_TIES,
        Metric.NEAR_TIE_LOGITS,
        Metric.FLIPS_WITHOUT_DRAFT,
    }
)
"""Metrics that may be zero; every other one must be positive."""

KL_ROUNDING_NATS = 1e-4
"""A KL of equal distributions may come out this far below zero in single precision."""


@dataclass(frozen=True)
class Finding:
    """What a gate found: the outcome it forces, the sentence that says why, and the arm that can't do the
    work where that is why."""

    outcome: Outcome
    reason: str
    failed: Arm | None = None


def clock_tolerance(plan: StoppingPlan) -> float:
    """How far the arms' clocks may lie apart, relative: no further than the gain that is asked for, so that
    no clock makes it alone."""
    timed = plan.metric in TIMED_METRICS
    return min(CLOCK_TOLERANCE, plan.min_effect) if timed else CLOCK_TOLERANCE


def check(evidence: Evidence, metric: Metric, clocks: float = CLOCK_TOLERANCE) -> Finding | None:
    """The first gate that does not pass, in a fixed order; None when the evidence can be judged.

    `clocks` is how far the arms' clocks may lie apart, relative.
    """
    return (
        failed(evidence)
        or uncounted_drafter(evidence, metric)
        or broken_samples(evidence)
        or mixed_configurations(evidence, metric)
        or unpaired_prompts(evidence, metric)
        or unpaired_documents(evidence)
        or unfit_control(evidence)
        or dropped_drafts(evidence)
        or unexplained_difference(evidence, metric, clocks)
        or quality_of_something_else(evidence, metric)
    )


def failed(evidence: Evidence) -> Finding | None:
    """The candidate did not run; `failure` holds the cause."""
    if evidence.failure is None:
        return None
    return Finding(Outcome.INFEASIBLE, f"The candidate did not run: {evidence.failure.rstrip('.')}.")


def uncounted_drafter(evidence: Evidence, metric: Metric) -> Finding | None:
    """Bytes a step are those of the target's weights: they say nothing of what a drafter reads."""
    if metric is not Metric.STEP_WEIGHT_BYTES:
        return None
    touched = [str(change) for change in evidence.changes if change.knob.partition(".")[0] == "drafting"]
    if not touched:
        return None
    return Finding(
        Outcome.INCONCLUSIVE,
        f"A claim on bytes a step counts the target's weights, and the change touches what drafts "
        f"({', '.join(touched)}), whose bytes are not counted: claim it on time, or leave drafting as it is.",
    )


def broken_samples(evidence: Evidence) -> Finding | None:
    """No sample may be NaN, infinite, negative, or zero where zero can't be."""
    for record in evidence.launches:
        sample = _unsound(record)
        if sample is None:
            continue
        where = f"{sample.metric.value} of {sample.item!r} in {record.arm.value} launch {record.index}"
        scored = sample.metric not in TIMED_METRICS
        if scored and record.arm == Arm.CANDIDATE and math.isnan(sample.value):
            return Finding(Outcome.INFEASIBLE, f"The candidate computes no numbers: {where} is NaN.")
        return Finding(
            Outcome.INCONCLUSIVE, f"The evidence is refused: {where} is {sample.value}, which can't be."
        )
    return None


@once
def _unsound(record: LaunchRecord) -> Sample | None:
    return next((each for each in record.samples if not _sound(each.metric, each.value)), None)


def compared(evidence: Evidence, arm: Arm, metric: Metric) -> tuple[LaunchRecord, ...]:
    """The launches of an arm whose effect on `metric` is judged: the timed ones, or those that tell it.

    The evaluation of a reference that is not the control itself is none of them.
    """
    if metric not in SCORED_METRICS:
        return evidence.of(arm, *TIMED_STAGES)
    return tuple(r for r in evidence.of(arm, Stage.EVALUATE, Stage.VALIDATION) if r.values(metric))


def mixed_configurations(evidence: Evidence, metric: Metric) -> Finding | None:
    """All launches of an arm that are compared must be launches of one configuration."""
    for arm in Arm:
        digests = sorted({record.configuration_digest for record in compared(evidence, arm, metric)})
        if len(digests) > 1:
            return Finding(
                Outcome.CONFOUNDED,
                f"The {arm.value} arm ran more than one configuration ({', '.join(d[:8] for d in digests)}).",
            )
    return None


def unpaired_prompts(evidence: Evidence, metric: Metric) -> Finding | None:
    """Block k of both arms of a launch pair must have answered the same prompts."""
    if metric in SCORED_METRICS:
        return None
    control, candidate = timed_launches(evidence, Arm.CONTROL), timed_launches(evidence, Arm.CANDIDATE)
    for index in sorted(control.keys() & candidate.keys()):
        for number, a, b in paired_blocks(control[index], candidate[index], metric):
            before, after = a.keys(), b.keys()
            if before != after:
                return Finding(
                    Outcome.CONFOUNDED,
                    f"The arms answered different prompts in launch pair {index}, block {number}: "
                    f"{', '.join(sorted(before ^ after)[:3])} in one arm only.",
                )
    return None


def unpaired_documents(evidence: Evidence) -> Finding | None:
    """A document that both arms scored must have the same bytes in both."""
    sizes: dict[str, float] = {}
    for arm in (Arm.CONTROL, Arm.CANDIDATE):
        for record in evidence.of(arm, Stage.SCREEN, Stage.EVALUATE, Stage.VALIDATION):
            for sample in record.of(Metric.TEXT_BYTES):
                if sizes.setdefault(sample.item, sample.value) != sample.value:
                    return Finding(
                        Outcome.CONFOUNDED,
                        f"Different texts were scored: {sample.item!r} has {sizes[sample.item]:.0f} bytes "
                        f"in one arm and {sample.value:.0f} in the other.",
                    )
    return None


def unfit_control(evidence: Evidence) -> Finding | None:
    """A control whose drafting changes the text or hardly ever stands is none to compare with."""
    if not arm_is_due(evidence, Arm.CONTROL):
        return None
    report = drafting_report(evidence, Arm.CONTROL)
    if report is None:
        return None
    if report.dropped:
        cause = dropped_head(report)
    elif report.prompts and report.changes_text:
        cause = report.sentence()
    else:
        return None
    return Finding(
        Outcome.INFEASIBLE,
        f"The control is none to compare with: its {cause[0].lower()}{cause[1:]}.",
        Arm.CONTROL,
    )


def dropped_drafts(evidence: Evidence) -> Finding | None:
    """Drafts that hardly ever stand are no drafting: a head or drafter without its weights."""
    if not arm_is_due(evidence, Arm.CANDIDATE):
        return None
    report = drafting_report(evidence)
    if report is None or not report.dropped:
        return None
    return Finding(Outcome.INFEASIBLE, f"{dropped_head(report)}.")


def unexplained_difference(
    evidence: Evidence, metric: Metric, clocks: float = CLOCK_TOLERANCE
) -> Finding | None:
    """What actually ran may differ between the arms only where the claimed change explains it.

    Where some launches tell what ran and others don't, the arms can't be compared either.
    """
    control, candidate = compared(evidence, Arm.CONTROL, metric), compared(evidence, Arm.CANDIDATE, metric)
    if not control or not candidate:
        return None
    silent = silent_launches((*control, *candidate))
    if silent:
        named = ", ".join(sorted({f"{each.arm.value} launch {each.index}" for each in silent}))
        return Finding(
            Outcome.CONFOUNDED,
            f"What ran can't be compared: {named} told nothing of what it ran, and other launches did.",
        )
    found = confounders(evidence, metric, clocks)
    return Finding(Outcome.CONFOUNDED, sentence(found, evidence.changes)) if found else None


def quality_of_something_else(evidence: Evidence, metric: Metric) -> Finding | None:
    """The candidate's quality must be that of what was timed: a launch that was scored may run nothing that
    the timed ones did not."""
    if metric in SCORED_METRICS:
        return None
    timed = evidence.of(Arm.CANDIDATE, *TIMED_STAGES)
    processes = {(each.index, each.load_s) for each in timed}
    scored = [
        each
        for each in evidence.of(Arm.CANDIDATE, Stage.EVALUATE)
        if (each.index, each.load_s) not in processes  # the same process tells more the longer it runs
    ]
    found = scored_otherwise(timed, scored)
    if not found:
        return None
    shown = "; ".join(
        f"{each.key} was {each.control} when it was timed, {each.candidate} when it was scored"
        for each in found[:MOST_SHOWN]
    )
    more = f"; and {len(found) - MOST_SHOWN} more" if len(found) > MOST_SHOWN else ""
    return Finding(
        Outcome.CONFOUNDED, f"The quality is that of something else than was timed: {shown}{more}."
    )


def confounders(
    evidence: Evidence, metric: Metric, clocks: float = CLOCK_TOLERANCE
) -> tuple[Difference, ...]:
    """What differs between the arms whose effect on `metric` is judged, beyond the claimed change."""
    control, candidate = (compared(evidence, arm, metric) for arm in (Arm.CONTROL, Arm.CANDIDATE))
    if not control or not candidate:
        return ()
    timed = metric not in SCORED_METRICS
    return differences(control, candidate, evidence.changes, evidence.pinned_keys, clocks, timed=timed)


def _sound(metric: Metric, value: float) -> bool:
    if not math.isfinite(value):
        return False
    if metric == Metric.KL_NATS:
        return value >= -KL_ROUNDING_NATS
    if metric == Metric.TASK_CORRECT:
        return value in (0.0, 1.0)
    return value >= 0 if metric in NOT_NEGATIVE else value > 0
