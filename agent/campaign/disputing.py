"""After a verdict whose finding is disputed: hypotheses that take the dispute apart, into the queue.

Runs in the transaction that writes the verdict. Each dispute is taken apart once, in the campaign that came
upon it, and only where more than one thing differs: where one knob alone does, both verdicts are the answer.
"""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.campaign.accept import accept
from agent.campaign.desk import Desk
from agent.campaign.measured import read_measured
from agent.campaign.order import read_directives
from agent.campaign.reading_facts import read_facts
from agent.ground.legal import legal_here
from agent.proposers.claims import refuted_if
from agent.proposers.dispute import PROPOSER, Disputed, take_apart
from configs.errors import UsageError
from db.labels import Noun, format_label, parse_label_of
from db.models import Experiment, Finding, FindingEvidence, Hypothesis, Verdict
from experiments.measurement.evidence import Metric
from knowledge.findings.disputes import Claim, Dispute, Part
from knowledge.findings.running import ran, ran_behind
from knowledge.findings.telling import disputes
from knowledge.queries.finding_detail import hypotheses_about
from knowledge.stored import DISPUTES


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
            if other is None or _is_answered(dispute) or hypotheses_about(session, dispute.labels):
                continue
            queued += _queue(session, experiment, hypothesis, dispute, other)
    return tuple(queued)


def _other(dispute: Dispute, label: str) -> Claim | None:
    """The finding that disputes this one.

    None where its own verdicts do, and where the user says so, who names no configuration.
    """
    other = next((each for each in (dispute.one, dispute.other) if each and each.label != label), None)
    return None if other is None or other.is_told else other


def _is_answered(dispute: Dispute) -> bool:
    """Whether one knob of the control is all that differs: then it is that knob."""
    return len(dispute.differences) == 1 and dispute.differences[0].part is Part.CONTROL


def _queue(
    session: Session, experiment: Experiment, hypothesis: Hypothesis, dispute: Dispute, other: Claim
) -> list[int]:
    facts = read_facts(session, experiment.campaign_id)
    trial = next((each for each in facts.trials if each.experiment_id == experiment.id), None)
    if trial is None or facts.baseline is None:
        return []
    legal = legal_here(facts.spec, facts.checkpoint, facts.cores, compute_capability=facts.compute_capability)
    desk = Desk(facts, legal, read_measured(session, facts), read_directives(session, facts.id))
    found = Disputed(
        hypothesis_id=hypothesis.id,
        claim=hypothesis.claim,
        control=trial.control,
        candidate=trial.candidate,
        metric=Metric(hypothesis.metric),
        min_effect=hypothesis.min_effect,
        question=dispute.question(),
        control_there=other.scope.get("control") or {},
        ran_here=ran(session, experiment.id),
        ran_there=ran_behind(session, parse_label_of(Noun.FINDING, other.label)),
    )
    queued = []
    for suspect, draft in take_apart(legal.space, found, desk.beliefs.predict, refused=legal.refused):
        metric = Metric(draft.metric or facts.objective)
        told = replace(draft, refuted_if=refuted_if(metric, draft.min_effect))
        try:
            accepted = accept(session, facts.id, told, metric.value, legal.space)
        except UsageError:
            continue  # it was tested before: its verdict is among those that are known
        row = session.get_one(Hypothesis, accepted.hypothesis_id)
        row.change = {
            **row.change,
            DISPUTES: {"findings": list(dispute.labels), "knob": suspect.knob, "value": suspect.value},
        }
        queued.append(row.id)
    session.flush()
    return queued
