"""Finding one thing among all: by its label, its number, or words of what it says."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Select, or_, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from configs.errors import UsageError
from db.labels import Noun, format_label, parse_label
from db.models import Campaign, Experiment, Finding, Hypothesis
from knowledge.queries.view import View

MOST_OF_A_NOUN = 6
"""Things of one noun that are given, newest first."""

LARGEST_NUMBER = 2**31 - 1
"""The largest id that is looked for."""

NO_CLAIM = "no claim of its own"
"""What an experiment is called that tests no hypothesis, such as a baseline."""


class FoundView(View):
    """One thing: `title` is its claim or its name, `state` where it stands."""

    label: str
    noun: str
    title: str
    state: str


def find(session: Session, words: str) -> tuple[FoundView, ...]:
    """What bears this label or number first, then what says these words; one statement a noun.

    Experiments are those of the hypotheses found.
    """
    text = words.strip()
    if not text:
        return ()
    asked, number = _number(text)
    folds = session.get_bind().dialect.name == "sqlite"  # its LIKE folds case, and folding it first is slower

    def says(*columns: InstrumentedAttribute[str]) -> list[ColumnElement[bool]]:
        return [(each.contains if folds else each.icontains)(text, autoescape=True) for each in columns]

    def rows(
        noun: Noun,
        query: Select[int, str, Any],
        identity: InstrumentedAttribute[int],
        said: list[ColumnElement[bool]],
    ) -> list[FoundView]:
        if number is not None and asked in (None, noun):
            said = [*said, identity == number]
        if not said:
            return []
        found = session.execute(query.where(or_(*said)).order_by(identity.desc()).limit(MOST_OF_A_NOUN))
        return [
            FoundView(
                label=format_label(noun, row[0]), noun=noun.word, title=row[1] or NO_CLAIM, state=row[2].value
            )
            for row in found
        ]

    campaigns = rows(
        Noun.CAMPAIGN,
        select(Campaign.id, Campaign.model, Campaign.state),
        Campaign.id,
        says(Campaign.name, Campaign.model),
    )
    hypotheses = rows(
        Noun.HYPOTHESIS,
        select(Hypothesis.id, Hypothesis.claim, Hypothesis.state),
        Hypothesis.id,
        says(Hypothesis.claim),
    )
    experiments = rows(
        Noun.EXPERIMENT,
        select(Experiment.id, Hypothesis.claim, Experiment.state).outerjoin(
            Hypothesis, Hypothesis.id == Experiment.hypothesis_id
        ),
        Experiment.id,
        [Experiment.hypothesis_id.in_([parse_label(each.label)[1] for each in hypotheses])]
        if hypotheses
        else [],
    )
    findings = rows(
        Noun.FINDING, select(Finding.id, Finding.claim, Finding.status), Finding.id, says(Finding.claim)
    )
    found = [*campaigns, *hypotheses, *experiments, *findings]
    return tuple(sorted(found, key=lambda each: number is None or parse_label(each.label)[1] != number))


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
