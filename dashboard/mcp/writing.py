"""What a coding agent may do: the acts of the commands and pages, through the same functions and their gates.

It proposes, notes and steers; what spends or lifts a limit of the user's stays the user's: approvals,
budgets, prices, pins, and the end of a campaign have no tool. What others gave or proposed is not undone.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from agent.campaign.queue.enqueue import enqueue
from configs.authors import COLLEAGUE, author_words
from configs.errors import UsageError
from dashboard.mcp.answers import Done
from dashboard.mcp.quoting import plain
from dashboard.mcp.source import Source
from db import events
from db.labels import Noun, format_label
from db.models import Directive, Event, Hypothesis
from db.states import DirectiveKind
from knowledge.acts import lever_steering, notes, steering
from knowledge.acts.allowances import ALLOTTING, Allowance, parse_least, parse_most
from knowledge.acts.directives import WAITING, active
from knowledge.acts.levers import known_levers
from knowledge.findings.told import Telling, parse_saying, tell
from knowledge.queries.lookup import campaign_filter, campaign_of, labelled, newest_campaign

MOST_WAITING = 20
"""Hypotheses of coding agents that wait in one queue at most, so that they don't bury the others."""

LONGEST_NAME = 60
NEXT = "The next ranking follows it."


def author_named(client: str | None) -> str:
    """How what a client writes is marked: `mcp:` and the name it gave itself, in letters and digits."""
    kept = "".join(
        each if each.isascii() and (each.isalnum() or each in "._-") else "-" for each in client or ""
    )
    return COLLEAGUE + (kept.strip("-")[:LONGEST_NAME] or "unnamed")


def propose(
    source: Source,
    author: str,
    *,
    campaign: str | None,
    claim: str,
    assignments: Sequence[str],
    expect: str | None,
    min_effect: str | None,
    metric: str | None,
    why: str | None,
) -> Done:
    """Put a hypothesis into the queue; raises `UsageError` as `enqueue`, and where too many wait already."""
    with source.read() as session:
        campaign_id = campaign_of(session, campaign)
        waiting = session.scalar(
            select(func.count())
            .select_from(Hypothesis)
            .where(
                Hypothesis.campaign_id == campaign_id,
                Hypothesis.state.in_(WAITING),
                Hypothesis.proposer.startswith(COLLEAGUE, autoescape=True),
            )
        )
    if (waiting or 0) >= MOST_WAITING:
        raise UsageError(
            f"{waiting} hypotheses of coding agents wait in {format_label(Noun.CAMPAIGN, campaign_id)}, "
            f"and {MOST_WAITING} are the most.",
            "Withdraw one of yours, or wait until some are tested.",
        )
    number = enqueue(
        source.database,
        campaign_id,
        claim=plain(claim),
        assignments=assignments,
        expect=expect,
        min_effect=min_effect,
        metric=metric,
        why=None if why is None else plain(why),
        proposer=author,
    )
    label = format_label(Noun.HYPOTHESIS, number)
    return Done(id=label, said=f"{label} is written down. {NEXT}", author=author)


def withdraw(session: Session, author: str, hypothesis: str, reason: str) -> Done:
    """Take a hypothesis of its own out of the queue."""
    number = labelled(session, Noun.HYPOTHESIS, hypothesis)
    found = session.get_one(Hypothesis, number)
    label = format_label(Noun.HYPOTHESIS, number)
    if found.proposer != author:
        raise UsageError(
            f"{label} was proposed by {author_words(found.proposer)}, and {author} may withdraw its own "
            "alone.",
            f"Ask the user: autoinfer withdraw {label}",
        )
    steering.withdraw(session, number, plain(reason), by=author)
    return Done(id=label, said=f"{label} is withdrawn.", author=author)


def note(session: Session, author: str, text: str, stale: str | None, campaign: str | None) -> Done:
    """Write a note into the log; may mark findings stale."""
    found = notes.add_note(session, plain(text), stale=stale, campaign_id=campaign_filter(session, campaign))
    labels = ", ".join(format_label(Noun.FINDING, number) for number in found.stale)
    said = f"Noted as event {found.event_id}." + (f" Stale now: {labels}." if labels else "")
    return Done(id=str(found.event_id), said=said, author=author)


def steer(
    session: Session, author: str, kind: DirectiveKind, lever: str, amount: str | None, campaign: str | None
) -> Done:
    """Focus, boost, ban, cap or reserve a lever; raises `UsageError` where that would replace what another
    one said of it."""
    campaign_id = campaign_of(session, campaign)
    allowance = _allowance(kind, amount)
    for each in active(session, campaign_id, kind=kind, lever=lever):
        if kind in ALLOTTING:
            _check_own(session, each, author, "changed")
    found = lever_steering.give_directive(
        session, campaign_id, kind, lever, known_levers(session, campaign_id), allowance
    )
    label = format_label(Noun.DIRECTIVE, found.id)
    return Done(id=label, said=f"{label} holds: {found.text} {NEXT}", author=author)


def lift(session: Session, author: str, kind: DirectiveKind, lever: str, campaign: str | None) -> Done:
    """Lift a directive of its own."""
    campaign_id = campaign_of(session, campaign)
    for each in active(session, campaign_id, kind=kind, lever=lever):
        _check_own(session, each, author, "lifted")
    (found, *_) = lever_steering.lift_directives(session, campaign_id, kind, lever)
    label = format_label(Noun.DIRECTIVE, found.id)
    return Done(id=label, said=f"{label} is lifted: {found.text} {NEXT}", author=author)


def add_finding(session: Session, telling: Telling, campaign: str | None) -> Done:
    """Write down a finding, marked as told by its author."""
    assert telling.by is not None
    campaign_id = newest_campaign(session) if campaign is None else campaign_of(session, campaign)
    found = tell(session, telling, campaign_id)
    label = format_label(Noun.FINDING, found.id)
    said = f"{label} is written down, without evidence. {telling.meaning}".rstrip()
    return Done(id=label, said=said, author=telling.by)


def telling_of(
    author: str,
    claim: str,
    assignments: Sequence[str],
    says: str,
    effect: str | None,
    model: str | None,
    target: str | None,
    engine: str | None,
    versions: Sequence[str],
) -> Telling:
    """What a coding agent writes down as known; raises `UsageError` for what no finding says."""
    return Telling(
        plain(claim),
        tuple(assignments),
        parse_saying(says),
        effect,
        None if model is None else plain(model),
        None if target is None else plain(target),
        None if engine is None else plain(engine),
        tuple(map(plain, versions)),
        author,
    )


def _check_own(session: Session, directive: Directive, author: str, done: str) -> None:
    """Raise `UsageError` for a directive of somebody else."""
    given = (session.get_one(Event, directive.event_id).data or {}).get(events.BY, "the user")
    if given != author:
        label = format_label(Noun.DIRECTIVE, directive.id)
        raise UsageError(
            f"{label} was given by {author_words(str(given))}, and can't be {done} by {author}: "
            f"{directive.text}",
            "Ask the user to do it.",
            quotes=(directive.text,),
        )


def _allowance(kind: DirectiveKind, amount: str | None) -> Allowance | None:
    if kind not in ALLOTTING:
        if amount is not None:
            raise UsageError(f"A {kind.value} takes no amount.", "Leave amount out.")
        return None
    if amount is None:
        example = "3, 20m or 30%" if kind is DirectiveKind.CAP else "30%"
        raise UsageError(f"How much? A {kind.value} takes an amount.", f"Give an amount such as {example}.")
    return parse_most(amount) if kind is DirectiveKind.CAP else parse_least(amount)
