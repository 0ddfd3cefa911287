"""Findings that dispute each other become hypotheses: what takes a dispute apart goes into the queue.

After each verdict whose finding is disputed, in the transaction that writes it; and of disputes that somebody
else's verdicts began (an import, another campaign), or verdicts of one scope, before the queue is ranked
next. Each dispute is taken apart once, by the first campaign that comes upon it. Where one knob of the
control is all that differs, both verdicts are the answer; where nothing does, a campaign that has not tested
it asks for the same test once more, and in one that has `autoinfer reproduce` does. Where no test of here is
behind either side, the change itself is tested here (`disputed_here`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.campaign.decision.desk import Desk
from agent.campaign.decision.steered import waiting_disputes
from agent.campaign.known import store
from agent.campaign.known.measured import read_measured
from agent.campaign.known.reading_facts import read_facts
from agent.campaign.known.settling import settled
from agent.campaign.known.within_memory import legal_of
from agent.campaign.queue.accept import accept
from agent.campaign.queue.order import read_directives
from agent.campaign.separation.disputed_here import draft_here
from agent.campaign.separation.disputes_near import Near, is_here, open_findings, standing
from agent.proposers.claims import refuted_if
from agent.proposers.dispute import PROPOSER, Disputed, once_more, take_apart
from agent.proposers.port import Draft
from configs.errors import UsageError
from db.labels import Noun, format_label, parse_label_of
from db.models import Campaign, Experiment, Finding, FindingEvidence, Hypothesis, Verdict
from experiments.measurement.evidence import Json, Metric
from experiments.space.configuration import Configuration
from knowledge.findings.disputes import Claim, Dispute
from knowledge.findings.running import ran, ran_behind
from knowledge.findings.telling import disputes
from knowledge.queries.found.finding_detail import hypotheses_about
from knowledge.stored import DISPUTES

MOST_TAKEN_UP = 4
"""Disputes that others began and that wait in the queue at a time: an import of a hundred must not fill
it."""


@dataclass(frozen=True)
class _Tested:
    """The test behind a finding that is disputed, as this campaign's space has its arms."""

    experiment: Experiment
    hypothesis: Hypothesis
    control: Configuration
    candidate: Configuration


@dataclass(frozen=True)
class TakenUp:
    """The ids of the hypotheses that were queued, of how many disputes, and the last event looked at."""

    hypotheses: tuple[int, ...]
    disputes: int
    through: int


def take_disputes_apart(session: Session, experiment_id: int) -> tuple[int, ...]:
    """Queue what takes the disputes of an experiment's findings apart; returns the ids of the hypotheses.

    Nothing follows from a test that was itself to take a dispute apart.
    """
    experiment = session.get_one(Experiment, experiment_id)
    if experiment.hypothesis_id is None:
        return ()
    hypothesis = session.get_one(Hypothesis, experiment.hypothesis_id)
    if hypothesis.proposer == PROPOSER:
        return ()
    query = (
        select(Finding)
        .join(FindingEvidence, FindingEvidence.finding_id == Finding.id)
        .join(Verdict, Verdict.id == FindingEvidence.verdict_id)
        .where(Verdict.experiment_id == experiment_id)
        .order_by(Finding.id)
    )
    queued: list[int] = []
    for finding in session.scalars(query).all():
        for dispute in disputes(session, finding):
            other = _other(dispute, format_label(Noun.FINDING, finding.id))
            if other is None or dispute.is_answered or hypotheses_about(session, dispute.labels):
                continue
            queued += _of_own_verdict(session, experiment, hypothesis, dispute, other)
    return tuple(queued)


def room_for_disputes(desk: Desk) -> int:
    """Return how many more disputes that others began may wait in the queue."""
    waiting = waiting_disputes(desk.facts, desk.view.banned_levers)
    return MOST_TAKEN_UP - len({each.disputes for each in waiting})


def take_up_disputes(session: Session, desk: Desk, near: Near, room: int) -> TakenUp:
    """Queue what takes apart the disputes `near` here, where a test of this very scope is behind one of the
    findings, or else the change itself can be tested here; as many as there is `room` for.

    No verdict of the campaign would lead there: an import disputes what was measured before it, and what is
    ruled out is not tested again.
    """
    campaign = session.get_one(Campaign, desk.facts.id)
    queued: list[int] = []
    taken_up = 0
    for event_id, dispute in near.disputes:
        found = _take_up(session, desk, campaign, dispute.labels, near.measured)
        queued += found
        taken_up += bool(found)
        if taken_up == room:
            return TakenUp(tuple(queued), taken_up, event_id)
    return TakenUp(tuple(queued), taken_up, near.through)


