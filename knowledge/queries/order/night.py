"""The question of the night as it stands: whether it is settled, and how, or what it waits for."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from sqlalchemy import select
from sqlalchemy.orm import Session

from configs.quantities import format_duration
from db.labels import Noun, format_label
from db.models import Campaign, Directive, Experiment, Hypothesis, Verdict
from db.states import CampaignState, DirectiveKind, HypothesisState, VerdictOutcome
from knowledge.acts.approvals import awaits_approval
from knowledge.figures import clause, effect, listed, metric_word
from knowledge.queries.claims.follow_ups import OPEN, follow_ups_of
from knowledge.queries.left_alone import left_alone
from knowledge.queries.view import View
from knowledge.stored import number

DECIDED = (HypothesisState.SUPPORTED, HypothesisState.REFUTED, HypothesisState.INFEASIBLE)
"""States that settle a claim; inconclusive and confounded ones leave it open."""


class Answer(StrEnum):
    """Where a question of the night stands."""

    WAITING = "waiting"
    """It waits for its test, or for what separates the causes of it."""
    TESTING = "testing"
    SETTLED = "settled"
    LEFT_OPEN = "left_open"
    """Its test came to no decision, and nothing more is queued that could."""


class QuestionView(View):
    """A question of the night: `sentence` says how it stands, `experiment` and `outcome` by which verdict.

    `event_id` is the directive that asked it.
    """

    hypothesis: str
    claim: str
    asked_at: datetime
    event_id: int
    answer: Answer
    sentence: str
    experiment: str | None = None
    outcome: VerdictOutcome | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing will be tested for it any more."""
        return self.answer in (Answer.SETTLED, Answer.LEFT_OPEN)


def question_now(session: Session, campaign_id: int) -> QuestionView | None:
    """Return the question of the night of a campaign that exists; None where nobody asked one."""
    found = session.execute(
        select(Directive, Hypothesis)
        .join(Hypothesis, Hypothesis.id == Directive.hypothesis_id)
        .where(
            Directive.campaign_id == campaign_id, Directive.active, Directive.kind == DirectiveKind.QUESTION
        )
        .order_by(Directive.id.desc())
        .limit(1)
    ).first()
    if found is None:
        return None
    directive, hypothesis = found
    verdict = _verdict(session, hypothesis.id)
    campaign, event_id = session.get_one(Campaign, campaign_id), directive.event_id
    answer, sentence = _stands(session, campaign, hypothesis, verdict, event_id)
    return QuestionView(
        hypothesis=format_label(Noun.HYPOTHESIS, hypothesis.id),
        claim=hypothesis.claim,
        asked_at=directive.created_at,
        event_id=directive.event_id,
        answer=answer,
        sentence=sentence,
        experiment=None if verdict is None else format_label(Noun.EXPERIMENT, verdict.experiment_id),
        outcome=None if verdict is None else verdict.outcome,
    )


def _verdict(session: Session, hypothesis_id: int) -> Verdict | None:
    """The newest on a test of its own; what was run again is told with the experiment."""
    query = (
        select(Verdict)
        .join(Experiment, Experiment.id == Verdict.experiment_id)
        .where(Verdict.hypothesis_id == hypothesis_id, Experiment.reproduces_experiment_id.is_(None))
    )
    return session.scalars(query.order_by(Verdict.id.desc()).limit(1)).first()


def _stands(
    session: Session, campaign: Campaign, hypothesis: Hypothesis, verdict: Verdict | None, event_id: int
) -> tuple[Answer, str]:
    state = hypothesis.state
    if state in OPEN:
        return _open(session, campaign, hypothesis, event_id)
    if verdict is None and state is HypothesisState.CONFOUNDED:
        return _confounded(session, campaign, hypothesis, clause(hypothesis.state_reason or state.value))
    if verdict is None:
        return Answer.LEFT_OPEN, f"Not settled: it was {state.value} without a verdict."
    told = f"{_told(verdict, hypothesis.metric)} ({format_label(Noun.EXPERIMENT, verdict.experiment_id)})"
    if state in DECIDED:
        return Answer.SETTLED, f"Settled: {told}."
    if state is HypothesisState.CONFOUNDED:
        return _confounded(session, campaign, hypothesis, told)
    return Answer.LEFT_OPEN, f"Not settled: {told}."


