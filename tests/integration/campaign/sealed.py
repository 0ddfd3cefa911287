"""A test that was dispatched under its seal, in a campaign whose baseline is measured."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.orm import Session

from agent.campaign.known.reading_facts import read_facts
from agent.campaign.learning.learn import learn_test
from agent.campaign.queue.accept import accept
from agent.campaign.queue.dispatch import dispatch_test
from agent.ground.legal import legal_here
from agent.proposers.port import Draft
from agent.surrogate.levers import joined
from db.models import (
    Experiment,
)
from db.session import Database
from experiments.job.spec import TestJob
from experiments.measurement.evidence import Arm, LaunchRecord
from experiments.measurement.judging import Outcome
from experiments.measurement.plan import Prediction
from experiments.space.configuration import Configuration as Point
from experiments.space.configuration import KnobValue
from tests.simulated.by_hand import launch, measure_baseline
from tests.simulated.campaign import start


@dataclass(frozen=True)
class Dispatched:
    """A campaign with its baseline, and the ids of a test that was dispatched."""

    database: Database
    folder: Path
    campaign_id: int
    hypothesis_id: int
    experiment_id: int

    def learn(self) -> Outcome | None:
        with self.database.write() as session:
            return learn_test(session, self.experiment_id)


def propose(database: Database, campaign_id: int, tpot_ms: float, proposer: str = "rules") -> int:
    return propose_change(database, campaign_id, {"simulated.tpot_ms": tpot_ms}, proposer=proposer)


def propose_change(
    database: Database,
    campaign_id: int,
    change: Mapping[str, KnobValue],
    on: Mapping[str, KnobValue] | None = None,
    proposer: str = "rules",
    metric: str = "tpot_ms",
) -> int:
    """Propose a change of the baseline, or of the baseline with the knobs `on`."""
    with database.write() as session:
        facts = read_facts(session, campaign_id)
        space = legal_here(facts.spec, facts.checkpoint, facts.cores).space
        assert facts.baseline is not None
        control = space.with_change(facts.baseline, on or {})
        candidate = space.with_change(control, change)
        draft = Draft(
            claim="It is faster.",
            control=control,
            candidate=candidate,
            lever=joined(space.levers_between(control, candidate)),
            prediction=Prediction(log_ratio_mean=-0.3, log_ratio_sd=0.1),
            min_effect=0.03,
            refuted_if="It is not.",
            rationale="The answer is a knob.",
            proposer=proposer,
        )
        return accept(session, campaign_id, draft, metric, space).hypothesis_id


def dispatch(database: Database, campaign_id: int, hypothesis_id: int) -> int:
    with database.write() as session:
        facts = read_facts(session, campaign_id)
        queued = next(each for each in facts.queue if each.id == hypothesis_id)
        return dispatch_test(session, facts, queued)


@pytest.fixture
def dispatched(tmp_path: Path) -> Iterator[Dispatched]:
    database, campaign_id = start(tmp_path)
    measure_baseline(database, campaign_id)
    hypothesis_id = propose(database, campaign_id, 7.0)
    yield Dispatched(
        database, tmp_path, campaign_id, hypothesis_id, dispatch(database, campaign_id, hypothesis_id)
    )
    database.close()


def one_pair(spec: TestJob) -> list[LaunchRecord]:
    return [
        launch(Arm.CONTROL, Point.of(spec.control), 10.0),
        launch(Arm.CANDIDATE, Point.of(spec.candidate), 7.0),
    ]


def change_plan(session: Session, it: Dispatched, **fields: Any) -> None:
    experiment = session.get_one(Experiment, it.experiment_id)
    experiment.plan = {**experiment.plan, **fields}
