"""Whether another campaign of this database answered a question already, with the same contrast in the same
scope. Reads only.

The same is what is preregistered of a question but its prediction: its claim, both arms, what drafts in them,
its metric and `min_effect`; the level, margins and workload of its plan; the judge in its version, and what
quality is compared with. Its scope is the same model, target, engine and texts, launches side by side or in
turn, and no version that both tell and that differs. How many blocks and pairs a test may take is its
campaign's own affair, and so is the seed, which no two tests share.

An answer is a verdict that settles the claim and that nothing speaks against: no fresh run that says the
opposite, and no finding that rests on it and is stale or contradicted. A file of the user's that texts were
taken from may hold others now, so what was calibrated on one is asked again; and so is what a cache of
prefixes does, of which it is not recorded whether the prompts were named (`measurement/prompts.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.campaign.known import store
from agent.campaign.known.facts import Facts
from agent.campaign.known.room import with_room
from agent.campaign.queue.dispatch import quality_against
from agent.ground.drafter import drafter_content
from agent.proposers.port import Draft
from db.labels import Noun, format_label
from db.models import Campaign, Experiment, Finding, FindingEvidence, Hypothesis, Verdict
from db.states import ExperimentKind, FindingStatus, VerdictOutcome
from experiments.job.named import load_judge
from experiments.job.spec import TestJob
from experiments.measurement.plan import Margins, StoppingPlan, Workload
from experiments.recording import load_test_spec, texts_of
from experiments.space.configuration import Configuration
from experiments.space.workload_rules import PREFIX_CACHING
from knowledge.findings.facts import versions_of_experiments
from knowledge.findings.staleness import of_other_versions

SETTLES = (VerdictOutcome.SUPPORTED, VerdictOutcome.REFUTED)
"""Verdicts that answer a question."""

OF_THE_USER = "user:"
"""What the value of a knob begins with that names a file of the user's."""


@dataclass(frozen=True)
class AnsweredThere:
    """The experiment of another campaign that answers a question, and what it came to."""

    experiment_id: int
    campaign_id: int
    outcome: VerdictOutcome

    @property
    def experiment(self) -> str:
        """Its label."""
        return format_label(Noun.EXPERIMENT, self.experiment_id)

    @property
    def words(self) -> str:
        """Where it was answered and how, as a clause."""
        return (
            f"{self.experiment} of {format_label(Noun.CAMPAIGN, self.campaign_id)} answered it with the same "
            f"arms, plan and versions: {self.outcome.value}"
        )


def answered_there(session: Session, facts: Facts, draft: Draft) -> AnsweredThere | None:
    """The newest answer of another campaign to the question that this draft is of; None where there is
    none."""
    assert draft.metric is not None
    if facts.baseline_experiment_id is None or _names_a_file((draft.control, draft.candidate)):
        return None
    if any(each.knob == PREFIX_CACHING for each in draft.control.changes_to(draft.candidate)):
        return None
    rows = session.execute(
        select(Experiment, Verdict)
        .join(Hypothesis, Hypothesis.id == Experiment.hypothesis_id)
        .join(Verdict, Verdict.experiment_id == Experiment.id)
        .join(Campaign, Campaign.id == Experiment.campaign_id)
        .where(
            Campaign.id != facts.id,
            Campaign.model_fingerprint == facts.model_fingerprint,
            Hypothesis.question.is_not(None),
            Hypothesis.claim == draft.claim,
            Hypothesis.control_configuration_id == store.configuration_id(session, draft.control),
            Hypothesis.candidate_configuration_id == store.configuration_id(session, draft.candidate),
            Hypothesis.metric == draft.metric.value,
            Hypothesis.min_effect == draft.min_effect,
            Hypothesis.drafter_content == drafter_content(draft.control, draft.candidate),
            Experiment.kind == ExperimentKind.TEST,
            Experiment.target == facts.target_key,
            Verdict.outcome.in_(SETTLES),
        )
        .order_by(Experiment.id.desc())
    )
    for experiment, verdict in rows:
        if (
            _is_the_same_test(session, facts, draft, load_test_spec(session, experiment.id))
            and _ran_with_these_versions(session, experiment, facts.baseline_experiment_id)
            and not _is_spoken_against(session, verdict)
        ):
            return AnsweredThere(experiment.id, experiment.campaign_id, verdict.outcome)
    return None


def _names_a_file(arms: Iterable[Configuration]) -> bool:
    return any(str(value).startswith(OF_THE_USER) for arm in arms for value in arm.values())


def _is_the_same_test(session: Session, facts: Facts, draft: Draft, job: TestJob) -> bool:
    assert draft.metric is not None
    assert facts.baseline_experiment_id is not None
    against = quality_against(facts, draft.control, draft.metric, is_question=True)
    reference = None if job.reference is None else Configuration.of(job.reference)
    judge = load_judge(facts.spec.judge)
    return (
        _asked(job.plan) == _asked_here(facts)
        and reference == against
        and (job.engine, job.judge, job.judge_version) == (facts.spec.engine, judge.name, judge.version)
        and job.texts == texts_of(session, facts.baseline_experiment_id)
        and job.in_turn == with_room(facts, draft.control, draft.candidate).in_turn
    )


def _asked(plan: StoppingPlan) -> tuple[object, ...]:
    """What a plan asks beside what stands in its hypothesis."""
    return plan.alpha, plan.margins, plan.workload, plan.latency_only


def _asked_here(facts: Facts) -> tuple[object, ...]:
    plan = facts.spec.plan
    margins = Margins.model_validate(plan.margins.model_dump())
    workload = Workload.model_validate(plan.workload.model_dump())
    return plan.alpha, margins, workload, facts.spec.latency_only


def _ran_with_these_versions(session: Session, experiment: Experiment, baseline_experiment_id: int) -> bool:
    here = session.get_one(Experiment, baseline_experiment_id)
    versions = versions_of_experiments(session, [experiment, here])
    return not of_other_versions(versions[experiment.id], versions[here.id])


def _is_spoken_against(session: Session, verdict: Verdict) -> bool:
    """Whether a fresh run settled it the other way, or a finding that rests on it is not believed now."""
    other_way = (
        select(Verdict.id)
        .join(Experiment, Experiment.id == Verdict.experiment_id)
        .where(
            Experiment.reproduces_experiment_id == verdict.experiment_id,
            Verdict.outcome.in_(SETTLES),
            Verdict.outcome != verdict.outcome,
        )
    )
    doubted = (
        select(Finding.id)
        .join(FindingEvidence, FindingEvidence.finding_id == Finding.id)
        .where(
            FindingEvidence.verdict_id == verdict.id,
            Finding.status.in_((FindingStatus.STALE, FindingStatus.CONTRADICTED)),
        )
    )
    return session.scalar(select(other_way.exists() | doubted.exists())) is True
