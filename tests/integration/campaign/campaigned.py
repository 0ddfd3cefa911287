"""A campaign with two supported verdicts, whose launches are given, and its verification."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from sqlalchemy import func, select

from agent.campaign.learning.learn import learn_test
from agent.campaign.learning.outcome import note_best
from agent.campaign.rerun.verify import Limits, Runner, verify
from db import events
from db.event_kinds import EventKind
from db.models import Experiment
from db.session import Database
from db.states import VerdictOutcome
from experiments.job.result import Failure
from experiments.job.spec import TestJob
from experiments.measurement.evidence import Arm, LaunchRecord, Stage
from experiments.space.configuration import Configuration as Point
from knowledge.queries.found.verification import Standing, VerificationView, verification
from tests.integration.campaign.sealed import dispatch, propose
from tests.simulated.by_hand import launch, measure_baseline, run_by_hand
from tests.simulated.campaign import start

HERE = Limits()

TIMES_ALONE = "; latency only, quality is not known"


def pairs(candidate_ms: float) -> Callable[[TestJob], list[LaunchRecord]]:
    """Launches enough for a verdict: full pairs and those of the validation, all of them quiet."""

    def launches(spec: TestJob) -> list[LaunchRecord]:
        random = Random(spec.experiment_id)
        stages = [Stage.QUICK, *[Stage.FULL] * 3, *[Stage.VALIDATION] * 2]
        return [
            launch(arm, Point.of(knobs), ms * (1 + 0.004 * random.gauss(0.0, 1.0)), index, stage)
            for index, stage in enumerate(stages)
            for arm, knobs, ms in (
                (Arm.CONTROL, spec.control, 10.0),
                (Arm.CANDIDATE, spec.candidate, candidate_ms),
            )
        ]

    return launches


@dataclass
class Campaigned:
    """A campaign with two supported verdicts, E-0002 and E-0003, the second of which is the best."""

    database: Database
    campaign_id: int
    runs: list[int]

    def run(self, candidate_ms: float | None = None, failure: Failure | None = None) -> Callable[[str], None]:
        """A worker's turn: the newest experiment is measured as its first run was, or as is given."""

        def wait(device: str) -> None:
            with self.database.read() as session:
                newest = session.scalars(select(func.max(Experiment.id))).one()
                first = session.get_one(Experiment, newest).reproduces_experiment_id
            self.runs.append(newest)
            as_before = {2: 9.0, 3: 7.0}[first or 0]
            run_by_hand(self.database, newest, pairs(candidate_ms or as_before), failure)

        return wait

    def verify(self, wait: Callable[[str], None] | None = None, limits: Limits = HERE) -> VerificationView:
        return verify(self.database, self.campaign_id, Runner(wait or self.run()), limits)

    def standings(self) -> list[Standing]:
        with self.database.read() as session:
            return [row.standing for row in verification(session, self.campaign_id).verdicts]

    def told(self) -> list[str]:
        kinds = [EventKind.CAMPAIGN_VERIFYING, EventKind.CAMPAIGN_VERIFIED]
        with self.database.read() as session:
            return [each.text for each in events.read(session, kinds=kinds)]


@pytest.fixture
def campaign(tmp_path: Path) -> Iterator[Campaigned]:
    database, campaign_id = start(tmp_path, weights="dummy")  # so that times alone decide
    measure_baseline(database, campaign_id)
    for tpot_ms in (9.9, 7.0):
        experiment_id = dispatch(database, campaign_id, propose(database, campaign_id, tpot_ms))
        run_by_hand(database, experiment_id, pairs(9.0 if tpot_ms > 9 else tpot_ms))
        with database.write() as session:
            assert learn_test(session, experiment_id) == VerdictOutcome.SUPPORTED
            note_best(session, campaign_id)
    yield Campaigned(database, campaign_id, [])
    database.close()


def interrupt(device: str) -> None:
    raise KeyboardInterrupt


RENTED = "modal:L4"
