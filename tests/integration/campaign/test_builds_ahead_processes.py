"""Builds beside a baseline with real processes on devices that nobody has: found by tests, and killed."""

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import select

from agent.campaign.loop import CampaignLoop
from db import events
from db.event_kinds import EventKind
from db.models import Artifact, Campaign, Hypothesis, Job, StageRun
from db.session import Database
from db.states import CampaignState, HypothesisState, JobState
from experiments.kill_points import KILL_VARIABLE, ONCE_VARIABLE, KillPoint
from experiments.measurement.evidence import Stage
from knowledge.acts import steering
from tests.integration.campaign.test_builds_ahead import QUESTIONS, SPACE
from tests.integration.campaign.test_loop import assert_whole
from tests.integration.worker.processes import processes_of
from tests.simulated.campaign import drive, start

pytestmark = pytest.mark.timeout(600)


LONG_S = 3.0
"""Seconds of a load in which three builds are done, on two cores with other tests at work too."""


LEASE_S = 4.0
"""Seconds of a lease, that three workers at once on two cores renew in time; one that runs out three times is
a failed job."""


def on_a_shape(folder: Path, load_s: float = 1.0) -> tuple[Database, int]:
    """A campaign on made-up weights, whose checkpoints are built in no time, and whose launches take some."""
    loads = (
        f"{{name: simulated.load_s, lever: loads, values: [{load_s}], default: {load_s}, help: How long.}}"
    )
    space = SPACE.replace("knobs:", f"knobs:\n  - {loads}")
    return start(
        folder,
        space_text=space,
        target="cuda:0,cuda:1,cuda:2",
        questions=QUESTIONS,
        weights="dummy",
        **{"baseline.sweep": [], "least_verdicts": 0},
    )


class _Left(Exception):
    """The loop is left here."""


def stop_after_questions(database: Database, campaign_id: int) -> Callable[[], None]:
    def stop() -> None:
        with database.read() as session:
            asked = session.scalars(select(Hypothesis.state).where(Hypothesis.question.is_not(None))).all()
        still = (HypothesisState.QUEUED, HypothesisState.TESTING)
        if asked and not any(each in still for each in asked):
            with database.write() as session:
                if session.get_one(Campaign, campaign_id).state is CampaignState.RUNNING:
                    steering.stop_campaign(session, campaign_id)

    return stop


def built_once(database: Database) -> None:
    """Three checkpoints, each built by one job, and what the tests loaded was there."""
    with database.read() as session:
        artifacts = session.scalars(select(Artifact).where(Artifact.kind == "checkpoint")).all()
        builds = session.scalars(select(StageRun.outcome).where(StageRun.stage == Stage.QUANTIZE.value)).all()
        jobs = session.scalars(select(Job).where(Job.kind == "build")).all()
    assert len(artifacts) == 3
    assert {each.state for each in jobs} == {JobState.DONE}
    assert len(jobs) == 3
    assert builds
    assert {each.value for each in builds if each is not None} == {"reused"}


@pytest.mark.slow
def test_a_test_finds_the_checkpoint_that_another_device_built(tmp_path: Path) -> None:
    database, campaign_id = on_a_shape(tmp_path, LONG_S)
    drive(
        database,
        tmp_path,
        campaign_id,
        stop_after_questions(database, campaign_id),
        builds_ahead=True,
        lease_s=LEASE_S,
    )
    built_once(database)
    assert processes_of(tmp_path) == []
    with database.read() as session:
        (told,) = events.read(session, kinds=[EventKind.CAMPAIGN_BUILT_AHEAD])
    assert told.text.startswith("While the baseline was measured, 3 checkpoints that tests need were built")


@pytest.mark.slow
@pytest.mark.parametrize("point", [KillPoint.WHILE_BUILDING, KillPoint.BEFORE_RESULT])
def test_what_is_killed_while_it_builds_is_built_again(
    tmp_path: Path, point: KillPoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, campaign_id = on_a_shape(tmp_path)
    monkeypatch.setenv(KILL_VARIABLE, point.value)
    monkeypatch.setenv(ONCE_VARIABLE, str(tmp_path / "once"))
    drive(
        database,
        tmp_path,
        campaign_id,
        stop_after_questions(database, campaign_id),
        builds_ahead=True,
        lease_s=LEASE_S,
    )
    assert (tmp_path / "once").exists()
    assert_whole(tmp_path)
    assert processes_of(tmp_path) == []
    with database.read() as session:
        states = session.scalars(select(Job.state).where(Job.kind == "build")).all()
        artifacts = session.scalars(select(Artifact).where(Artifact.kind == "checkpoint")).all()
        told = [each.text for each in events.read(session)]
    assert len(artifacts) == 3
    assert set(states) <= {JobState.DONE, JobState.CANCELLED}, told


@pytest.mark.slow
def test_a_loop_killed_after_it_began_builds_is_continued_without_loss(tmp_path: Path) -> None:
    database, campaign_id = on_a_shape(tmp_path, LONG_S)

    def leave(seconds: float) -> None:
        with database.read() as session:
            if session.scalar(select(Job.id).where(Job.kind == "build").limit(1)) is not None:
                raise _Left

    with pytest.raises(_Left):
        CampaignLoop(database, campaign_id, builds_ahead=True, wait=leave).run()
    drive(
        database,
        tmp_path,
        campaign_id,
        stop_after_questions(database, campaign_id),
        builds_ahead=True,
        lease_s=LEASE_S,
    )
    built_once(database)
    assert_whole(tmp_path)
