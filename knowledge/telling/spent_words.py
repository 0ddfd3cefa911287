"""What the experiments of a campaign took, in words. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from configs.quantities import format_duration
from knowledge.figures import counted

if TYPE_CHECKING:
    from knowledge.queries.campaigns import SpentView
    from knowledge.queries.spent.untimed import UntimedView
    from knowledge.telling.facts import CampaignFacts

LEAST_TOLD_S = 1.0
"""Seconds of what has no time of its own from which they are told: below, nothing more was heard of it."""


def experiments_told(spent: SpentView | CampaignFacts) -> str:
    """`16 experiments in 54 min 11 s, beside 2 that have not ended, of at least 12 min`: time is told of what
    ended alone."""
    ended = counted(spent.experiments - spent.unfinished, "experiment")
    told = f"{ended} in {format_duration(spent.experiment_s)}"
    if spent.again:
        told += f", {format_duration(spent.again_s)} of that for {spent.again} run once more on request"
    if spent.unfinished:
        told += f", beside {not_ended_told(spent.unfinished, spent.untimed)}"
    if broken_off := broken_off_told(spent.untimed):
        told += f", and {broken_off}"
    return told if spent.ahead is None else f"{told}, and {spent.ahead}"


def not_ended_told(unfinished: int, untimed: UntimedView) -> str:
    """`2 that have not ended, of at least 12 min`, for one or more; without a time where none is known."""
    told = f"{unfinished:,} that {'has' if unfinished == 1 else 'have'} not ended"
    if untimed.unfinished_s < LEAST_TOLD_S:
        return told
    return f"{told}, of at least {format_duration(untimed.unfinished_s)}"


def broken_off_told(untimed: UntimedView) -> str | None:
    """`at least 3 min of 1 attempt that broke off`; None where none is known to have."""
    if untimed.broken_off_s < LEAST_TOLD_S:
        return None
    attempts = counted(untimed.attempts, "attempt")
    return f"at least {format_duration(untimed.broken_off_s)} of {attempts} that broke off"
