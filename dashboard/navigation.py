"""The pages as the top bar lists them: title, address, and the letter that follows `g` on a keyboard."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """A page in the bar; the `minor` ones move below More on a narrow screen."""

    name: str
    title: str
    path: str
    letter: str
    minor: bool = False


ENTRIES = (
    Entry("now", "Now", "/", "n"),
    Entry("queue", "Queue", "/queue", "q"),
    Entry("experiments", "Experiments", "/experiments", "e"),
    Entry("hypotheses", "Hypotheses", "/hypotheses", "h", minor=True),
    Entry("knowledge", "Knowledge", "/knowledge", "k"),
    Entry("pareto", "Pareto", "/pareto", "p", minor=True),
    Entry("gpus", "GPUs", "/gpus", "u", minor=True),
    Entry("log", "Log", "/log", "l"),
    Entry("campaigns", "Campaigns", "/campaigns", "c", minor=True),
    Entry("costs", "Costs", "/costs", "o", minor=True),
    Entry("settings", "Settings", "/settings", "s", minor=True),
)
"""In the order of the bar."""
