"""Finding one thing among all: by its label, its number, or words of what it says."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Select, false, or_, select
from sqlalchemy.orm import Session

from configs.errors import UsageError
from db.labels import Noun, format_label, parse_label
from db.models import Campaign, Experiment, Finding, Hypothesis
from knowledge.queries.view import View

MOST_OF_A_NOUN = 6
"""Things of one noun that are given, newest first."""

LARGEST_NUMBER = 2**31 - 1
"""The largest id that is looked for."""


class FoundView(View):
    """One thing: `title` is its claim or its name, `state` where it stands."""

    label: str
    noun: str
    title: str
    state: str


def find(session: Session, words: str) -> tuple[FoundView, ...]:
    """What bears this label or number first, then what says these words; one statement a noun."""
    text = words.strip()
    if not text:
        return ()
    asked, number = _number(text)
    found: list[FoundView] = []
    for noun, query, identity, said in _queries():
        matches = [column.icontains(text, autoescape=True) for column in said]
        matches.append(identity == number if number is not None and asked in (None, noun) else false())
        rows = session.execute(query.where(or_(*matches)).order_by(identity.desc()).limit(MOST_OF_A_NOUN))
        found += [
            FoundView(
                label=format_label(noun, row[0]), noun=noun.word, title=row[1] or row[3], state=row[2].value
            )
            for row in rows
        ]
    return tuple(sorted(found, key=lambda each: number is None or _number(each.label)[1] != number))


def _queries() -> list[
    tuple[Noun, Select[int, str, Any, Any], ColumnElement[int], tuple[ColumnElement[str], ...]]
]:
    """For each noun: its id, title, state and a second title, and the columns of words."""
    campaign = select(Campaign.id, Campaign.model, Campaign.state, Campaign.name)
    hypothesis = select(Hypothesis.id, Hypothesis.claim, Hypothesis.state, Hypothesis.lever)
    experiment = select(Experiment.id, Hypothesis.claim, Experiment.state, Experiment.kind).outerjoin(
        Hypothesis, Hypothesis.id == Experiment.hypothesis_id
    )
    finding = select(Finding.id, Finding.claim, Finding.status, Finding.key)
    return [
        (
            Noun.CAMPAIGN,
            campaign,
            Campaign.id.expression,
            (Campaign.name.expression, Campaign.model.expression),
        ),
        (Noun.HYPOTHESIS, hypothesis, Hypothesis.id.expression, (Hypothesis.claim.expression,)),
        (Noun.EXPERIMENT, experiment, Experiment.id.expression, (Hypothesis.claim.expression,)),
        (Noun.FINDING, finding, Finding.id.expression, (Finding.claim.expression,)),
    ]


def _number(text: str) -> tuple[Noun | None, int | None]:
    """The noun and the id that a label names; a bare number is one of any noun."""
    if text.isascii() and text.isdigit():
        return None, _within(int(text) if len(text) < 12 else LARGEST_NUMBER + 1)
    try:
        noun, number = parse_label(text)
    except UsageError:
        return None, None
    return noun, _within(number)


def _within(number: int) -> int | None:
    return number if number <= LARGEST_NUMBER else None
