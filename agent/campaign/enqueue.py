"""The user's hypothesis into the queue: through the same gates as everyone's."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.orm import Session

from agent.campaign.accept import accept
from agent.campaign.create import campaign_space
from agent.campaign.desk import Desk
from agent.campaign.facts import read_facts
from agent.campaign.learn import read_baseline
from agent.campaign.order import read_directives
from agent.proposers.user import Enqueued, user_draft
from configs.errors import UsageError
from db.states import CampaignState


def enqueue(
    session: Session,
    campaign_id: int,
    *,
    claim: str,
    assignments: Sequence[str],
    expect: str | None = None,
    min_effect: str | None = None,
    why: str | None = None,
    pin: bool = False,
) -> int:
    """Write the user's hypothesis down as queued, against the best configuration so far; returns its id.

    Raises `UsageError` for anything that can't be tested: see `user_draft`; a duplicate is refused with a
    pointer to the earlier one.
    """
    facts = read_facts(session, campaign_id)
    asked = Enqueued(claim, tuple(assignments), expect, min_effect, why, pin)
    space = campaign_space(facts.spec, facts.cores)
    space.parse_assignments(asked.assignments)  # a wrong knob is worth telling before anything else
    if facts.state == CampaignState.STOPPED:
        raise UsageError(
            f"{facts.label} has ended.",
            f"Continue it first: autoinfer run --resume {facts.label} --budget 30m",
        )
    if facts.baseline is None or facts.baseline_experiment_id is None:
        raise UsageError(
            f"{facts.label} has not found its baseline yet, and a change needs something to start from.",
            "Try again in a minute; see how far it is with: autoinfer log",
        )
    desk = Desk(
        facts,
        space,
        read_baseline(session, facts.baseline_experiment_id),
        read_directives(session, campaign_id),
    )
    draft = user_draft(
        asked,
        space,
        desk.incumbent.configuration,
        metric=facts.spec.plan.metric,
        min_effect=facts.spec.plan.min_effect,
        predict=desk.beliefs.predict,
    )
    return accept(session, campaign_id, draft, facts.spec.plan.metric, space).hypothesis_id
