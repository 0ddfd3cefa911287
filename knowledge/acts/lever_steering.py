"""Steering by a lever: focus, boost, ban, cap and minimum share. Writes, each with its event.

Works inside the caller's write transaction, as `knowledge.acts.steering` does.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy.orm import Session

from configs.errors import UsageError
from configs.validation import nearest
from db.labels import Noun, format_label
from db.models import Directive
from db.states import DirectiveKind
from knowledge.acts.allowances import ALLOTTING, Allowance
from knowledge.acts.contradictions import check_against, check_question
from knowledge.acts.directives import active, add, check_alive, lift, stored_allowance
from knowledge.acts.night import question_levers

LEVER_DIRECTIVES = (
    DirectiveKind.FOCUS,
    DirectiveKind.BOOST,
    DirectiveKind.BAN,
    DirectiveKind.CAP,
    DirectiveKind.RESERVE,
)
"""The directives that name a lever."""

SENTENCES = {
    DirectiveKind.FOCUS: "Rank what changes {} as if it paid five times as much.",
    DirectiveKind.BOOST: "Rank what changes {} as if it paid twice as much.",
    DirectiveKind.BAN: "Test nothing that changes {}.",
    DirectiveKind.CAP: "Give {} at most {}.",
    DirectiveKind.RESERVE: "Give {} at least {}.",
}
"""What a directive is told as; how many times focus and boost count is the ranking's to say."""


def give_directive(
    session: Session,
    campaign_id: int,
    kind: DirectiveKind,
    lever: str,
    known_levers: Collection[str],
    allowance: Allowance | None = None,
) -> Directive:
    """Steer the campaign by a lever and return the directive; one that holds already is returned as it is.

    `allowance` is how much a cap or a reserve allows; a later one of the same lever replaces the earlier.
    Raises `UsageError` for a lever that is not among `known_levers`, a campaign that has ended, and what
    contradicts a directive that holds (`knowledge.acts.contradictions`).
    """
    if (allowance is not None) != (kind in ALLOTTING):
        raise ValueError(f"a {kind.value} takes {'an' if kind in ALLOTTING else 'no'} allowance")
    if lever not in known_levers:
        raise UsageError(
            f"There is no lever {lever!r} in {format_label(Noun.CAMPAIGN, campaign_id)}.",
            nearest(lever, sorted(known_levers), otherwise="The levers are"),
        )
    check_alive(session, campaign_id)
    held = [each for each in active(session, campaign_id) if each.lever is not None]
    earlier = next((each for each in held if (each.kind, each.lever) == (kind, lever)), None)
    if earlier is not None and (allowance is None or stored_allowance(earlier) == allowance):
        return earlier
    check_against(kind, lever, allowance, held)
    if kind is DirectiveKind.BAN:
        check_question(question_levers(session, campaign_id), lever)
    if earlier is not None:
        earlier.active = False  # the event of the new one says what holds from now on
    words = "" if allowance is None else allowance.words
    text = SENTENCES[kind].format(lever, words)
    value = None if allowance is None else allowance.stored
    return add(session, campaign_id, kind, text, lever=lever, value=value)


def lift_directives(
    session: Session, campaign_id: int, kind: DirectiveKind, lever: str | None
) -> tuple[Directive, ...]:
    """Lift the directives of this kind, of one lever or all, and return them; none is an error.

    Raises `UsageError` when none of them holds.
    """
    found = active(session, campaign_id, kind=kind, lever=lever)
    if not found:
        of = f" on {lever}" if lever else ""
        label = format_label(Noun.CAMPAIGN, campaign_id)
        raise UsageError(
            f"There is no {kind.value}{of} to lift in {label}.", f"See which hold: autoinfer show {label}"
        )
    for directive in found:
        lift(session, directive)
    return tuple(found)
