"""What a sentence names: labels as links to their pages, words in backticks as code, knobs. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from markupsafe import Markup, escape

from dashboard.rendering.figures import NARROW
from dashboard.rendering.subjects import subject_url

BESIDE = re.compile(r" \(beside [^()]*\)")

CODE = re.compile(r"`([^`]+)`")
BREAKS = re.compile(r"(?<=[._+])(?=\w)")
UNITS = re.compile(r" (?<=\d )(?=(?:%|ms\b|s\b|MHz\b|°C|points?\b)[^<>]*<(?!/(?:code|pre|option|textarea)>))")
"""Begins with the space itself, for which a text is searched much faster than for what stands before it."""
MOST_LEVERS = 3
"""More levers than this, changed together, are told as the first two and a number."""
LABEL = re.compile(r"(?<![\w'])[CEFH]-\d{1,9}\b")
"""What is quoted is no reference: a refusal cites what somebody wrote, which may be the label of nothing."""


@dataclass(frozen=True)
class Piece:
    """A stretch of text, with the address that it leads to."""

    text: str
    url: str | None = None


def labels(text: str) -> frozenset[str]:
    """The labels that a text names."""
    return frozenset(LABEL.findall(text))


def pieces(text: str, there: Collection[str] | None = None) -> tuple[Piece, ...]:
    """The text in stretches: labels such as `E-0012` with the address of their page. Where it may name what
    there is not, as a refusal does, only those that are `there` lead anywhere."""
    return tuple(_pieces(text, there))


def _pieces(text: str, there: Collection[str] | None) -> Iterator[Piece]:
    at = 0
    for found in LABEL.finditer(text):
        if found.start() > at:
            yield Piece(text[at : found.start()])
        label = found.group()
        yield Piece(label, subject_url(label) if there is None or label in there else None)
        at = found.end()
    if at < len(text):
        yield Piece(text[at:])


def came_up(text: str) -> str:
    """A stored sentence in which a knob that was not there before stands as `knob → value`."""
    return text.replace(" — → ", " → ")


def without_beside(text: str) -> str:
    """A finding's claim without what the control held beside the change, which its page has in full: in a
    list it would push out what the change does. Of a macro's output it stays HTML."""
    return type(text)(BESIDE.sub("", text))


def breakable(text: str) -> Markup:
    """The text as HTML, where a line may end behind a dot, an underscore or a plus, as in names of knobs."""
    return Markup("<wbr>").join(BREAKS.split(text))


def levers_told(lever: str) -> Markup:
    """Levers that are changed together, `caching+graphs`, as HTML that may break; of more than
    `MOST_LEVERS` the first two and how many more, since random search changes a dozen at once."""
    names = lever.split("+")
    if len(names) <= MOST_LEVERS:
        return breakable(lever)
    return breakable("+".join(names[:2])) + Markup(" and {} more").format(len(names) - 2)


def together(html: str) -> str:
    """The HTML with a narrow space that does not break between a figure and its unit, as stored sentences
    have a plain one; what stands in attributes, as code or in a log stays as it is."""
    return UNITS.sub(NARROW, html)


def coded(text: str) -> Markup:
    """The text as HTML, with what stands between backticks as code."""
    return Markup(CODE.sub(r"<code>\1</code>", str(escape(text))))
