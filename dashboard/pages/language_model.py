"""What a language model was asked: a campaign's answers with what was refused of each and what it cost, or
one of them word for word."""

from __future__ import annotations

from shlex import quote
from typing import Any
from urllib.parse import urlencode

from pydantic import Field
from sqlalchemy.orm import Session

from configs.errors import UsageError
from dashboard.page import ALWAYS_S, Filters, Ground, Page, Request, Table
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from knowledge.queries.claims.model_answers import (
    AnswerRow,
    AnswerView,
    AskedView,
    asked_of_model,
    model_answer,
    model_answers,
    newest_answer,
)
from knowledge.queries.lookup import campaign_filter, newest_campaign
from knowledge.queries.view import View

PATH = "/language-model"
PAGE_ROWS = 50
LARGEST_NUMBER = 2**31 - 1


class LanguageModelFilters(Filters):
    """Whose answers, from where on, or which one."""

    campaign: str | None = Field(default=None, max_length=32, description="A campaign's label.")
    answer: int | None = Field(default=None, ge=1, le=LARGEST_NUMBER, description="One answer, whole.")
    before: int | None = Field(default=None, ge=1, le=LARGEST_NUMBER, description="Answers before this one.")
    limit: int = Field(default=PAGE_ROWS, ge=1, le=500)

    def href(self, **changes: Any) -> str:
        """The address of this view with something changed."""
        values = {**self.model_dump(mode="json", exclude_defaults=True), **changes}
        given = {name: value for name, value in values.items() if value is not None}
        return f"{PATH}?{urlencode(given)}" if given else PATH


class LanguageModelView(View):
    """The answers of the campaign asked for, else of the newest: `asked` sums up all of them, None where
    nothing was asked; there are more before the number `older`. `whole` is the one answer asked for, of
    whichever campaign. `elsewhere` is the last campaign that asked, where this one did not."""

    campaign: str | None
    asked: AskedView | None
    items: tuple[AnswerRow, ...] = ()
    older: int | None = None
    whole: AnswerView | None = None
    elsewhere: str | None = None


def read(session: Session, request: Request[LanguageModelFilters], ground: Ground) -> LanguageModelView:
    """Read the answers that the filters name; `UsageError` where there is no answer of this number."""
    given = request.filters
    campaign_id = campaign_filter(session, given.campaign)
    if given.answer is not None:
        return _one(session, given.answer)
    shown = campaign_id if campaign_id is not None else newest_campaign(session)
    if shown is None:
        return LanguageModelView(campaign=None, asked=None)
    rows = model_answers(session, shown, given.limit + 1, given.before)
    asked = asked_of_model(session, shown)
    last = newest_answer(session) if asked is None else None
    return LanguageModelView(
        campaign=format_label(Noun.CAMPAIGN, shown),
        asked=asked,
        items=rows[: given.limit],
        older=rows[given.limit - 1].id if len(rows) > given.limit else None,
        elsewhere=None if last is None else format_label(Noun.CAMPAIGN, last),
    )


def _one(session: Session, number: int) -> LanguageModelView:
    found = model_answer(session, number)
    if found is None:
        raise UsageError(
            f"There is no answer {number} of a language model.", "List them with: autoinfer model"
        )
    return LanguageModelView(campaign=found.campaign, asked=None, whole=found)


def command(request: Request[LanguageModelFilters]) -> str:
    """The same on the command line."""
    given = request.filters
    if given.answer is not None:
        return f"autoinfer model {given.answer}"
    return "autoinfer model" + (f" --campaign {quote(given.campaign)}" if given.campaign else "")


def table(view: LanguageModelView) -> Table:
    """An answer a row; what was refused of it is a list of changes with their reasons."""
    columns = tuple(AnswerRow.model_fields)
    rows = view.items if view.whole is None else (view.whole,)
    told = (each.model_dump(mode="json") for each in rows)
    return Table(columns, (tuple(each[name] for name in columns) for each in told))


PAGE = Page(
    name="language_model",
    title="Language model",
    path=PATH,
    filters=LanguageModelFilters,
    shows=LanguageModelView,
    read=read,
    command=command,
    table=table,
    kinds=(
        EventKind.CAMPAIGN_STARTED,
        EventKind.MODEL_ANSWERED,
        EventKind.MODEL_FAILED,
        EventKind.HYPOTHESIS_PROPOSED,
    ),
    lasts_s=ALWAYS_S,
)
