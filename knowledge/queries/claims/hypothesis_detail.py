"""One hypothesis: what it claims, what was done about it, and what that says."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session, aliased

from db.labels import Noun, format_label, parse_label_of
from db.models import Event, Experiment, Finding, FindingEvidence, Hypothesis, HypothesisParent, Move, Verdict
from db.models.base import JsonObject
from db.states import (
    EvidenceRelation,
    ExperimentKind,
    ExperimentState,
    FindingStatus,
    HypothesisState,
    VerdictOutcome,
)
from knowledge.acts.approvals import ApprovalView, approval_of
from knowledge.queries.at_work import Interrupted, in_a_word, interrupted_experiments
from knowledge.queries.claims.hypotheses import HypothesisRow, hypothesis_label, row_fields, with_verdict
from knowledge.queries.claims.model_answers import AnswerView, model_answer
from knowledge.queries.claims.proposers import hits_of
from knowledge.queries.found.doubts import NO_DOUBT, doubts_of
from knowledge.queries.found.shaken import shaken_labels
from knowledge.queries.found.ties import TieView, ties_of_experiments
from knowledge.queries.left_alone import left_alone
from knowledge.queries.view import (
    EffectView,
    Predictions,
    View,
    predicted_now,
    predictions,
    verdict_effect,
)
from knowledge.stored import answer_of, builds_on


class MoveView(View):
    """A change of place in the queue at a ranking, with its reason and the event that caused it; `cause` is
    that event's text, `cause_subject` what it is about."""

    from_rank: int | None
    to_rank: int | None
    reason: str
    event_id: int
    ranking_event_id: int
    at: datetime
    cause: str
    cause_subject: str | None


class TestView(View):
    """An experiment of a hypothesis, in short; `wall_s` in seconds."""

    __test__ = False  # not a test class for pytest
    id: str
    kind: ExperimentKind
    state: ExperimentState
    stage: str | None
    outcome: VerdictOutcome | None
    effect: EffectView | None
    launches: int | None
    started_at: datetime | None
    wall_s: float | None
    interrupted: Interrupted | None = None

    @property
    def standing(self) -> str:
        """Its state in a word, which is another one where it was interrupted."""
        return in_a_word(self.state.value, self.interrupted)


class RelativeView(View):
    """A parent, which the hypothesis follows from, or a child, which follows from it."""

    id: str
    claim: str
    state: HypothesisState


class EvidenceView(View):
    """A finding that a verdict on the hypothesis is evidence for or against, with what speaks against it."""

    id: str
    claim: str
    status: FindingStatus
    strength: str
    relation: EvidenceRelation
    doubt: str | None = None


class HypothesisDetail(HypothesisRow):
    """Everything about one hypothesis; `elsewhere` is what other targets said of its tests, `proposer_hits`
    how often what its proposer brought to this campaign was supported. `answer` is what a language model was
    asked and answered, where it is of one, and `builds_on` the findings because of which it was proposed.
    While it waits, `predicted` was when it was proposed; `predicted_now` is by the belief that ranks it."""

    refuted_if: str
    rationale: str
    control: JsonObject
    candidate: JsonObject
    score: JsonObject | None
    approval: ApprovalView | None
    preregistration_digest: str | None
    parents: tuple[str, ...]
    children: tuple[str, ...]
    follows_from: tuple[RelativeView, ...]
    led_to: tuple[RelativeView, ...]
    experiments: tuple[TestView, ...]
    moves: tuple[MoveView, ...]
    findings: tuple[EvidenceView, ...]
    elsewhere: tuple[TieView, ...]
    proposer_hits: str
    answer: AnswerView | None
    builds_on: tuple[str, ...]
    predicted_now: EffectView | None = None

    @property
    def predictions(self) -> Predictions:
        """What is predicted of it, as it is shown."""
        return predictions(self.state, self.predicted, self.predicted_now)