def _take_up(
    session: Session, desk: Desk, campaign: Campaign, labels: Sequence[str], measured: Sequence[Claim]
) -> list[int]:
    """Queue what takes the dispute between these findings apart, from the side of a test of here, or else by
    testing the change here."""
    findings = open_findings(session, labels)
    dispute = standing(findings, labels)
    if dispute is None or dispute.is_answered or hypotheses_about(session, dispute.labels):
        return []  # since it was read
    for side in dispute.sides:
        finding, other = findings[side.label], _other(dispute, side.label)
        if is_here(finding, desk, campaign) and (other is not None or dispute.other is None):
            tested = _tested(session, desk, finding)
            queued = [] if tested is None else _queue(session, desk, tested, dispute, other)
            if queued:
                return queued
    draft = draft_here(desk, campaign, dispute, measured)
    return [] if draft is None else _put_down(session, desk, draft, {"findings": list(dispute.labels)})


def _tested(session: Session, desk: Desk, finding: Finding) -> _Tested | None:
    """The newest test behind a finding, by whatever campaign; None where it was told or imported alone."""
    query = (
        select(Experiment, Hypothesis)
        .join(Verdict, Verdict.experiment_id == Experiment.id)
        .join(FindingEvidence, FindingEvidence.verdict_id == Verdict.id)
        .join(Hypothesis, Hypothesis.id == Experiment.hypothesis_id)
        .where(FindingEvidence.finding_id == finding.id, Hypothesis.proposer != PROPOSER)
        .order_by(Verdict.id.desc())
        .limit(1)
    )
    row = session.execute(query).first()
    if row is None:
        return None
    experiment, hypothesis = row
    arms = [experiment.control_configuration_id, experiment.candidate_configuration_id]
    stored = store.configurations(session, arms)
    control, candidate = (settled(stored[each], desk.facts.spec.space) for each in arms if each is not None)
    return _Tested(experiment, hypothesis, control, candidate)


def _other(dispute: Dispute, label: str) -> Claim | None:
    """The finding that disputes this one.

    None where its own verdicts do, and where the user says so, who names no configuration.
    """
    other = next((each for each in (dispute.one, dispute.other) if each and each.label != label), None)
    return None if other is None or other.is_told else other


def _of_own_verdict(
    session: Session, experiment: Experiment, hypothesis: Hypothesis, dispute: Dispute, other: Claim
) -> list[int]:
    facts = read_facts(session, experiment.campaign_id)
    trial = next((each for each in facts.trials if each.experiment_id == experiment.id), None)
    if trial is None or facts.baseline is None:
        return []
    desk = Desk(facts, legal_of(facts), read_measured(session, facts), read_directives(session, facts.id))
    tested = _Tested(experiment, hypothesis, trial.control, trial.candidate)
    return _queue(session, desk, tested, dispute, other)


def _queue(session: Session, desk: Desk, tested: _Tested, dispute: Dispute, other: Claim | None) -> list[int]:
    """Queue what takes a dispute apart; of verdicts of one scope (`other` None) the same test once more."""
    legal, hypothesis = desk.legal, tested.hypothesis
    found = Disputed(
        hypothesis_id=hypothesis.id,
        claim=hypothesis.claim,
        control=tested.control,
        candidate=tested.candidate,
        metric=Metric(hypothesis.metric),
        min_effect=hypothesis.min_effect,
        question=dispute.question(),
        control_there={} if other is None else other.scope.get("control") or {},
        ran_here=ran(session, tested.experiment.id),
        ran_there={} if other is None else ran_behind(session, parse_label_of(Noun.FINDING, other.label)),
    )
    predict = desk.beliefs.predict
    labels: list[Json] = list(dispute.labels)
    queued = []
    if other is None:
        again = once_more(legal.space, found, predict, refused=legal.refused)
        if again is not None:
            queued += _put_down(session, desk, again, {"findings": labels})
    else:
        for suspect, draft in take_apart(legal.space, found, predict, refused=legal.refused):
            about: dict[str, Json] = {"findings": labels, "knob": suspect.knob, "value": suspect.value}
            queued += _put_down(session, desk, draft, about)
    session.flush()
    return queued


def _put_down(session: Session, desk: Desk, draft: Draft, about: dict[str, Json]) -> list[int]:
    """Write a draft down with the dispute that it is about; nothing where the campaign tested it before."""
    metric = Metric(draft.metric or desk.facts.objective)
    told = replace(draft, refuted_if=refuted_if(metric, draft.min_effect))
    try:
        accepted = accept(session, desk.facts.id, told, metric.value, desk.space)
    except UsageError:
        return []  # its verdict is among those that are known
    row = session.get_one(Hypothesis, accepted.hypothesis_id)
    row.change = {**row.change, DISPUTES: about}
    return [row.id]
