"""A campaign with a device that others use, turn by turn: what the driver says of it is invented."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from agent.campaign.device_rests import Look
from db import queue
from db.models import Campaign, Hypothesis
from db.session import Database
from db.states import HypothesisState
from experiments.engines.port import DEVICE_BUSY, DEVICE_LOST
from experiments.job.result import Failure, JobResult
from experiments.job.spec import parse_job
from experiments.worker.claiming import Taken
from experiments.worker.reporting import Reporter
from experiments.worker.settings import WorkerTimes
from knowledge.acts import approving, steering
from knowledge.acts.approvals import awaits_approval
from knowledge.queries.present.now import NowView, now_view
from tests.simulated.by_hand import LEASE_S, measure_baseline, run_by_hand
from tests.simulated.campaign import start
from tests.simulated.turn_by_turn import Bench, alike

NOTEBOOK = "process 7 (python3) holds 9.0 GB"

BUSY = Failure(DEVICE_BUSY, f"It is used by something else: {NOTEBOOK}; nothing is measured beside it.")

LOST = Failure(DEVICE_LOST, "It is lost (the driver says: GPU is lost); reset it.")

TAKEN, FREE = Look(others=NOTEBOOK), Look()


@dataclass
class SharedBench(Bench):
    """A campaign whose driver says of each device what `found` has; `asked` are the devices it was asked for,
    with the second at which."""

    found: dict[str, Look] = field(default_factory=dict)
    asked: list[tuple[str, float]] = field(default_factory=list)
    extra_s: float = 0.0

    def given(self) -> dict[str, Any]:
        return {"who": self.who}

    def turns_to_stop(self) -> int:
        return 3

    def clock(self) -> float:
        return super().clock() + self.extra_s

    def who(self, device: str, key: str | None) -> Look:
        self.asked.append((device, self.clock()))
        return self.found.get(device, FREE)

    def passes(self, seconds: float) -> Callable[[], None]:
        def go_on() -> None:
            self.extra_s += seconds

        return go_on

    def says(self, look: Look, device: str = "cuda:0") -> Callable[[], None]:
        def set_() -> None:
            self.found[device] = look

        return set_

    def end(self, device: str = "cuda:0", failure: Failure | None = None) -> Callable[[], None]:
        def finish() -> None:
            (job,) = [each for each in self.jobs() if each.device_class == device]
            run_by_hand(
                self.database,
                job.experiment_id or 0,
                alike if failure is None else lambda _: [],
                failure,
            )

        return finish

    def spend(self) -> None:
        """Nothing is left of the budget."""
        with self.database.write() as session:
            campaign = session.get_one(Campaign, self.campaign_id)
            campaign.budget = {**campaign.budget, "spent_s": campaign.budget["wall_s"]}

    def withdraw_all(self) -> None:
        with self.database.write() as session:
            queued = select(Hypothesis.id).where(Hypothesis.state == HypothesisState.QUEUED)
            for number in session.scalars(queued).all():
                steering.withdraw(session, number, "not worth its price")

    def spent_s(self) -> float:
        with self.database.read() as session:
            return float(session.get_one(Campaign, self.campaign_id).budget.get("spent_s", 0.0))

    def shown(self) -> NowView:
        with self.database.read() as session:
            return now_view(session, None, None, session.get_one(Campaign, self.campaign_id).created_at)


def approve_first(bench: SharedBench) -> None:
    with bench.database.write() as session:
        queued = select(Hypothesis).where(Hypothesis.state == HypothesisState.QUEUED)
        rows = session.scalars(queued.order_by(Hypothesis.rank)).all()
        approving.approve(session, next(each.id for each in rows if awaits_approval(each)))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[SharedBench]:
    database, campaign_id = start(tmp_path, target="cuda:0")
    measure_baseline(database, campaign_id)
    yield SharedBench(database, campaign_id)
    database.close()


@pytest.fixture
def two(tmp_path: Path) -> Iterator[SharedBench]:
    database, campaign_id = start(tmp_path, target="cuda:0,cuda:1")
    measure_baseline(database, campaign_id)
    yield SharedBench(database, campaign_id)
    database.close()


def end_baseline(database: Database, failure: Failure) -> None:
    with database.write() as session:
        claimed = queue.claim(session, "someone", "here/cuda:0", ("cuda:0",), LEASE_S)
    assert claimed is not None
    taken = Taken(claimed, f"job{claimed.id}")
    reporter = Reporter(database, taken, WorkerTimes(lease_s=LEASE_S), 0)
    reporter.record(parse_job(claimed.spec), JobResult(launches=(), failure=failure))