def hypothesis_detail(session: Session, hypothesis_id: int) -> HypothesisDetail:
    """Return everything about one hypothesis, which must exist."""
    query = with_verdict(select(Hypothesis).where(Hypothesis.id == hypothesis_id))
    row = session.execute(query).one()
    hypothesis: Hypothesis = row.Hypothesis
    testing = (hypothesis_id,) if hypothesis.state is HypothesisState.TESTING else ()
    left = left_alone(session, testing).get(hypothesis_id)
    parents = _relatives(session, hypothesis_id, of=True)
    children = _relatives(session, hypothesis_id, of=False)
    tests = _tests(session, hypothesis_id)
    supported = row.Verdict is not None and hypothesis.state is HypothesisState.SUPPORTED
    doubts = shaken_labels(session, (row.Verdict.experiment_id,)) if supported else {}
    answer_id = answer_of(hypothesis.change)
    return HypothesisDetail(
        **row_fields(row),
        **({} if left is None else left._asdict()),
        doubt=next(iter(doubts.values()), None),
        refuted_if=hypothesis.refuted_if,
        rationale=hypothesis.rationale,
        control=row.control_knobs,
        candidate=row.candidate_knobs,
        score=hypothesis.score,
        approval=approval_of(hypothesis),
        preregistration_digest=hypothesis.preregistration_digest,
        parents=tuple(each.id for each in parents),
        children=tuple(each.id for each in children),
        follows_from=parents,
        led_to=children,
        experiments=tests,
        moves=moves_of(session, hypothesis_id),
        findings=_findings(session, hypothesis_id),
        elsewhere=_elsewhere(session, tests),
        proposer_hits=hits_of(session, hypothesis.campaign_id, hypothesis.proposer).words(),
        answer=None if answer_id is None else model_answer(session, answer_id),
        builds_on=builds_on(hypothesis.change),
        predicted_now=predicted_now(hypothesis.state, hypothesis.score, hypothesis.metric),
    )


def _relatives(session: Session, hypothesis_id: int, *, of: bool) -> tuple[RelativeView, ...]:
    """The parents `of` a hypothesis, or else its children."""
    near, far = HypothesisParent.hypothesis_id, HypothesisParent.parent_id
    if not of:
        near, far = far, near
    query = (
        select(Hypothesis.id, Hypothesis.claim, Hypothesis.state)
        .join(HypothesisParent, far == Hypothesis.id)
        .where(near == hypothesis_id)
        .order_by(Hypothesis.id)
    )
    return tuple(
        RelativeView(id=hypothesis_label(number), claim=claim, state=state)
        for number, claim, state in session.execute(query)
    )


def _tests(session: Session, hypothesis_id: int) -> tuple[TestView, ...]:
    query = (
        select(Experiment, Verdict)
        .outerjoin(Verdict, Verdict.experiment_id == Experiment.id)
        .where(Experiment.hypothesis_id == hypothesis_id)
        .order_by(Experiment.id)
    )
    found = session.execute(query).all()
    interrupted = interrupted_experiments(session, [each.id for each, _ in found])
    return tuple(
        TestView(
            id=format_label(Noun.EXPERIMENT, each.id),
            kind=each.kind,
            state=each.state,
            stage=each.stage,
            outcome=None if verdict is None else verdict.outcome,
            effect=None if verdict is None else verdict_effect(verdict),
            launches=None if verdict is None else verdict.launches,
            started_at=each.started_at,
            wall_s=each.wall_s,
            interrupted=interrupted.get(each.id),
        )
        for each, verdict in found
    )


def _elsewhere(session: Session, tests: Sequence[TestView]) -> tuple[TieView, ...]:
    """What was confirmed on other targets, from the side of the first; nothing asked where nothing was."""
    if not any(each.kind is ExperimentKind.PROMOTE for each in tests):
        return ()
    numbers = [parse_label_of(Noun.EXPERIMENT, each.id) for each in tests]
    return tuple(each for each in ties_of_experiments(session, numbers) if not each.is_second)


def moves_of(session: Session, hypothesis_id: int) -> tuple[MoveView, ...]:
    """Return the moves of a hypothesis in the queue, oldest first, each with what caused it."""
    ranking = aliased(Event)
    query = (
        select(Move, Event.text, Event.subject, ranking.at)
        .join(Event, Event.id == Move.event_id)
        .join(ranking, ranking.id == Move.ranking_event_id)
        .where(Move.hypothesis_id == hypothesis_id)
        .order_by(Move.id)
    )
    return tuple(
        MoveView(
            from_rank=move.from_rank,
            to_rank=move.to_rank,
            reason=move.reason,
            event_id=move.event_id,
            ranking_event_id=move.ranking_event_id,
            at=at,
            cause=cause,
            cause_subject=subject,
        )
        for move, cause, subject, at in session.execute(query)
    )


def _findings(session: Session, hypothesis_id: int) -> tuple[EvidenceView, ...]:
    query = (
        select(Finding, FindingEvidence.relation)
        .join(FindingEvidence, FindingEvidence.finding_id == Finding.id)
        .join(Verdict, Verdict.id == FindingEvidence.verdict_id)
        .where(Verdict.hypothesis_id == hypothesis_id)
        .order_by(Finding.id, Verdict.id)
    )
    found = session.execute(query).all()
    doubts = doubts_of(session, [finding for finding, _ in found])
    return tuple(
        EvidenceView(
            id=format_label(Noun.FINDING, finding.id),
            claim=finding.claim,
            status=finding.status,
            strength=finding.strength,
            relation=relation,
            doubt=doubts.get(finding.id, NO_DOUBT).words,
        )
        for finding, relation in found
    )
