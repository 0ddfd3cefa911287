"""The proposer `roofline`: where the bytes of a step are, and what would read fewer of them. Pure.

At batch 1 a step can't be faster than its bytes over the memory's bandwidth (the roofline model: Williams,
Waterman, Patterson, CACM 52(4), 2009). Formats of numbers, quantized weights and narrower caches and states
move that floor; each idea says how much of the step the floor is, since bytes can save no more than that.
"""

from __future__ import annotations

import math
from dataclasses import replace

from agent.proposers.idea import Idea, other_values
from agent.proposers.of_objective import of_arithmetic, of_first_tokens, of_requests
from agent.proposers.port import CampaignView, Draft
from agent.proposers.profile_rule import by_profile
from agent.proposers.quantization_rule import quantization
from agent.proposers.step_profile import StepProfile, step_profile
from agent.proposers.turns import Rule, in_turns, strongest_first, within_budget
from experiments.measurement.evidence import Metric

NAME = "roofline"

BY_KERNELS = ("weight_dtype", "gdn_state", "kv_cache")
"""Levers of which a profile by kernels says what their bytes take."""

BYTES_PER_GB = 1e9
MS_PER_S = 1e3


class RooflineProposer:
    """Where the bytes are; see the module's page."""

    name = NAME

    def propose(self, view: CampaignView, count: int) -> list[Draft]:
        """At most `count` drafts; its rules take turns, the one that expects most first."""
        rules = [Rule(NAME, within_budget(view, of_lever(view, lever))) for lever in view.space.levers]
        return in_turns(view, strongest_first(view, rules), count)


def of_lever(view: CampaignView, lever: str) -> list[Idea]:
    """What the roofline says of a lever; empty for one that moves no bytes, or that it does not know."""
    step = step_profile(view.profile, view.tpot_ms)
    if lever in BY_KERNELS:
        return of_requests(view, lever, by_profile(view, lever))
    rule = {"dtype": _dtype, "quantization": quantization}.get(lever)
    if rule is None:
        return []
    found = [
        replace(idea, rationale=f"{idea.rationale}{_floor(view, step, idea)}") for idea in rule(view, step)
    ]
    return of_requests(view, lever, found)


def floor_ms(view: CampaignView, step: StepProfile) -> float | None:
    """Milliseconds that a step's weights take at the memory's bandwidth; None where that is not known."""
    if not view.bandwidth_bytes_per_s or not step.weight_bytes:
        return None
    return MS_PER_S * step.weight_bytes / view.bandwidth_bytes_per_s


def _floor(view: CampaignView, step: StepProfile | None, idea: Idea) -> str:
    """What of the step the bytes are, and so what a change of them can save; empty where nothing tells, and
    in a campaign about first tokens."""
    floor = None if step is None or of_first_tokens(view) else floor_ms(view, step)
    if step is None or floor is None or view.bandwidth_bytes_per_s is None:
        return ""
    share = min(1.0, floor / step.tpot_ms)
    words = (
        f" At the {view.bandwidth_bytes_per_s / BYTES_PER_GB:.0f} GB/s of this memory the weights of the "
        f"baseline's step take {floor:.2f} ms, {100 * share:.0f} % of it"
    )
    saved = _bytes_saved(view, idea)
    if saved is None:
        return f"{words}: bytes save no more than that."
    most = 100 * saved * share
    return f"{words}; this reads {100 * saved:.0f} % fewer bytes, so bytes save {most:.0f} % at most."


def _bytes_saved(view: CampaignView, idea: Idea) -> float | None:
    """The share of bytes that a change of weights spares a step of an engine that reads them packed; None
    where it spares none, or where no arithmetic tells."""
    if view.predict_on is None or not view.serves_packed:
        return None
    fewer = view.predict_on(view.incumbent, idea.candidate, Metric.STEP_WEIGHT_BYTES)
    saved = -math.expm1(fewer.log_ratio_mean)
    return saved if saved > 0 else None


def _dtype(view: CampaignView, step: StepProfile | None) -> list[Idea]:
    """Bytes are what a number format saves; worth more the nearer the step is to the memory's speed."""
    if of_first_tokens(view):
        why = f"{of_arithmetic(view)}, and another number format changes how fast that is."
    elif step is None:
        why = "A narrower number format halves the bytes of a step."
    else:
        why = (
            f"A step reads {step.weight_bytes / 1e6:.1f} MB of weights in {step.tpot_ms:.2f} ms, "
            f"{step.gb_per_s:.2f} GB/s, and another number format changes those bytes and the kernels."
        )
    return [Idea(candidate, why) for candidate in other_values(view, "dtype")]
