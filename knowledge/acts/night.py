"""The question of the night: a hypothesis that is settled before all else. Writes, each with its event."""

from __future__ import annotations

from sqlalchemy.orm import Session

from configs.errors import UsageError
from db.labels import Noun, format_label
from db.models import Directive, Hypothesis
from db.states import DirectiveKind, HypothesisState
from knowledge.acts.directives import WAITING, active, add, check_alive, hypothesis_label, lift
from knowledge.queries.claims.follow_ups import open_follow_ups
from knowledge.stored import LEVER_JOINT

ASKABLE = WAITING | {HypothesisState.TESTING}
"""States in which a hypothesis is open; a confounded one is too, while something separates its causes."""


def ask(session: Session, hypothesis_id: int) -> Directive:
    """Make a hypothesis, which must exist, the question of the night, in place of an earlier one.

    One that is it already stays so. Raises `UsageError` when it is settled or left open for good, when its
    campaign has ended, and when it changes a lever that is banned.
    """
    hypothesis = session.get_one(Hypothesis, hypothesis_id)
    label = hypothesis_label(hypothesis)
    check_alive(session, hypothesis.campaign_id)
    _check_open(session, hypothesis)
    for ban in active(session, hypothesis.campaign_id, kind=DirectiveKind.BAN):
        if ban.lever in hypothesis.lever.split(LEVER_JOINT):
            raise UsageError(
                f"{label} changes {ban.lever}, which is banned ({format_label(Noun.DIRECTIVE, ban.id)}), "
                "so nothing could settle it.",
                f"Lift that first: autoinfer ban {ban.lever} --clear",
            )
    earlier = question_of(session, hypothesis.campaign_id)
    if earlier is not None and earlier.hypothesis_id == hypothesis_id:
        return earlier
    text = f"Settle {label} before all else."
    if earlier is not None:
        earlier.active = False
        assert earlier.hypothesis_id is not None
        text += f" It takes the place of {format_label(Noun.HYPOTHESIS, earlier.hypothesis_id)}."
    return add(session, hypothesis.campaign_id, DirectiveKind.QUESTION, text, hypothesis=hypothesis)


def take_back(session: Session, campaign_id: int) -> Directive:
    """End the question of the night of a campaign that exists; raises `UsageError` when it has none."""
    directive = question_of(session, campaign_id)
    if directive is None:
        raise UsageError(
            f"{format_label(Noun.CAMPAIGN, campaign_id)} has no question of the night.",
            "Ask one with: autoinfer question H-ID",
        )
    lift(session, directive)
    return directive


def question_of(session: Session, campaign_id: int) -> Directive | None:
    """The question of the night of a campaign; None where it has none."""
    found = active(session, campaign_id, kind=DirectiveKind.QUESTION)
    return found[-1] if found else None


def question_levers(session: Session, campaign_id: int) -> tuple[str, tuple[str, ...]] | None:
    """The label of a campaign's question of the night and the levers that it changes, while it is open."""
    directive = question_of(session, campaign_id)
    hypothesis = None if directive is None else session.get(Hypothesis, directive.hypothesis_id)
    if hypothesis is None or hypothesis.state not in ASKABLE:
        return None
    return hypothesis_label(hypothesis), tuple(hypothesis.lever.split(LEVER_JOINT))


def _check_open(session: Session, hypothesis: Hypothesis) -> None:
    if hypothesis.state in ASKABLE or open_follow_ups(session, hypothesis):
        return
    label = hypothesis_label(hypothesis)
    raise UsageError(
        f"{label} is {hypothesis.state.value}, so there is nothing left in the queue that could settle it.",
        f"See what was found: autoinfer show {label}",
    )
