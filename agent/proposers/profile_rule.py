"""The rule of the profile: what each part of the step could still give, in words, for the levers that act on
it. Pure.

No kernel or format is named as better here: each other value is a candidate, told with what the profile by
kernels says of the part that it acts on; so is each graph mode that may need fewer launches than what runs.
What is at its floor already is not worth a test, which the surrogate's small expectation says by itself
(`agent/surrogate/kernel_parts.py`). What hides the time outside kernels has no reason here where there is
less of that than a gain must be, nor has what hides none.
"""

from __future__ import annotations

from agent.proposers.idea import Idea, other_values
from agent.proposers.kernel_words import timed_words
from agent.proposers.of_objective import of_first_tokens
from agent.proposers.port import CampaignView
from agent.surrogate.graph_modes import GRAPH_MODE, fewer_launches
from agent.surrogate.kernel_parts import EXPERTS, HEAD, OUTSIDE, PRODUCTS, KernelParts, ran
from experiments.space.configuration import Configuration
from experiments.space.steps_ahead_rules import AHEAD, OFF

LEVERS = ("kernel", "experts_kernel", "graphs", "scheduling", "gdn_state", "kv_cache", "weight_dtype")
"""Levers that act on one part of the step."""

OF_OUTSIDE = ("graphs", "scheduling")
"""Those that act on the time in which no kernel runs, which is all that they could save."""


def parts_of(view: CampaignView) -> KernelParts | None:
    """The kernels of the step that is being improved: the incumbent's, or, unprofiled, the baseline's. None
    where no profile by kernels is there, and in a campaign about first tokens, of which it says nothing."""
    if of_first_tokens(view):
        return None
    return KernelParts.of(view.incumbent_profile or view.profile, view.bandwidth_bytes_per_s)


def by_profile(view: CampaignView, lever: str) -> list[Idea]:
    """Every other value of a lever that acts on one part; none where no profile by kernels is there."""
    parts = parts_of(view)
    if parts is None or lever not in LEVERS:
        return []
    if lever == "experts_kernel" and EXPERTS not in parts.time_ms:
        return []
    if lever in OF_OUTSIDE and parts.share(OUTSIDE) < view.min_effect:
        return []
    found = [each for each in other_values(view, lever) if _may_help(view, lever, each)]
    if lever == "kernel":
        return [Idea(each, _why_kernel(parts, timed_words(view, each))) for each in found]
    why = _why_experts(parts) if lever == "experts_kernel" else _why(parts, lever)
    return [Idea(candidate, why) for candidate in found]


def _may_help(view: CampaignView, lever: str, candidate: Configuration) -> bool:
    """Whether the lever's reason holds for this value: not for what schedules nothing ahead, nor for graphs
    that need as many launches a step as those that run, or more."""
    if lever == "scheduling":
        return candidate.get(AHEAD) != OFF
    runs = ran(GRAPH_MODE, view.incumbent, view.incumbent_runs)
    return lever != "graphs" or fewer_launches(str(candidate.get(GRAPH_MODE)), runs)


def head_words(view: CampaignView) -> str:
    """What the output head takes of the step, a sentence with a space behind it; empty where no profile by
    kernels tells."""
    parts = parts_of(view)
    reached = None if parts is None else parts.bandwidth_share(HEAD)
    if parts is None or reached is None:
        return ""
    return (
        f"By the profile the output head takes {_percent(parts.share(HEAD))} of the step and reads at "
        f"{_percent(reached)} of the bandwidth, products of the layers {_percent(parts.share(PRODUCTS))} at "
        f"{_percent(parts.bandwidth_share(PRODUCTS) or 0.0)}{_experts_at(parts)}. "
    )


def _experts_at(parts: KernelParts) -> str:
    """What experts take and reach, as the rest of a sentence; empty where the model has none."""
    reached = parts.bandwidth_share(EXPERTS)
    return "" if reached is None else f", experts {_percent(parts.share(EXPERTS))} at {_percent(reached)}"


def _why(parts: KernelParts, lever: str) -> str:
    outside = (
        f"No kernel runs in {_percent(parts.share(OUTSIDE))} of a step of {parts.step_ms:.2f} ms with "
        f"{parts.launches:.0f} kernels"
    )
    return {
        "graphs": f"{outside}; graphs replay them without the processor.",
        "scheduling": f"{outside}; scheduling the next step meanwhile hides some of it.",
        "gdn_state": _narrow(parts, "States of GatedDeltaNet layers", "gdn_state"),
        "kv_cache": _narrow(parts, "Attention and its keys and values", "attention"),
        "weight_dtype": _narrow(
            parts,
            "Products of the layers" + (" and experts" if EXPERTS in parts.multiplied else ""),
            *parts.multiplied,
        ),
    }[lever]


def _why_kernel(parts: KernelParts, timed: str) -> str:
    """What products could still give; `timed` is what kernels took alone, empty where they were not timed."""
    products = (
        f"Products of the layers take {_percent(parts.share(PRODUCTS))} of the step and read at "
        f"{_percent(parts.bandwidth_share(PRODUCTS) or 0.0)} of the bandwidth: "
        f"{parts.step_ms * parts.above_share(PRODUCTS):.2f} ms lie above their floor, which another "
        "kernel may win or lose more of"
    )
    found = f"{timed}{products}." if timed else f"{products}; which does is not known before it is measured."
    if EXPERTS not in parts.multiplied:
        return found
    return f"{found} Experts, which have kernels of their own, take {_percent(parts.share(EXPERTS))} of it."


def _why_experts(parts: KernelParts) -> str:
    """What another kernel of experts could win or lose of the step."""
    return (
        f"Experts take {_percent(parts.share(EXPERTS))} of the step and read at "
        f"{_percent(parts.bandwidth_share(EXPERTS) or 0.0)} of the bandwidth: "
        f"{parts.step_ms * parts.above_share(EXPERTS):.2f} ms lie above their floor, which another kernel "
        "may win or lose more of; which does is not known before it is measured."
    )


def _narrow(parts: KernelParts, what: str, *kinds: str) -> str:
    return (
        f"{what} take {_percent(parts.share(*kinds))} of the step, and their bytes at full bandwidth would "
        f"take {_percent(parts.floor_share(*kinds))} of it: a type half as wide saves half of that at most."
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.1f} %"
