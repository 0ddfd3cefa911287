"""What the experiments of a campaign took, in words. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from configs.quantities import format_duration
from knowledge.figures import counted

if TYPE_CHECKING:
    from knowledge.queries.campaigns import SpentView
    from knowledge.telling.facts import CampaignFacts


def experiments_told(spent: SpentView | CampaignFacts) -> str:
    """`16 experiments in 54 min 11 s, beside 2 that have not ended`: time is told of what ended alone."""
    ended = counted(spent.experiments - spent.unfinished, "experiment")
    told = f"{ended} in {format_duration(spent.experiment_s)}"
    if spent.again:
        told += f", {format_duration(spent.again_s)} of that for {spent.again} run once more on request"
    if spent.unfinished:
        told += f", beside {spent.unfinished} that {'has' if spent.unfinished == 1 else 'have'} not ended"
    return told if spent.ahead is None else f"{told}, and {spent.ahead}"
