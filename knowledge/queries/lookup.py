"""From the labels a user writes to ids that exist, or a refusal that says what does."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from configs.errors import UsageError
from db.labels import Noun, format_label, parse_label, parse_label_of
from db.models import Campaign, Directive, Experiment, Finding, Hypothesis, Job
from db.noise import SERIES_NAME

_Numbered = type[Campaign] | type[Hypothesis] | type[Experiment] | type[Finding] | type[Directive] | type[Job]

_TABLES: dict[Noun, _Numbered] = {
    Noun.CAMPAIGN: Campaign,
    Noun.HYPOTHESIS: Hypothesis,
    Noun.EXPERIMENT: Experiment,
    Noun.FINDING: Finding,
    Noun.DIRECTIVE: Directive,
    Noun.JOB: Job,
}

_LISTS = {
    Noun.CAMPAIGN: "autoinfer campaign list",
    Noun.HYPOTHESIS: "autoinfer hypotheses",
    Noun.EXPERIMENT: "autoinfer experiments",
    Noun.FINDING: "autoinfer findings",
}


def existing(session: Session, noun: Noun, number: int) -> int:
    """Return `number` if a row of this noun has it as its id.

    Raises `UsageError` that names the last one there is.
    """
    model = _TABLES[noun]
    if session.get(model, number) is not None:
        return number
    last = session.scalar(select(func.max(model.id)))
    label = format_label(noun, number)
    known = f"the last is {format_label(noun, last)}" if last else f"there is no {noun.word} yet"
    see = f"List them with: {_LISTS[noun]}" if noun in _LISTS else ""
    raise UsageError(f"{label} does not exist; {known}.", see)


def labels_there(session: Session, labels: Collection[str]) -> frozenset[str]:
    """Those of these labels that name something, by one query for each noun."""
    numbers: dict[Noun, dict[int, set[str]]] = {}
    for label in labels:
        noun, number = parse_label(label)
        numbers.setdefault(noun, {}).setdefault(number, set()).add(label)
    return frozenset(
        label
        for noun, asked in numbers.items()
        for number in session.scalars(select(_TABLES[noun].id).where(_TABLES[noun].id.in_(asked)))
        for label in asked[number]
    )


def labelled(session: Session, noun: Noun, text: str) -> int:
    """Return the id that a label of this noun names.

    Raises `UsageError` for what is no such label, and for one that names nothing.
    """
    return existing(session, noun, parse_label_of(noun, text))


def campaign_of(session: Session, text: str | None) -> int:
    """Return the campaign a label names; without one, the newest that is no A/A series.

    Raises `UsageError` when there is none.
    """
    if text is not None:
        return labelled(session, Noun.CAMPAIGN, text)
    newest = newest_campaign(session)
    if newest is None:
        raise UsageError("There is no campaign yet.", "Start one with: autoinfer run")
    return newest


def newest_campaign(session: Session) -> int | None:
    """Return the newest campaign that is no A/A series; None where there is none."""
    newest: int | None = session.scalar(select(func.max(Campaign.id)).where(Campaign.name != SERIES_NAME))
    return newest


def newest_by_concurrency(session: Session) -> dict[int, int]:
    """Return the newest campaign that is no A/A series for each concurrency that any is measured at."""
    concurrency = Campaign.objective["concurrency"].as_integer()
    query = (
        select(concurrency, func.max(Campaign.id))
        .where(Campaign.name != SERIES_NAME, concurrency.is_not(None))
        .group_by(concurrency)
    )
    return {int(told): newest for told, newest in session.execute(query)}


def asking_campaign(session: Session, text: str | None) -> int:
    """Return the campaign a label names; without one, the newest that asks questions, else the newest.

    Raises `UsageError` when there is none.
    """
    if text is not None:
        return labelled(session, Noun.CAMPAIGN, text)
    for number, spec in session.execute(select(Campaign.id, Campaign.spec).order_by(Campaign.id.desc())):
        if spec.get("questions"):
            return int(number)
    return campaign_of(session, None)


def campaign_filter(session: Session, text: str | None) -> int | None:
    """Return the campaign a label names, or `None` for all of them."""
    return None if text is None else labelled(session, Noun.CAMPAIGN, text)
