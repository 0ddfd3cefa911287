"""Two campaigns, driven by two loops, over the workers of two hosts, on one PostgreSQL that is restarted."""

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import func, select

from agent.campaign.learning.outcome import campaign_outcome
from agent.campaign.loop import CampaignLoop, LoopTimes
from configs.errors import LeaseLost
from db.models import Event, Experiment, Job, Launch, Verdict, Worker
from db.session import Database, open_database
from db.states import JobState, WorkerState
from tests.integration.worker.processes import Workers, processes_of
from tests.postgresql import Server
from tests.simulated.campaign import start
from tests.waiting import PATIENCE_S, wait_for

SPACE = """
name: simulated
knobs:
  - {name: simulated.tpot_ms, lever: kernel, values: [10.0, 7.0], default: 10.0, help: The answer.}
  - {name: simulated.threads, lever: threads, values: [1, 2], default: 1, help: Changes nothing.}
"""
TIMES = LoopTimes(lease_s=20.0, busy_poll_s=0.2, idle_poll_s=0.05)
LIMIT_S = 150.0


@pytest.fixture
def hosts(tmp_path: Path, url: str) -> Iterator[list[Workers]]:
    made = []
    for name in ("desk", "attic"):
        (tmp_path / name).mkdir()
        made.append(Workers(tmp_path / name, url))
    yield made
    for each in made:
        each.end()
        wait_for(lambda each=each: not processes_of(each.folder))


def test_campaigns_share_hosts_and_keep_apart_and_go_on_after_a_restart(
    server: Server, url: str, database: Database, hosts: list[Workers], tmp_path: Path
) -> None:
    ids = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        ids.append(start(tmp_path / name, database, space_text=SPACE, budget="90s")[1])
    hosts[0].start("cpu", lease_s=20)
    hosts[1].start("cpu:1", lease_s=20)
    wait_for(lambda: idle(database) == len(hosts))
    opened = [open_database(url) for _ in ids]
    loops = [CampaignLoop(each, number, times=TIMES) for each, number in zip(opened, ids, strict=True)]
    with ThreadPoolExecutor() as pool:
        driven = [pool.submit(loop.run) for loop in loops]
        wait_for(lambda: finished_jobs(database) >= 2, PATIENCE_S)
        with pytest.raises(LeaseLost, match="Another process drives C-1"):
            CampaignLoop(database, ids[0], times=TIMES).run()
        server.stop(signal.SIGQUIT)
        server.start()
        reasons = [each.result(timeout=LIMIT_S) for each in driven]
    assert all(reasons)
    with database.read() as session:
        for number in ids:
            outcome = campaign_outcome(session, number)
            assert outcome["best"]["configuration"]["simulated.tpot_ms"] == 7.0, reasons
            assert outcome["hypotheses"]["supported"] >= 1
        mixed = select(func.count()).where(
            Job.experiment_id == Experiment.id, Job.campaign_id != Experiment.campaign_id
        )
        assert session.execute(mixed).scalar_one() == 0
        assert set(session.scalars(select(Job.state))) == {JobState.DONE}
        attempts = select(func.count(Launch.attempt.distinct())).group_by(Launch.experiment_id)
        assert set(session.scalars(attempts)) == {1}
        by_host = {owner.rpartition("#")[0] for owner in session.scalars(select(Job.owner).distinct())}
        assert len(by_host) == 2, "both hosts took jobs"
        experiments = session.scalars(select(Verdict.experiment_id)).all()
        assert len(experiments) == len(set(experiments))
        assert session.execute(select(func.count()).select_from(Worker)).scalar_one() == 2
        numbers = session.scalars(select(Event.id).order_by(Event.id)).all()
        assert numbers == sorted(set(numbers))
    for each in opened:
        each.close()


def idle(database: Database) -> int:
    with database.read() as session:
        waiting = select(func.count()).where(Worker.state == WorkerState.IDLE)
        return session.execute(waiting).scalar_one()


def finished_jobs(database: Database) -> int:
    with database.read() as session:
        return session.execute(select(func.count()).where(Job.state == JobState.DONE)).scalar_one()
