"""What the questions of the graph, the story and the report are answered with."""

from __future__ import annotations

from pydantic import Field

from dashboard.mcp.answers import Answer, Effect, LatencyOnly
from dashboard.mcp.quoting import Quoted


class GraphLine(Answer):
    """A line of a section. `depth` 0 stands on its own; a deeper one belongs to the last line that is less
    deep, and says what that rests on or led to."""

    depth: int
    id: str | None = Field(description="A label, or the name of another thing of the graph.")
    relation: str | None = Field(description="How it hangs on the line that it belongs to.")
    state: str | None = Field(
        description="An outcome or a state; of an objection infeasible, incomplete or unknown."
    )
    latency_only: LatencyOnly
    text: Quoted
    scope: Quoted | None = Field(description="Where alone a finding holds.")
    doubt: str | None = Field(description="Findings that disagree with it, and fresh runs that differ.")
    because: Quoted | None
    effect: Effect | None = Field(description="Measured, or, of what is untested, predicted.")
    command: str | None = Field(description="The user's command that shows it.")


class GraphSection(Answer):
    """A part of an answer; `none` is said where it has no line, `left_out` counts lines that are not told."""

    title: str
    about: str
    lines: tuple[GraphLine, ...]
    none: Quoted | None
    left_out: int


class GraphAnswer(Answer):
    """An answer of the graph: the question in words, a sentence, and what that rests on."""

    asked: Quoted
    sentence: Quoted
    sections: tuple[GraphSection, ...]
    sections_left_out: int


class StoryLine(Answer):
    """A sentence of the story; its numbers come from what `about` names."""

    text: Quoted
    about: tuple[str, ...]
    event: int | None = Field(description="The id of the event that it tells.")


class StoryChapter(Answer):
    """A chapter; `left_out` counts lines that are not told."""

    title: str
    lines: tuple[StoryLine, ...]
    left_out: int


class StoryAnswer(Answer):
    """A campaign as a story, in chapters."""

    campaign: str
    state: str
    chapters: tuple[StoryChapter, ...]
