"""A report as one HTML file: its style and drawings are in it, and it asks for nothing else."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Collection
from functools import cache

from markupsafe import Markup, escape

from dashboard.rendering.environment import STATIC, environment
from dashboard.rendering.figures import NARROW
from dashboard.rendering.linking import BREAKS
from dashboard.report.document import Figure, Listing, Paragraph, Points, Table
from dashboard.report.whole import document
from knowledge.report.view import ReportView

_INLINE = re.compile(r"`([^`]+)`|\*\*(.+?)\*\*|\b([EF]-\d{1,9})\b")
_PERCENT = re.compile(r"(?<=\d) %")
_LONG = 40
"""Characters of a word from which it may be broken anywhere."""

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_SPACE = re.compile(r"\s+")


def as_html(view: ReportView) -> str:
    """The file, which is the same for the same report."""
    found = document(view)
    anchors = {
        row.anchor
        for section in found.sections
        for block in section.blocks
        if isinstance(block, Table)
        for row in block.rows
        if row.anchor
    }
    return (
        environment()
        .get_template("report/page.html")
        .render(
            found=found,
            style=Markup(style()),
            policy=policy(),
            inline=lambda text: inline(text, anchors),
            kind=_kind,
            view=view,
        )
    )


@cache
def style() -> str:
    """The style sheet: the tokens of the pages, and the report's own."""
    files = (STATIC / "css" / name for name in ("tokens.css", "report.css"))
    return "\n".join(
        _SPACE.sub(" ", _COMMENT.sub("", file.read_text(encoding="utf-8"))).strip() for file in files
    )


@cache
def policy() -> str:
    """The content security policy that the file itself carries: this style, no script, no request at all."""
    digest = base64.b64encode(hashlib.sha256(style().encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def inline(text: str, anchors: Collection[str] = ()) -> Markup:
    """A text as HTML: code, words that lead, and labels as links to the row about them."""
    found, at = Markup(), 0
    for match in _INLINE.finditer(text):
        found += escape(_together(text[at : match.start()]))
        code, strong, label = match.groups()
        if code is not None:
            found += Markup("<code>{}</code>").format(_breakable(code))
        elif strong is not None:
            found += Markup("<strong>{}</strong>").format(inline(strong, anchors))
        elif label in anchors:
            found += Markup('<a href="#{}">{}</a>').format(label, label)
        else:
            found += Markup('<span class="nb">{}</span>').format(label)
        at = match.end()
    return found + escape(_together(text[at:]))


def _together(text: str) -> str:
    """A text in which no line ends between a figure and its per cent sign."""
    return _PERCENT.sub(f"{NARROW}%", text)


def _breakable(code: str) -> Markup:
    """Code in which a line may end: behind dots and underscores, and in digests every eight digits."""
    if len(code) >= _LONG and code.isalnum():
        return Markup("<wbr>").join(code[at : at + 8] for at in range(0, len(code), 8))
    return Markup("<wbr>").join(BREAKS.split(code))


def _kind(block: object) -> str:
    kinds: dict[type, str] = {Paragraph: "p", Points: "ul", Table: "table", Figure: "figure", Listing: "pre"}
    return kinds[type(block)]
