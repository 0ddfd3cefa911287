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
    """A page, and where it is listed; `also` are pages that belong to it, though their address is not below
    its own."""

    name: str
    title: str
    path: str
    letter: str
    place: Place = Place.BAR
    also: tuple[str, ...] = ()

    def holds(self, path: str) -> bool:
        """Whether a page with this path belongs to it."""
        return path in self.also or (self.path != "/" and path.startswith(f"{self.path}/"))


ENTRIES = (
    Entry("now", "Now", "/", "n"),
    Entry("queue", "Queue", "/queue", "q", also=("/enqueue",)),
    Entry("experiments", "Experiments", "/experiments", "e", also=("/compare",)),
    Entry("hypotheses", "Hypotheses", "/hypotheses", "h", Place.WIDE, ("/predictions", "/language-model")),
    Entry("knowledge", "Knowledge", "/knowledge", "k"),
    Entry("pareto", "Pareto", "/pareto", "p", Place.WIDE),
    Entry("gpus", "GPUs", "/gpus", "u", Place.WIDE),
    Entry("log", "Log", "/log", "l"),
    Entry("campaigns", "Campaigns", "/campaigns", "c", Place.MORE),
    Entry("costs", "Costs", "/costs", "o", Place.MORE),
    Entry("settings", "Settings", "/settings", "s", Place.MORE),
)
"""In the order of the bar."""
