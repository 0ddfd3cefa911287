"""A campaign that screens on the processor and confirms on another device, here, with real processes
of the simulated engine. The second device is a name that nobody has."""

from pathlib import Path
from unittest.mock import patch

import pytest
from sqlalchemy import select

from agent.campaign.learning.outcome import campaign_outcome
from agent.campaign.loop import CampaignLoop, LoopTimes
from agent.campaign.resources.worker_process import Workers
from db.models import Experiment, Hypothesis, Job, Move
from db.states import ExperimentKind, HypothesisState
from tests.simulated.campaign import LEASE_S, made_up_target, registered_here, start, worker_process

pytestmark = pytest.mark.timeout(600)

THERE = "cuda:3"


@pytest.mark.bench_only  # in the suite another target takes its first of one queue in cli/test_confirm_on.py
def test_both_devices_take_their_first_of_one_queue(tmp_path: Path) -> None:
    with (
        registered_here(tmp_path),
        patch("agent.campaign.rerun.elsewhere.find_target", made_up_target),
    ):
        database, campaign_id = start(tmp_path, confirm_on=[THERE])
        workers = Workers({device: worker_process(tmp_path, device) for device in ("cpu", THERE)})
        times = LoopTimes(lease_s=LEASE_S, busy_poll_s=0.5, idle_poll_s=0.02)
        try:
            CampaignLoop(database, campaign_id, workers=workers, times=times).run()
        finally:
            workers.stop()
    with database.read() as session:
        (row,) = session.scalars(select(Hypothesis).where(Hypothesis.target == THERE)).all()
        devices = {
            experiment.id: job.device_class
            for experiment, job in session.execute(
                select(Experiment, Job).join(Job, Job.experiment_id == Experiment.id)
            )
        }
        (fresh,) = session.scalars(select(Experiment).where(Experiment.kind == ExperimentKind.PROMOTE))
        moves = session.scalars(select(Move.reason).where(Move.hypothesis_id == row.id)).all()
        outcome = campaign_outcome(session, campaign_id)
    database.close()
    assert row.state is HypothesisState.SUPPORTED
    assert {devices.pop(fresh.id)} == {THERE}
    assert set(devices.values()) == {"cpu"}
    score = row.score or {}
    assert (score["usd"], score["wait_s"], score["build_s"]) == (None, 0.0, 0.0)
    assert f"confirms it on {THERE}, as fast as here" in score["reason"]
    assert any("entered the queue" in each for each in moves)
    assert outcome["confirmed"] == {THERE: {"supported": 1}}
    assert "usd" not in outcome["spent"]