def _open(session: Session, campaign: Campaign, hypothesis: Hypothesis, event_id: int) -> tuple[Answer, str]:
    if hypothesis.state is HypothesisState.TESTING:
        left = left_alone(session, (hypothesis.id,)).get(hypothesis.id)
        if left is not None:
            why = "its test was interrupted" if left.ended is None else left.ended.clause
            return Answer.WAITING, f"Not settled yet: {why}."
        return Answer.TESTING, "Not settled yet: it is under test now."
    if campaign.state is CampaignState.STOPPED:
        return Answer.LEFT_OPEN, f"Not settled: {_ended(campaign)} before it was tested."
    return Answer.WAITING, f"Not settled yet: {_waits_for(campaign, hypothesis, event_id)}."


def _waits_for(campaign: Campaign, hypothesis: Hypothesis, event_id: int) -> str:
    """What keeps a question from its test, as a clause."""
    score = hypothesis.score or {}
    if hypothesis.rank is None or score.get("question_of") != event_id:
        return "it is put first at the next ranking"
    if awaits_approval(hypothesis):
        return (
            f"it waits for your approval (autoinfer approve {format_label(Noun.HYPOTHESIS, hypothesis.id)})"
        )
    if score.get("paused") is True:
        return "a cap holds it back" if score.get("capped_by") is not None else "a ban holds it back"
    if score.get("early") is True:
        return "a cap of a share lets it run only after tests of other levers"
    cost_s = number(score.get("cost_s"))
    left_s = float(campaign.budget["wall_s"]) - float(campaign.budget.get("spent_s", 0.0))
    if cost_s is not None and cost_s > left_s:
        return (
            f"it is expected to take {format_duration(round(cost_s))}, and {format_duration(max(left_s, 0))} "
            "of the budget are left"
        )
    return "it is tested next" if hypothesis.rank == 1 else f"it has place {hypothesis.rank} in the queue"


def _confounded(
    session: Session, campaign: Campaign, hypothesis: Hypothesis, told: str
) -> tuple[Answer, str]:
    parts = follow_ups_of(session, hypothesis)
    names = listed([format_label(Noun.HYPOTHESIS, each.id) for each in parts])
    still = [each for each in parts if each.state in OPEN]
    if still and campaign.state is not CampaignState.STOPPED:
        does = "separates" if len(parts) == 1 else "separate"
        return Answer.WAITING, f"Not settled yet: {told}; {names} {does} its causes."
    if still or not parts:
        why = (
            f"{_ended(campaign)} before its causes were separated"
            if still
            else "nothing separates its causes"
        )
        return Answer.LEFT_OPEN, f"Not settled: {told}; {why}."
    apart = listed([_part(session, each) for each in parts])
    if all(each.state in DECIDED for each in parts):
        return Answer.SETTLED, f"Settled by its parts: {told}, and apart {apart}."
    return Answer.LEFT_OPEN, f"Not settled: {told}, and apart {apart}."


def _part(session: Session, part: Hypothesis) -> str:
    verdict = _verdict(session, part.id)
    label = format_label(Noun.HYPOTHESIS, part.id)
    return f"{label} was {part.state.value if verdict is None else _told(verdict, part.metric)}"


def _told(verdict: Verdict, metric: str) -> str:
    """An outcome with what was measured, or why nothing was."""
    word = verdict.outcome.value
    if verdict.effect_log is None:
        reason = clause(verdict.reason)
        starts_a_sentence = reason[:1].isupper() and not reason[1:2].isupper()
        return f"{word}, {reason[:1].lower() + reason[1:] if starts_a_sentence else reason}"
    measured = effect(verdict.effect_log, verdict.interval_low_log, verdict.interval_high_log, metric)
    return f"{word}, {metric_word(metric)} {measured}"


def _ended(campaign: Campaign) -> str:
    return f"{format_label(Noun.CAMPAIGN, campaign.id)} ended"
