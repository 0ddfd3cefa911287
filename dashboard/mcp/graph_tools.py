"""The tools that ask the graph, and the story. A docstring is what the client is told of its tool."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from dashboard.mcp import arguments, asking
from dashboard.mcp.graph_answers import GraphAnswer, StoryAnswer
from dashboard.mcp.source import Source

Subject = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=500)]],
    Field(
        description="One label (H-002, E-0003, F-001), or knobs and KNOB=VALUE of the tool space.",
        min_length=1,
        max_length=64,
    ),
]


class GraphTools:
    """Tools over one database; none of them writes."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def known(
        self,
        knob: Annotated[str, Field(description="A knob, such as serving.threads.", max_length=200)],
        on: Annotated[
            str | None,
            Field(description="A part of the hardware's name, such as H200.", max_length=200),
        ] = None,
    ) -> GraphAnswer:
        """What is known about a knob: findings, values tried and with what, what does not run, what waits."""
        with self._source.read() as session:
            return asking.known(session, knob, on)

    def why_not(self, subject: Subject, campaign: arguments.Campaign = None) -> GraphAnswer:
        """Why something is ruled out: verdicts, findings, what confounded it, legality, the user's bans.

        Ask it of values before you propose them; of a place in the queue ask the tool why.
        """
        with self._source.read() as session:
            return asking.why_not(session, subject, campaign)

    def led_to(self, label: arguments.Evident) -> GraphAnswer:
        """What led to a hypothesis, an experiment or a finding, back to the baseline and to samples."""
        with self._source.read() as session:
            return asking.led_to(session, label)

    def if_fell(self, label: arguments.Evident) -> GraphAnswer:
        """What would change if a finding or a verdict fell: what rests on it, the queue. Changes nothing."""
        with self._source.read() as session:
            return asking.if_fell(session, label)

    def untested(self, campaign: arguments.Campaign = None) -> GraphAnswer:
        """What no experiment covered next to the best: each neighbour with its predicted effect and its cost.

        Look here for something to propose.
        """
        with self._source.read() as session:
            return asking.untested(session, campaign)

    def story(
        self,
        campaign: arguments.Campaign = None,
        whole: Annotated[
            bool, Field(description="More of each chapter, not only what fits on a screen.")
        ] = False,
    ) -> StoryAnswer:
        """What happened in a campaign, in chapters: the beginning, bests, surprises, dead ends, what next."""
        with self._source.read() as session:
            return asking.story(session, campaign, whole)


ASKS = ("known", "why_not", "led_to", "if_fell", "untested", "story")
"""The tools, in the order of their list."""
