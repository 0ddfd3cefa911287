"""What kernels timed alone say for a candidate, in words, and which kernel is the fastest for it. Pure.

Kernels are told apart by what they took and by nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from agent.proposers.idea import changed, enumerated
from agent.proposers.of_objective import of_first_tokens
from agent.proposers.port import CampaignView
from agent.surrogate.timed_kernels import TimedKernels
from agent.surrogate.timed_products import AUTO
from experiments.engines.kernel_timings import KERNEL
from experiments.space.configuration import Configuration, KnobValue

TIE_SHARE = 0.01
"""Kernels whose products differ by less than this share are as fast: another timing might turn them round."""

MOST_KERNELS = 2
"""Kernels that are proposed at once for one format: the fastest, and the next one, in case what a step adds
turns the two round."""

US_PER_MS = 1e3


def on_fastest_kernels(view: CampaignView, candidate: Configuration) -> list[Configuration]:
    """The candidate on the kernels that took least with its format, the fastest first; none that takes as
    long as the engine's own choice or is that one, and none where kernels were not timed, or the campaign is
    about first tokens: they were timed as a step runs them."""
    if view.timed is None or of_first_tokens(view):
        return []
    by_itself = {**candidate, KERNEL: AUTO}
    ran = view.timed.class_of(by_itself)
    others = []
    for value in enumerated(view, KERNEL):
        each = changed(view, {**_differing(view, candidate), KERNEL: value})
        if each is None or value == AUTO or (ran is not None and view.timed.class_of(each) == ran):
            continue
        if view.refused(each) is None:
            others.append(each)
    chosen, *took = view.timed.together([by_itself, *others]).each
    most_us = math.inf if chosen is None else (1 - TIE_SHARE) * chosen.us
    found = [
        (timed.us, each)
        for timed, each in zip(took, others, strict=True)
        if timed is not None and timed.us < most_us
    ]
    return [each for _, each in sorted(found, key=lambda pair: pair[0])[:MOST_KERNELS]]


def timed_words(view: CampaignView, candidate: Configuration) -> str:
    """What the candidate's kernel took alone, and the one that would run without it (the incumbent's, else
    the engine's choice), a sentence with a space behind it; empty where one of both was not timed, where
    they are the same, and in a campaign about first tokens."""
    before = view.incumbent.get(KERNEL, AUTO)
    if view.timed is None or of_first_tokens(view) or candidate.get(KERNEL, AUTO) == before:
        return ""
    other = {**candidate, KERNEL: before}
    together = view.timed.together([candidate, other])
    took, held = together.each
    if took is None or held is None:
        return ""
    what = "this model's weights" if together.with_head else "the layers' weights"
    near = " (by the nearest format that was timed)" if max(took.sd_log, held.sd_log) > 0 else ""
    if not (took.whole and held.whole):
        near = " (where a product was not timed, as other kernels have it)"
    return (
        f"Timed alone, {_name(view.timed, candidate)} multiplies {what} in "
        f"{took.us / US_PER_MS:.2f} ms a step, {_name(view.timed, other)} in "
        f"{held.us / US_PER_MS:.2f}{near}. "
    )


def _name(timed: TimedKernels, configuration: Mapping[str, KnobValue]) -> str:
    """A kernel by the value that names it, or by what the engine chose."""
    value = configuration.get(KERNEL, AUTO)
    if value != AUTO:
        return str(value)
    chosen = timed.class_of(configuration)
    return "what the engine chooses" if chosen is None else f"{chosen}, which the engine chooses,"


def _differing(view: CampaignView, candidate: Configuration) -> dict[str, KnobValue]:
    """The knobs that lead from the incumbent to the candidate."""
    return {
        change.knob: change.after
        for change in view.incumbent.changes_to(candidate)
        if change.after is not None
    }
