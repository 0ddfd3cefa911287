"""From a draft to a hypothesis in the queue, or to a refusal with its reason."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.campaign.known import store
from agent.campaign.queue.answered_there import AnsweredThere
from agent.ground.drafter import drafter_content
from agent.proposers.dedupe import Earlier, refusal
from agent.proposers.draft import by_time_alone
from agent.proposers.port import Draft
from configs.authors import author_words
from configs.errors import UsageError
from db import events
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Campaign, Experiment, Hypothesis, HypothesisParent, Verdict
from db.states import ExperimentKind, HypothesisState
from experiments.measurement.evidence import Json
from experiments.space.configuration import Change, Configuration
from experiments.space.space import Space
from knowledge.acts.steering import pin
from knowledge.latency_only import latency_only
from knowledge.stored import ANSWERED_BY, BUILDS_ON, FROM_MODEL, SEPARATES


class Duplicate(UsageError):
    """The same change to the same control was proposed before; the message names where."""


@dataclass(frozen=True)
class Accepted:
    """A hypothesis that was written down, and the event that tells of it."""

    hypothesis_id: int
    event_id: int


def accept(
    session: Session,
    campaign_id: int,
    draft: Draft,
    metric: str,
    space: Space,
    *,
    question: str | None = None,
    separates: Mapping[str, Json] | None = None,
) -> Accepted:
    """Write the draft down as a queued hypothesis on its own metric, or on `metric` where it names none.

    `question` is the id of the campaign's question that it answers, `separates` the confounded experiment
    whose causes it takes apart (see `agent.campaign.separation.separating`). Raises `Duplicate` for the same
    candidate against the same control on the same metric (a campaign's question may repeat what another one
    asked, the user what was withdrawn or broke, and anyone what drafted with a drafter that was trained again
    since), and `UsageError` for a draft that is illegal in the space or says nothing.
    """
    judged = metric if draft.metric is None else draft.metric.value
    earlier = (
        ()
        if question is not None
        else same_arms(session, campaign_id, draft.control, draft.candidate, judged)
    )
    refused = refusal(draft, space, earlier)
    if refused is not None:
        kind = UsageError if refused.duplicate_of is None else Duplicate
        raise kind(refused.reason, refused.hint)
    return put_down(session, campaign_id, draft, judged, question=question, separates=separates)


def same_arms(
    session: Session,
    campaign_id: int,
    control: Configuration,
    candidate: Configuration,
    metric: str,
    *,
    with_questions: bool = True,
) -> tuple[Earlier, ...]:
    """The campaign's hypotheses that compare these arms, oldest first.

    One with another drafter in the same folder compared something else; where it is not known what was in
    it, it counts. A question that another campaign answered compared nothing here.
    """
    content = drafter_content(control, candidate)
    broke = (
        select(Verdict.id)
        .join(Experiment, Experiment.id == Verdict.experiment_id)
        .where(
            Verdict.hypothesis_id == Hypothesis.id,
            Verdict.launches == 0,
            Experiment.kind == ExperimentKind.TEST,
        )
    )
    rows = session.execute(
        select(Hypothesis.id, Hypothesis.state, Hypothesis.drafter_content, broke.exists())
        .where(
            Hypothesis.campaign_id == campaign_id,
            Hypothesis.control_configuration_id == store.configuration_id(session, control),
            Hypothesis.candidate_configuration_id == store.configuration_id(session, candidate),
            Hypothesis.metric == metric,
            Hypothesis.target == "",
            Hypothesis.change[ANSWERED_BY].as_integer().is_(None),
            *(() if with_questions else (Hypothesis.question.is_(None),)),
        )
        .order_by(Hypothesis.id)
    )
    return tuple(
        Earlier(
            number,
            control.digest,
            candidate.digest,
            state.value,
            void=state is HypothesisState.WITHDRAWN
            or (state is HypothesisState.INCONCLUSIVE and without_launches),
        )
        for number, state, before, without_launches in rows
        if not before or not content or before == content
    )


def put_down(
    session: Session,
    campaign_id: int,
    draft: Draft,
    metric: str,
    *,
    question: str | None = None,
    impossible: str | None = None,
    answered: AnsweredThere | None = None,
    separates: Mapping[str, Json] | None = None,
    target: str = "",
    confirms: int | None = None,
) -> Accepted:
    """Write the draft down as it is, and tell of it; `impossible` is why it can't be tested, if it can't,
    `answered` what answers it, so that it is not tested.

    `target` is where it is to confirm the experiment `confirms`; the campaign's own if not given.
    """
    changes = draft.control.changes_to(draft.candidate)
    row = Hypothesis(
        campaign_id=campaign_id,
        claim=draft.claim,
        control_configuration_id=store.configuration_id(session, draft.control),
        candidate_configuration_id=store.configuration_id(session, draft.candidate),
        change={
            "changes": [asdict(change) for change in changes],
            **({} if separates is None else {SEPARATES: dict(separates)}),
            **({} if answered is None else {ANSWERED_BY: answered.experiment_id}),
            **_from_model(draft),
            **({BUILDS_ON: list(draft.builds_on)} if draft.builds_on else {}),
        },
        change_digest=change_digest(changes),
        metric=metric,
        question=question,
        drafter_content=drafter_content(draft.control, draft.candidate),
        prediction=draft.prediction.model_dump(),
        min_effect=draft.min_effect,
        refuted_if=_refuted_if(session, campaign_id, draft),
        rationale=draft.rationale,
        proposer=draft.proposer,
        lever=draft.lever,
        state=_begins_as(impossible, answered),
        state_reason=impossible if answered is None else answered.words,
        target=target,
        confirms_experiment_id=confirms,
    )
    session.add(row)
    session.flush()
    for parent in draft.parents:
        session.add(HypothesisParent(hypothesis_id=row.id, parent_id=parent))
    untested = "" if impossible is None else f"; infeasible here: {impossible}"
    untested += "" if answered is None else f"; not tested again: {answered.words}"
    event_id = events.append(
        session,
        EventKind.HYPOTHESIS_PROPOSED,
        f"{draft.claim.rstrip('.')}, by {author_words(draft.proposer)}{untested}",
        subject=format_label(Noun.HYPOTHESIS, row.id),
        campaign_id=campaign_id,
        data={
            "proposer": draft.proposer,
            "lever": draft.lever,
            "change": describe(changes),
            **({} if question is None else {"question": question}),
            **({"target": target} if target else {}),
            **({} if impossible is None else {"infeasible": impossible}),
            **({} if answered is None else {ANSWERED_BY: answered.experiment}),
            **({} if separates is None else {SEPARATES: dict(separates)}),
        },
    )
    if draft.pinned and impossible is None:
        pin(session, row.id)  # with an event of its own, which the ranking cites
    return Accepted(row.id, event_id)


def _begins_as(impossible: str | None, answered: AnsweredThere | None) -> HypothesisState:
    if answered is not None:
        return HypothesisState.WITHDRAWN
    return HypothesisState.QUEUED if impossible is None else HypothesisState.INFEASIBLE


def _from_model(draft: Draft) -> dict[str, Json]:
    """What is kept of the language model's answer that a draft is of; nothing for all others."""
    if draft.from_model is None:
        return {}
    told = draft.from_model
    return {FROM_MODEL: {"answer": told.answer_id, "place": told.place, "builds_on": list(told.builds_on)}}


def _refuted_if(session: Session, campaign_id: int, draft: Draft) -> str:
    """What refutes the draft; where weights are made up nothing judges quality, which goes without saying."""
    campaign = session.get_one(Campaign, campaign_id)
    return by_time_alone(draft.refuted_if) if latency_only(campaign.spec) else draft.refuted_if


def refuse(session: Session, campaign_id: int, draft: Draft, reason: str) -> int:
    """Write down that a draft was refused and why; returns the event's id."""
    return events.append(
        session,
        EventKind.HYPOTHESIS_REFUSED,
        f"{draft.claim.rstrip('.')}, by {author_words(draft.proposer)}: {reason}",
        campaign_id=campaign_id,
        data={
            "proposer": draft.proposer,
            **({} if draft.from_model is None else {"answer": draft.from_model.answer_id}),
        },
    )


def describe(changes: Sequence[Change]) -> str:
    """The changes in a row, such as `serving.compile off → default`."""
    return ", ".join(str(change) for change in changes)


def change_digest(changes: Sequence[Change]) -> str:
    """SHA-256 of the canonical list of changes: equal for the same change on another control."""
    text = json.dumps([[c.knob, c.before, c.after] for c in changes], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
