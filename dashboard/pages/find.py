"""Find: pages, labels and claims by what one types; the palette asks its JSON twin."""

from __future__ import annotations

from shlex import quote

from pydantic import Field
from sqlalchemy.orm import Session

from dashboard.navigation import ENTRIES
from dashboard.page import ALWAYS_S, Filters, Ground, Page, Request
from dashboard.rendering.linking import LABEL
from dashboard.rendering.subjects import subject_url
from db.labels import Noun, format_label
from knowledge.queries import find as query
from knowledge.queries.view import View

MOST_CHARACTERS = 120


class FindFilters(Filters):
    """What was typed; nothing gives the pages alone."""

    q: str = Field(default="", max_length=MOST_CHARACTERS, description="A page, a label, words of a claim.")


class Hit(View):
    """Something that can be opened: `about` is its label, or `Page`."""

    about: str
    title: str
    state: str | None
    url: str


class FindView(View):
    """What was found, pages first unless a label was typed."""

    found: tuple[Hit, ...]


def read(session: Session, request: Request[FindFilters], ground: Ground) -> FindView:
    """Look for the words among the pages and in the database."""
    text = request.filters.q.strip()
    pages = tuple(
        Hit(about="Page", title=entry.title, state=f"g {entry.letter}", url=entry.path)
        for entry in ENTRIES
        if text.lower() in entry.title.lower()
    )
    things = tuple(
        Hit(about=each.label, title=each.title, state=each.state.replace("_", " "), url=url)
        for each in query.find(session, text)
        if (url := subject_url(each.label)) is not None
    )
    return FindView(found=pages + things)


def command(request: Request[FindFilters]) -> str:
    """A thing by its label on the command line, or the claims that a word is in."""
    words = request.filters.q.strip() or format_label(Noun.EXPERIMENT, 1)
    return f"autoinfer {'show' if LABEL.fullmatch(words.upper()) else 'hypotheses --search'} {quote(words)}"


PAGE = Page(
    name="find",
    title="Find",
    path="/find",
    filters=FindFilters,
    shows=FindView,
    read=read,
    command=command,
    lasts_s=ALWAYS_S,
)
