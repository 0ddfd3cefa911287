"""The user's hypothesis into the queue: through the same gates as everyone's.

What a gate refuses is told in the log, once in the same words, whoever asked and by whatever door; what can't
be read is not, nor that a campaign takes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from textwrap import shorten
from typing import get_args

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from agent.campaign.decision.desk import Desk
from agent.campaign.known.facts import Facts
from agent.campaign.known.measured import Baseline, read_measured
from agent.campaign.known.reading_facts import read_facts
from agent.campaign.known.within_memory import legal_of
from agent.campaign.queue.accept import accept
from agent.campaign.queue.held import check_asked, draft_on, hold
from agent.campaign.queue.order import read_directives
from agent.ground.drafter import drafter_content, with_whole_path
from agent.ground.shape import check_judged_here
from agent.proposers.user import PROPOSER as USER
from agent.proposers.user import Enqueued, check_words_are_read
from agent.ranking.values import Directive
from configs.authors import author_words
from configs.errors import AutoinferError, UsageError
from configs.questions import JudgedMetric
from configs.validation import nearest
from db import events
from db.event_kinds import EventKind
from db.models import Campaign, Event
from db.noise import SERIES_NAME
from db.session import Database
from db.states import CampaignState
from experiments.measurement.evidence import Metric
from experiments.measurement.plan import Prediction
from experiments.space.configuration import Configuration
from experiments.space.loading import parse_assignments_in

MOST_TOLD = 300
"""Characters that the log keeps of a refused hypothesis, and of the reason."""


def enqueue(
    database: Database,
    campaign_id: int,
    *,
    claim: str,
    assignments: Sequence[str],
    expect: str | None = None,
    min_effect: str | None = None,
    why: str | None = None,
    pin: bool = False,
    metric: str | None = None,
    proposer: str = USER,
) -> int:
    """Write the user's hypothesis down as queued, against the best configuration so far; returns its id.

    What is believed of it is computed between reading and writing, so that nobody waits for the database
    meanwhile. Before the baseline is known it is held and tested on the baseline. `metric` is the campaign's
    if not given; `proposer` is who asks: the user, or a coding agent. Raises `UsageError` for anything that
    can't be tested: see `user_draft`; a duplicate is refused with a pointer to the earlier one.
    """
    asked = Enqueued(claim, tuple(map(with_whole_path, assignments)), expect, min_effect, why, pin, proposer)
    check_words_are_read(asked)
    with database.read() as session:
        facts = _campaign(session, campaign_id)
        judged = facts.objective if metric is None else _metric(metric)
        measured = None if _is_open(facts) else read_measured(session, facts)
        directives = read_directives(session, campaign_id)
    with _told_where_refused(database, campaign_id, asked):
        # What is wrong in any state is worth telling before what is wrong in this one.
        check_judged_here(facts.spec, judged)
        parse_assignments_in(facts.spec.space, asked.assignments)
        check_asked(asked, facts, judged)
    if facts.state == CampaignState.STOPPED:
        raise UsageError(
            f"{facts.label} has ended.",
            f"Continue it first: autoinfer run --resume {facts.label} --budget 30m",
        )
    with _told_where_refused(database, campaign_id, asked):
        return _put(database, facts, asked, judged, measured, directives)


def _put(
    database: Database,
    facts: Facts,
    asked: Enqueued,
    judged: Metric,
    measured: Baseline | None,
    directives: tuple[Directive, ...],
) -> int:
    legal = legal_of(facts)
    if measured is None:
        with database.write() as session:
            return hold(session, facts, asked, judged, legal)
    desk = Desk(facts, legal, measured, directives)

    def predict(control: Configuration, candidate: Configuration) -> Prediction:
        return desk.beliefs.predict(control, candidate, judged)

    draft = draft_on(asked, legal, desk.incumbent.configuration, facts, judged, predict)
    drafter_content(draft.control, draft.candidate)  # a large one is read here, and known while we write
    with database.write() as session:
        return accept(session, facts.id, draft, judged.value, legal.space).hypothesis_id


@contextmanager
def _told_where_refused(database: Database, campaign_id: int, asked: Enqueued) -> Iterator[None]:
    """Let the log say who asked for what, and why it was refused, unless it says just that already."""
    try:
        yield
    except UsageError as error:
        # the refusal is the answer, whether or not it can be told
        with suppress(AutoinferError, SQLAlchemyError), database.write() as session:
            _tell_refused(session, campaign_id, asked, error.message)
        raise


def _tell_refused(session: Session, campaign_id: int, asked: Enqueued, reason: str) -> None:
    what = f"{asked.claim.strip().rstrip('.')} ({', '.join(asked.assignments)})"
    what, why = (shorten(each, MOST_TOLD, placeholder="…") for each in (what, reason.rstrip(".")))
    text = f"{what}, by {author_words(asked.proposer)}: {why}."
    kind, data = EventKind.HYPOTHESIS_REFUSED, {"proposer": asked.proposer}
    told = select(Event.id).where(events.of_kind(kind, campaign_id), Event.text == text).limit(1)
    if session.scalar(told) is None:
        events.append(session, kind, text, campaign_id=campaign_id, data=data)


def _campaign(session: Session, campaign_id: int) -> Facts:
    """What is known of the campaign; raises `UsageError` for an A/A series."""
    facts = read_facts(session, campaign_id)
    if session.get_one(Campaign, campaign_id).name == SERIES_NAME:
        raise UsageError(f"{facts.label} is an A/A series and tests nothing.", "Name another campaign.")
    return facts


def _is_open(facts: Facts) -> bool:
    """Whether the baseline is not known yet."""
    return facts.baseline is None or facts.baseline_experiment_id is None


def _metric(text: str) -> Metric:
    """The metric a user names, with or without its unit; raises `UsageError` with the nearest."""
    known = get_args(JudgedMetric)
    for name in (text, f"{text}_ms"):
        if name in known:
            return Metric(name)
    raise UsageError(
        f"No claim can be on the metric {text!r}.", nearest(text, known, otherwise="The metrics are")
    )
