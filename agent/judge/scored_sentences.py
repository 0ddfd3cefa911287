"""The reasons of verdicts on quality and bytes, each a sentence with its numbers in the right unit. Pure."""

from __future__ import annotations

from agent.judge.scored_reading import ScoredReading
from experiments.measurement.evidence import Metric
from experiments.measurement.plan import StoppingPlan
from knowledge.figures import counted, effect, margin

NAMES = {
    Metric.NLL_BITS: "Bits per byte",
    Metric.TASK_CORRECT: "Tasks",
    Metric.STEP_WEIGHT_BYTES: "Bytes a step",
}
"""What a sentence begins with."""

UNITS = {
    Metric.NLL_BITS: "document",
    Metric.TASK_CORRECT: "item",
    Metric.STEP_WEIGHT_BYTES: "process",
}
"""What an effect rests on."""

NOTHING = "Nothing was scored."


def told(plan: StoppingPlan, reading: ScoredReading) -> str:
    """The effect with its interval and what stands behind it; without a full stop."""
    now = reading.now
    if now is None:
        return too_little(plan).rstrip(".")
    name = NAMES[plan.metric]
    figures = effect(now.mean, now.low, now.high, plan.metric.value)
    if plan.metric is Metric.STEP_WEIGHT_BYTES:
        return f"{name} {figures} against the control, counted, not estimated"
    return (
        f"{name} {figures} against the control ({100 * (1 - plan.alpha):g} % interval, "
        f"{_counted(plan, now.count)})"
    )


def supported(plan: StoppingPlan, reading: ScoredReading) -> str:
    """Why it is supported."""
    return (
        f"{told(plan, reading)}, beyond the {_asked(plan)} asked for; {_further(plan, reading)}; "
        f"quality held: {reading.quality.sentence()}."
    )


def disagrees(plan: StoppingPlan, reading: ScoredReading) -> str:
    """Why the validation keeps it from being supported."""
    return (
        f"{told(plan, reading)}, beyond the {_asked(plan)} asked for, but {_further(plan, reading)}, "
        "which does not agree."
    )


def unvalidated(plan: StoppingPlan, reading: ScoredReading) -> str:
    """Why what looks good is not supported yet."""
    return (
        f"{told(plan, reading)}, beyond the {_asked(plan)} asked for, but no fresh process has confirmed it "
        "on further text."
    )


def unconvincing(plan: StoppingPlan, reading: ScoredReading) -> str:
    """Why what lies beyond is not supported at this campaign's level."""
    return (
        f"{told(plan, reading)}, beyond the {_asked(plan)} asked for, but not at the level of "
        f"{100 * plan.support_level:.2g} % at which this experiment may be called supported: a larger gain, "
        f"or more {UNITS[plan.metric]}s would be needed."
    )


def too_small(plan: StoppingPlan, reading: ScoredReading) -> str:
    """Why it is refuted by its effect."""
    return f"{told(plan, reading)}, so the gain is smaller than the {_asked(plan)} asked for."


def undecided(plan: StoppingPlan, reading: ScoredReading) -> str:
    """Why the effect leaves it open."""
    return f"{told(plan, reading)}, which neither reaches nor excludes the {_asked(plan)} asked for."


def guardrail_worse(plan: StoppingPlan, reading: ScoredReading) -> str:
    """Why it is refuted by what it must not harm."""
    return (
        f"The quality is worse than allowed: {reading.quality.sentence()}; {_lowered(told(plan, reading))}."
    )


def guardrail_undecided(plan: StoppingPlan, reading: ScoredReading) -> str:
    """Why what it must not harm leaves it open."""
    return (
        f"The data do not settle the quality: {reading.quality.sentence()}; {_lowered(told(plan, reading))}."
    )


def too_little(plan: StoppingPlan) -> str:
    """Why there is no effect to speak of."""
    if plan.metric is Metric.STEP_WEIGHT_BYTES:
        return "Not both arms told how many bytes of weights a step reads."
    return f"Too few {UNITS[plan.metric]}s were scored in both arms to tell a difference."


def _further(plan: StoppingPlan, reading: ScoredReading) -> str:
    found = reading.validation
    if found is None:
        return f"too few further {UNITS[plan.metric]}s were left to confirm it"
    if plan.metric is Metric.STEP_WEIGHT_BYTES:
        return f"a fresh process of the candidate read {effect(found.mean, None, None, plan.metric.value)}"
    return (
        f"{_counted(plan, found.count)} more, the candidate's by a fresh process, alone showed "
        f"{effect(found.mean, None, None, plan.metric.value)}"
    )


def _asked(plan: StoppingPlan) -> str:
    return margin(plan.min_effect, plan.metric.value)


def _counted(plan: StoppingPlan, count: int) -> str:
    return counted(count, UNITS[plan.metric], "processes" if UNITS[plan.metric] == "process" else None)


def _lowered(text: str) -> str:
    return text[0].lower() + text[1:]
