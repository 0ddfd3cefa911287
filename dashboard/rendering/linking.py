"""What a sentence names: labels as links to their pages, words in backticks as code, knobs. Pure.

A sentence may name what there is not: a note may be about another database. A template knows nothing of that
and makes each label a link; who sends the page asks once which of them are there (`labels_linked`) and takes
the other links away (`without_links`).
"""

from __future__ import annotations

import re
from collections.abc import Collection

from markupsafe import Markup, escape

from dashboard.rendering.figures import NARROW
from dashboard.rendering.subjects import subject_url
from knowledge.claim_scope import BESIDE

WIDE = "\u00a0"
"""A space of the usual width at which no line ends."""

CLAUSE = re.compile(r"; (?![^()]*\))")
CODE = re.compile(r"`([^`]+)`")
BREAKS = re.compile(r"(?<=[._+])(?=\w)")
_AS_TEXT = r"[^<>]*<(?!/(?:code|pre|option|textarea)>)"
"""What follows where a reader sees a sentence, and no code, choice or field."""

UNITS = re.compile(r" (?<=\d )(?=(?:%|(?:ms|s|min|h|d|MHz|points?)\b|°C)" + _AS_TEXT + ")")
"""Begins with the space itself, for which a text is searched much faster than for what stands before it."""
WORDS = re.compile(rf"(?:{NARROW}|&#8239;)(?=(?:points?|bit)\b)")
"""The narrow space before a unit that is a word: too little to tell it from the figure."""
INTERVALS = re.compile(r"(\[[−+]?[\d.,]+[,;]) (?=[−+]?[\d.,]+\]" + _AS_TEXT + ")")
"""The beginning of an interval of two figures, with the space between them."""
MOST_LEVERS = 3
"""More levers than this, changed together, are told as the first two and a number."""
LABEL = re.compile(r"(?<![\w'])[CEFH]-\d{1,9}\b")
"""What is quoted is no reference: a refusal cites what somebody wrote, which may be the label of nothing."""
LINK = '<a class="nb" href="{}">{}</a>'
LINKED = re.compile(r'<a class="nb" href="/[^"?]*">([CEFH]-\d{1,9})</a>')
"""A `LINK` whose text is a label."""


def linked(text: str) -> Markup:
    """The text as HTML, with each label, such as `E-0012`, a link to its page."""
    html, at = Markup(), 0
    for found in LABEL.finditer(text):
        html += escape(text[at : found.start()])
        html += Markup(LINK).format(subject_url(found.group()), found.group())
        at = found.end()
    return html + escape(text[at:])


def labels_linked(html: str) -> frozenset[str]:
    """The labels that links of a page show and lead to."""
    return frozenset(found.group(1) for found in LINKED.finditer(html))


def without_links(html: str, missing: Collection[str]) -> str:
    """The page with the labels that are `missing` as plain text, for their links would lead to nothing."""
    return LINKED.sub(lambda found: found.group(found.group(1) in missing), html) if missing else html


def came_up(text: str) -> str:
    """A stored sentence in which a knob that was not there before stands as `knob → value`."""
    return text.replace(" — → ", " → ")


def without_beside(text: str) -> str:
    """A finding's claim without what the control held beside the change, which its page has in full: in a
    list it would push out what the change does. Of a macro's output it stays HTML."""
    return type(text)(BESIDE.sub("", text))


def in_short(claim: str) -> str:
    """What a finding's claim says of the change alone: without its scope and what stood beside it."""
    return without_beside(came_up(claim.partition(" on model ")[0].removesuffix(";")))


def first_clause(text: str) -> str:
    """A sentence up to its first semicolon that stands in no brackets."""
    return CLAUSE.split(text, maxsplit=1)[0]


def leading(text: str) -> str:
    """What stands in the middle of a sentence, as its beginning."""
    return text[:1].upper() + text[1:]


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
    have a plain one, a whole one before a unit that is a word, and one within an interval; what stands in
    attributes, as code or in a log stays as it is."""
    return INTERVALS.sub(rf"\1{WIDE}", WORDS.sub(WIDE, UNITS.sub(NARROW, html)))


def coded(text: str) -> Markup:
    """The text as HTML, with what stands between backticks as code."""
    return Markup(CODE.sub(r"<code>\1</code>", str(escape(text))))
