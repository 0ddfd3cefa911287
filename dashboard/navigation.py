"""The pages as the top bar lists them: title, address, and the letter that follows `g` on a keyboard."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Place(StrEnum):
    """Where a page is listed: always in the bar, below More on a narrow screen, or always there."""

    BAR = "bar"
    WIDE = "wide"
    MORE = "more"


@dataclass(frozen=True)
class Entry:
    """A page, and where it is listed."""

    name: str
    title: str
    path: str
    letter: str
    place: Place = Place.BAR


ENTRIES = (
    Entry("now", "Now", "/", "n"),
    Entry("queue", "Queue", "/queue", "q"),
    Entry("experiments", "Experiments", "/experiments", "e"),
    Entry("hypotheses", "Hypotheses", "/hypotheses", "h", Place.WIDE),
    Entry("knowledge", "Knowledge", "/knowledge", "k"),
    Entry("pareto", "Pareto", "/pareto", "p", Place.WIDE),
    Entry("gpus", "GPUs", "/gpus", "u", Place.WIDE),
    Entry("log", "Log", "/log", "l"),
    Entry("campaigns", "Campaigns", "/campaigns", "c", Place.MORE),
    Entry("costs", "Costs", "/costs", "o", Place.MORE),
    Entry("settings", "Settings", "/settings", "s", Place.MORE),
)
"""In the order of the bar."""
