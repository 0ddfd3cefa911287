"""The lines of a story: text as a sentence, with the labels that it is about. Pure."""

from __future__ import annotations

import re

from knowledge.telling.story_parts import StoryLine

_LABEL = re.compile(r"\b[CEFHJD]-\d{1,9}\b")


def line(
    campaign: str, text: str, *about: str | None, event: int | None = None, stop: bool = True
) -> StoryLine:
    """A line as a sentence, with a stop at its end unless it asks or `stop` is off. It is about what is
    given, the labels in it and the campaign; `event` is the one that told it."""
    named = dict.fromkeys([*(each for each in about if each), *_LABEL.findall(text)])
    labels = tuple(dict.fromkeys([*named, campaign]))
    said = clause(text)
    ended = said if said.endswith("?") else f"{said}."
    return StoryLine(text=ended if stop else text, about=labels, event=event)


def lowered(text: str) -> str:
    """A sentence as the rest of another: its first word small, unless it is a name."""
    first = text.split(" ", 1)[0]
    return f"{text[:1].lower()}{text[1:]}" if first[1:].islower() or first in ("A", "The") else text


def first_sentence(text: str) -> str:
    """The first of several sentences, without its stop."""
    return text.partition(". ")[0]


def clause(sentence: str) -> str:
    """A sentence on one line and without its stop, as a part of another."""
    return " ".join(sentence.split()).rstrip(".:")
