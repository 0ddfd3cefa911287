"""The user's hypotheses from before the baseline: held, and put on the baseline as soon as it is known.

Until then such a hypothesis is `proposed`, its control the engine's own default in place of the baseline (or
another configuration that the baseline is chosen from, where the default has what it asks for), and what the
user wrote is kept with its change. A control cannot be changed once a hypothesis is queued.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.campaign.decision.desk import Desk
from agent.campaign.known import store
from agent.campaign.known.facts import Facts
from agent.campaign.queue.accept import accept, change_digest, same_arms
from agent.ground.drafter import drafter_content
from agent.ground.legal import Legal
from agent.ground.sweep import swept
from agent.proposers.claims import refuted_if, unpredicted
from agent.proposers.port import Draft
from agent.proposers.user import Enqueued, check_words, user_draft
from configs.errors import UsageError
from configs.questions import is_latency
from db.clock import now
from db.labels import Noun, format_label
from db.models import Hypothesis
from db.states import HypothesisState
from experiments.measurement.evidence import Metric
from experiments.measurement.plan import Prediction
from experiments.space.configuration import Configuration
from experiments.space.loading import parse_assignments_in
from knowledge.acts import steering

HELD = "held"
"""Where a hypothesis's `change` keeps what the user wrote while it is held."""

WAITS = "waits for the baseline, and gets its place in the order then"
"""The reason for its place while it is held: a ban may hold it back then, so no test is promised."""


def hold(session: Session, facts: Facts, asked: Enqueued, metric: Metric, legal: Legal) -> int:
    """Write the user's hypothesis down until the baseline is known; returns its id.

    Raises `UsageError` as `user_draft` and `accept`, with `_control` in place of the baseline.
    """

    def nothing_known(control: Configuration, candidate: Configuration) -> Prediction:
        return unpredicted(metric, facts.spec.plan.min_effect)

    draft = draft_on(asked, legal, _control(asked, legal, facts), facts, metric, nothing_known)
    number = accept(session, facts.id, draft, metric.value, legal.space).hypothesis_id
    row = session.get_one(Hypothesis, number)
    row.state, row.rank_reason = HypothesisState.PROPOSED, WAITS
    row.change = {**row.change, HELD: {**asdict(asked), "assignments": list(asked.assignments)}}
    session.flush()
    return number


def _control(asked: Enqueued, legal: Legal, facts: Facts) -> Configuration:
    """What may become the baseline and is changed by what the user asked for: what the campaign begins from,
    else the first such configuration of the sweep; the former where none is, or where it can't be said."""
    default = facts.begins_from(legal.space)
    try:
        assigned = legal.space.parse_assignments(asked.assignments)
        maybe = (default, *swept(legal.space, facts.start, facts.spec.baseline.sweep))
        return next((each for each in maybe if legal.space.with_change(each, assigned) != each), default)
    except UsageError:
        return default  # on which the fault is told


def check_asked(asked: Enqueued, facts: Facts, metric: Metric) -> None:
    """Raise `UsageError` for what can't be tested on any control: see `check_words`."""
    if asked.expect is not None and not is_latency(metric.value):
        raise UsageError(
            f"An effect on {metric.value} can't be expected with --expect, which is about times.",
            "Leave --expect out; --min-effect says how large the effect is at least.",
        )
    check_words(asked, metric.value, facts.spec.plan.min_effect)


def draft_on(
    asked: Enqueued,
    legal: Legal,
    control: Configuration,
    facts: Facts,
    metric: Metric,
    predict: Callable[[Configuration, Configuration], Prediction],
) -> Draft:
    """The draft of what the user asked for on this control; raises `UsageError` for what can't be."""
    check_asked(asked, facts, metric)
    never = legal.why_never(parse_assignments_in(facts.spec.space, asked.assignments))
    if never is not None:
        raise UsageError(never, "Set another value.", quotes=(never,))
    draft = user_draft(
        asked,
        legal.space,
        control,
        metric=metric.value,
        min_effect=facts.spec.plan.min_effect,
        predict=predict,
    )
    refusal = legal.refused(draft.candidate)
    if refusal is not None:
        raise UsageError(
            refusal,
            "Set other knobs beside it: fewer serving.max_sequences where memory is short, or pruning that "
            "pays for a drafter.",
            quotes=(refusal,),
        )
    return replace(draft, refuted_if=refuted_if(metric, draft.min_effect), metric=metric)


def held_ones(session: Session, campaign_id: int) -> Sequence[Hypothesis]:
    """What the user asked for and is held, the first first."""
    query = select(Hypothesis).where(
        Hypothesis.campaign_id == campaign_id, Hypothesis.state == HypothesisState.PROPOSED
    )
    return [each for each in session.scalars(query.order_by(Hypothesis.id)) if HELD in each.change]


def release_held(session: Session, desk: Desk) -> None:
    """Put what was held on the baseline and into the queue; what can't be tested there is withdrawn."""
    for row in held_ones(session, desk.facts.id):
        told: Mapping[str, Any] = row.change[HELD]
        metric = Metric(row.metric)

        def predict(control: Configuration, candidate: Configuration, metric: Metric = metric) -> Prediction:
            return desk.beliefs.predict(control, candidate, metric)

        try:
            draft = draft_on(
                Enqueued(**told), desk.legal, desk.baseline_configuration, desk.facts, metric, predict
            )
            _rebase(session, row, draft)
        except UsageError as error:
            steering.withdraw_proposal(session, row.id, error.message)


def _rebase(session: Session, row: Hypothesis, draft: Draft) -> None:
    control = store.configuration_id(session, draft.control)
    candidate = store.configuration_id(session, draft.candidate)
    same = same_arms(
        session, row.campaign_id, draft.control, draft.candidate, row.metric, with_questions=False
    )
    for each in same:
        if each.hypothesis_id != row.id and not each.void:
            twin = format_label(Noun.HYPOTHESIS, each.hypothesis_id)
            raise UsageError(f"On the baseline it is the same as {twin}.", f"See: autoinfer show {twin}")
    changes = draft.control.changes_to(draft.candidate)
    row.control_configuration_id, row.candidate_configuration_id = control, candidate
    row.change = {"changes": [asdict(change) for change in changes]}
    row.change_digest = change_digest(changes)
    row.drafter_content = drafter_content(draft.control, draft.candidate)
    row.lever = draft.lever
    row.prediction = draft.prediction.model_dump()
    row.state, row.state_changed_at, row.rank_reason = HypothesisState.QUEUED, now(), None
    session.flush()
