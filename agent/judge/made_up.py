"""Verdicts on made-up weights: what they can't say, and what is told of drafting there. Pure.

Quality is not known there, and which drafts are accepted is set beforehand. So what is supported is supported
for its latency alone, and an experiment in which an arm drafts judges no time of a token: one launch pair
tells the time of a step and the acceptance length at which drafting breaks even, and the claim stays open.
"""

from __future__ import annotations

from agent.judge.drafting import DraftingReport, drafting_report, method_of
from experiments.measurement.drafting_due import is_drafting
from experiments.measurement.evidence import Arm, Evidence, Json
from experiments.measurement.plan import StoppingPlan
from knowledge.latency_only import LATENCY_ONLY as SCOPE
from knowledge.latency_only import UNKNOWN_QUALITY

LATENCY_ONLY = f"{SCOPE}: the weights are made up, and {UNKNOWN_QUALITY}"
"""What every sentence on a time of made-up weights ends with."""

ACCEPTANCE_SET = "which drafts are accepted was set, not measured"


def acceptance_is_set(plan: StoppingPlan, evidence: Evidence) -> bool:
    """Whether an arm drafts on made-up weights, so that its time of a token is no result."""
    return plan.latency_only and any(is_drafting(method_of(evidence, arm)) for arm in Arm)


def with_scope(reason: str) -> str:
    """A reason with what it does not speak of; one that says it already stays as it is."""
    return reason if LATENCY_ONLY in reason else f"{reason.rstrip('.')}; {LATENCY_ONLY}."


def steps_told(evidence: Evidence) -> str:
    """What an experiment tells of drafting here: times of steps, and the break-even length."""
    candidate, control = drafting_report(evidence), drafting_report(evidence, Arm.CONTROL)
    told = [
        f"a step of the {arm} takes {report.step_ms:.2f} ms"
        for arm, report in ((Arm.CONTROL.value, control), (Arm.CANDIDATE.value, candidate))
        if report is not None and report.step_ms is not None
    ]
    if candidate is not None and control is None and candidate.break_even is not None:
        told.append(f"drafting breaks even at {candidate.break_even:.2f} tokens a step")
    elif candidate is not None and control is None and candidate.draws_level is not None:
        told.append(
            f"the whole change draws level with the control at {candidate.draws_level:.2f} tokens a step"
        )
    if not told:
        return f"No step with drafts was timed; {ACCEPTANCE_SET}, so no gain is judged; {LATENCY_ONLY}."
    words = " and ".join(told)
    return f"{words[0].upper()}{words[1:]}; {ACCEPTANCE_SET}, so no gain is judged; {LATENCY_ONLY}."


def report_json(report: DraftingReport) -> dict[str, Json]:
    """What a verdict stores of an arm's drafting here: nothing that rests on the acceptance that was set."""
    return {
        "acceptance": ACCEPTANCE_SET,
        "draws_level_acceptance_length": report.draws_level,
        "break_even_acceptance_length": report.break_even,
        "step_ms": report.step_ms,
        "steps": report.steps,
    }
