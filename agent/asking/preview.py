"""What would become of a hypothesis that is not in the queue yet: prediction, place, cost. Writes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.campaign.decision.desk import Desk
from agent.campaign.known.facts import Facts, Queued
from agent.campaign.known.measured import read_measured
from agent.campaign.known.reading_facts import read_facts
from agent.campaign.known.within_memory import legal_of
from agent.campaign.queue.held import draft_on
from agent.campaign.queue.order import read_directives
from agent.ground.drafter import space_of
from agent.ground.legal import Legal
from agent.proposers.user import Enqueued
from agent.ranking.values import Place
from db.models import Configuration as ConfigurationRow
from db.models import Hypothesis
from experiments.measurement.evidence import Metric
from experiments.measurement.plan import Prediction
from experiments.space.configuration import Configuration

UNKNOWN_ID = 2**31 - 1
"""Stands for the id that a previewed hypothesis will get: behind all others, as ties go."""


@dataclass(frozen=True)
class Ground:
    """What a preview is made on; `desk` None before the baseline is measured."""

    facts: Facts
    legal: Legal
    desk: Desk | None

    @property
    def control(self) -> Configuration:
        """What a new hypothesis is tested against."""
        if self.desk is None:
            return self.facts.begins_from(self.legal.space)
        return self.desk.incumbent.configuration


@dataclass(frozen=True)
class Preview:
    """A hypothesis as it would stand: `place` None before the baseline is measured."""

    control: Configuration
    candidate: Configuration
    lever: str
    prediction: Prediction
    min_effect: float
    place: Place | None
    known: bool


def read_ground(session: Session, campaign_id: int) -> Ground:
    """Read what a preview needs; raises as `legal_of`."""
    facts = read_facts(session, campaign_id)
    legal = legal_of(facts)
    if facts.baseline is None or facts.baseline_experiment_id is None:
        return Ground(facts, legal, None)
    directives = read_directives(session, campaign_id)
    return Ground(facts, legal, Desk(facts, legal, read_measured(session, facts), directives))


def read_without_shape(session: Session, campaign_id: int) -> Desk | None:
    """Read what is decided on as far as it does without the model's shape, for where that is not on this
    machine: nothing may be believed or ranked by it. None before the baseline is measured."""
    facts = read_facts(session, campaign_id)
    if facts.baseline is None or facts.baseline_experiment_id is None:
        return None
    legal = Legal(space_of(facts.spec).that_has(facts.baseline))
    return Desk(facts, legal, read_measured(session, facts), read_directives(session, campaign_id))


def preview(ground: Ground, asked: Enqueued) -> Preview:
    """What would become of it; raises `UsageError` as enqueueing it does, but for a duplicate."""
    facts, desk = ground.facts, ground.desk
    metric = facts.objective

    def predict(control: Configuration, candidate: Configuration) -> Prediction:
        if desk is None:
            return Prediction(log_ratio_mean=0.0, log_ratio_sd=1.0)
        return desk.beliefs.predict(control, candidate, Metric(metric))

    draft = draft_on(asked, ground.legal, ground.control, facts, metric, predict)
    place = None
    if desk is not None:
        new = Queued(
            id=UNKNOWN_ID,
            claim=draft.claim,
            control=draft.control,
            candidate=draft.candidate,
            lever=draft.lever,
            prediction=draft.prediction,
            min_effect=draft.min_effect,
            proposer=draft.proposer,
            pinned=draft.pinned,
            rank=None,
            metric=metric.value,
        )
        ranking = desk.ranking_of((*facts.queue, new))
        place = next(each for each in ranking.places if each.hypothesis_id == UNKNOWN_ID)
    known = desk is not None or asked.expect is not None
    return Preview(
        draft.control, draft.candidate, draft.lever, draft.prediction, draft.min_effect, place, known
    )


def same_hypotheses(
    session: Session, campaign_id: int, control: Configuration, candidate: Configuration, metric: str
) -> Sequence[tuple[int, str]]:
    """Ids and states of the campaign's hypotheses that compare the same, oldest first."""
    ids = {
        row.digest: row.id
        for row in session.scalars(
            select(ConfigurationRow).where(ConfigurationRow.digest.in_([control.digest, candidate.digest]))
        )
    }
    if len(ids) < 2:
        return ()
    query = select(Hypothesis.id, Hypothesis.state).where(
        Hypothesis.campaign_id == campaign_id,
        Hypothesis.control_configuration_id == ids[control.digest],
        Hypothesis.candidate_configuration_id == ids[candidate.digest],
        Hypothesis.metric == metric,
    )
    return [(number, state.value) for number, state in session.execute(query.order_by(Hypothesis.id))]
