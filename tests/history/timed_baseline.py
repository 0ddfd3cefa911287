"""Launches of a campaign's baseline, when it was measured and in tests, each experiment with a job of its
own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from agent.campaign.known import store
from db.content import put_environment
from db.models import Campaign, Experiment, Job, Launch
from db.samples import Sample, insert_samples
from db.states import Arm, ExperimentKind, ExperimentState, JobState
from experiments.measurement.evidence import Stage
from knowledge.queries.baseline_in_tests import BaselineInTestsView, baseline_in_tests
from tests.history.campaign_history import BASE, TARGET, History

BEGAN = datetime(2026, 11, 27, 12, tzinfo=UTC)
OWN = (2.16, 2.2, 2.24)
LATER = (2.7, 2.8, 2.6, 2.9, 2.75)
"""What a token took in launches that measured the baseline, and in tests, in ms."""


class Lab:
    """Writes launches of the baseline's configuration; every method is one transaction."""

    def __init__(self, history: History, target: str = "cuda:0,cuda:1") -> None:
        self.history = history
        with history.database.write() as session:
            campaign = session.get_one(Campaign, history.campaign_id)
            self.baseline = store.configuration_id(session, BASE)
            campaign.baseline_configuration_id = self.baseline
            campaign.spec = {**campaign.spec, "target": target}

    def add(
        self,
        stage: Stage,
        minute: int,
        times_ms: Sequence[float],
        device: str | None = "lab/cuda:0",
        *,
        attempt: int = 1,
        experiment_id: int | None = None,
        target: str = TARGET,
        kind: ExperimentKind | None = None,
    ) -> int:
        """An experiment that runs for ten minutes from `minute` on, with one launch for each of `times_ms`,
        timed in its middle."""
        began = BEGAN + timedelta(minutes=minute)
        with self.history.database.write() as session:
            if experiment_id is None:
                experiment = Experiment(
                    campaign_id=self.history.campaign_id,
                    kind=kind or (ExperimentKind.BASELINE if stage is Stage.NOISE else ExperimentKind.TEST),
                    target=target,
                    control_configuration_id=self.baseline,
                    state=ExperimentState.DONE,
                    plan={},
                )
                session.add(experiment)
                session.flush()
                experiment_id = experiment.id
            for index, time_ms in enumerate(times_ms):
                at = (began + timedelta(minutes=5)).isoformat()
                environment: dict[str, object] = {"blocks": [{"before": {"time": at}}]}
                digest = hashlib.sha256(json.dumps(environment).encode()).hexdigest()
                launch = Launch(
                    experiment_id=experiment_id,
                    attempt=attempt,
                    arm=Arm.CONTROL,
                    index=index,
                    stage=stage,
                    configuration_id=self.baseline,
                    resolved={},
                    environment_digest=put_environment(session, digest, environment),
                )
                session.add(launch)
                session.flush()
                samples = [Sample(0, 0, "p", seq, "tpot_ms", "ms", time_ms) for seq in range(2)]
                insert_samples(session, launch.id, samples)
        if device is not None:
            self.job(device, began, experiment_id)
        return experiment_id

    def job(
        self, device: str, began: datetime, experiment_id: int | None = None, *, running: bool = False
    ) -> None:
        """A job of ten minutes, or one that has not ended."""
        with self.history.database.write() as session:
            job = Job(
                kind="test",
                experiment_id=experiment_id,
                spec={},
                seq=1,
                device_class=device.partition("/")[2],
                state=JobState.RUNNING if running else JobState.DONE,
                max_attempts=3,
                device=device,
                started_at=began,
                finished_at=None if running else began + timedelta(minutes=10),
            )
            session.add(job)

    def read(self) -> BaselineInTestsView | None:
        with self.history.database.read() as session:
            return baseline_in_tests(session, self.history.campaign_id)


def a_loaded_lab(history: History) -> Lab:
    """A baseline that was measured alone, and two tests at the same time on two GPUs of its host."""
    made = Lab(history)
    made.add(Stage.NOISE, 0, OWN)
    made.add(Stage.QUICK, 20, LATER[:3])
    made.add(Stage.FULL, 22, LATER[3:], "lab/cuda:1")
    return made
