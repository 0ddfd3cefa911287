"""The loop with real processes, a real database and the simulated engine: propose, run, judge, learn."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from agent.campaign.known.reading_facts import read_facts
from agent.campaign.learning.learn import unlearnt
from agent.campaign.learning.outcome import campaign_outcome
from db import events
from db.event_kinds import EventKind
from db.models import Event, Experiment, Finding, Hypothesis, Job, Launch, Move, Verdict
from db.session import Database, open_database
from db.states import ExperimentKind, HypothesisState, JobState
from experiments.kill_points import KILL_VARIABLE, KillPoint
from knowledge.acts import lever_steering, steering
from tests.integration.worker.processes import processes_of
from tests.simulated.campaign import drive, start
from tests.simulated.places import simulated_executor
from tests.simulated.queueing import database_url

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("campaign")


@pytest.fixture(scope="module")
def finished(folder: Path) -> Iterator[tuple[Database, str]]:
    database, campaign_id = start(folder)
    reason = drive(database, folder, campaign_id)
    yield database, reason
    database.close()


def test_it_finds_the_fast_configuration_and_rules_out_the_rest(finished: tuple[Database, str]) -> None:
    database, reason = finished
    with database.read() as session:
        outcome = campaign_outcome(session, 1)
        states = set(session.scalars(select(Hypothesis.state)))
    assert outcome["stopped_because"] == reason
    assert outcome["best"]["configuration"]["simulated.tpot_ms"] == 7.0
    low, high = outcome["best"]["speedup_interval"]
    assert low < 10 / 7 < high or abs(outcome["best"]["speedup"] - 10 / 7) < 0.02
    assert outcome["hypotheses"]["supported"] >= 1
    assert HypothesisState.REFUTED in states or HypothesisState.INFEASIBLE in states
    assert HypothesisState.TESTING not in states


def test_every_verdict_was_preregistered_and_leads_to_its_samples(finished: tuple[Database, str]) -> None:
    database, _ = finished
    with database.read() as session:
        for verdict in session.scalars(select(Verdict)):
            experiment = session.get_one(Experiment, verdict.experiment_id)
            hypothesis = session.get_one(Hypothesis, verdict.hypothesis_id)
            assert verdict.preregistration_digest == experiment.preregistration_digest
            assert hypothesis.preregistration_digest == experiment.preregistration_digest
            if verdict.effect_log is not None:
                launches = session.scalar(
                    select(func.count()).select_from(Launch).where(Launch.experiment_id == experiment.id)
                )
                assert launches is not None
                assert launches >= 2


def test_every_move_names_its_cause(finished: tuple[Database, str]) -> None:
    database, _ = finished
    with database.read() as session:
        found = session.scalars(select(Move)).all()
        assert found
        for move in found:
            assert move.reason
            assert session.get(Event, move.event_id) is not None
            ranking = session.get_one(Event, move.ranking_event_id)
            assert ranking.kind == EventKind.QUEUE_RANKED.value
            assert move.event_id < move.ranking_event_id


def test_a_ranking_tells_its_first_moves_each_once_and_not_its_own_cause_again(
    finished: tuple[Database, str],
) -> None:
    database, _ = finished
    with database.read() as session:
        rankings = events.read(session, kinds=[EventKind.QUEUE_RANKED])
    told = [(ranking, line) for ranking in rankings for line in (ranking.data or {})["told"]]
    assert any(" entered the queue as " in line for _, line in told)
    for ranking, line in told:
        assert "enters at" not in line
        assert not line.endswith(f"(event {(ranking.data or {})['cause_event_id']})")


def test_a_ranking_says_how_many_entered_and_left_and_moved(finished: tuple[Database, str]) -> None:
    database, _ = finished
    with database.read() as session:
        rankings = events.read(session, kinds=[EventKind.QUEUE_RANKED])
        moved = Counter(
            (each.ranking_event_id, _way(each))
            for each in session.scalars(select(Move))
            if each.ranking_event_id
        )
    assert rankings
    for ranking in rankings:
        counts = [(moved[ranking.id, way], way) for way in ("entered", "left", "moved")]
        told = [f"{count} {way}" for count, way in counts if count]
        assert ranking.text.rpartition("; ")[2].replace(" and ", ", ") == ", ".join(told)


def _way(move: Move) -> str:
    if move.from_rank is None:
        return "entered"
    return "left" if move.to_rank is None else "moved"


def test_findings_hold_what_was_learnt_within_their_scope(finished: tuple[Database, str]) -> None:
    database, _ = finished
    with database.read() as session:
        findings = session.scalars(select(Finding)).all()
    assert findings
    assert all(finding.scope["target"].startswith("cpu:") for finding in findings)


def test_nothing_of_it_runs_afterwards(folder: Path, finished: tuple[Database, str]) -> None:
    assert list((folder / "jobs").iterdir())
    assert simulated_executor(folder).reconcile() == []
    assert processes_of(folder) == []


def test_a_later_campaign_begins_with_what_this_one_measured_and_this_one_with_nothing(
    folder: Path, finished: tuple[Database, str]
) -> None:
    database, _ = finished
    others = [start(folder, database)[1], start(folder, database, **{"plan.workload.prompt_tokens": 64})[1]]
    with database.read() as session:
        before, same, longer = (read_facts(session, campaign_id) for campaign_id in (1, *others))
    assert before.carried == ()
    assert len(same.carried) >= len([each for each in before.trials if each.effect_log is not None])
    assert {each.trial.candidate for each in same.carried} <= {each.candidate for each in before.trials}
    assert all(each.tpot_ms == pytest.approx(10, rel=0.2) for each in same.carried)
    assert {(each.scope, each.same_model, each.same_workload) for each in same.carried} == {
        ("C-1", True, True)
    }
    assert {(each.scope, each.same_model, each.same_workload) for each in longer.carried} == {
        ("C-1", True, False)
    }


@pytest.mark.bench_only
def test_a_banned_lever_is_not_tested(tmp_path: Path) -> None:
    database, campaign_id = start(tmp_path)
    with database.write() as session:
        lever_steering.give_directive(
            session, campaign_id, steering.DirectiveKind.BAN, "kernel", ("kernel", "weights", "luck")
        )
    drive(database, tmp_path, campaign_id)
    with database.read() as session:
        tested = session.scalars(
            select(Hypothesis.lever)
            .join(Experiment, Experiment.hypothesis_id == Hypothesis.id)
            .where(Experiment.kind == ExperimentKind.TEST)
        ).all()
    assert not any("kernel" in lever for lever in tested)


def test_a_user_stops_a_campaign_in_good_order(tmp_path: Path) -> None:
    database, campaign_id = start(tmp_path)

    def stop_after_the_baseline() -> None:
        with database.read() as session:
            baseline = events.read(session, kinds=[EventKind.CAMPAIGN_BASELINE])
            asked = events.read(session, kinds=[EventKind.EXPERIMENT_JUDGED, EventKind.CAMPAIGN_STOPPED])
        if baseline and not asked:
            with database.write() as session:
                campaign = session.get_one(steering.Campaign, campaign_id)
                if campaign.state == steering.CampaignState.RUNNING:
                    steering.stop_campaign(session, campaign_id)

    assert drive(database, tmp_path, campaign_id, stop_after_the_baseline) == "stopped by the user"


def test_a_test_that_ends_while_the_loop_looks_is_learnt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, campaign_id = start(tmp_path, space_text=SMALLEST_SPACE, **{"baseline.sweep": []})

    def unlearnt_until_the_job_ended(session: Session, campaign: int) -> list[int]:
        """What there was to learn before whatever runs now ended: the loop looks at the worst moment."""
        found = unlearnt(session, campaign)
        alive = (
            select(func.count()).select_from(Job).where(Job.state.in_((JobState.QUEUED, JobState.RUNNING)))
        )
        while not found and find_baseline(database) and database_says(database, alive):
            time.sleep(0.1)
        return found

    monkeypatch.setattr("agent.campaign.glance.unlearnt", unlearnt_until_the_job_ended)
    drive(database, tmp_path, campaign_id)
    with database.read() as session:
        assert session.scalars(select(Verdict)).all()
    assert_whole(tmp_path)


def find_baseline(database: Database) -> bool:
    with database.read() as session:
        return bool(events.read(session, kinds=[EventKind.CAMPAIGN_BASELINE]))


def database_says(database: Database, count: Select[tuple[int]]) -> bool:
    with database.read() as session:
        return bool(session.scalar(count))


SMALL_SPACE = """
name: small
knobs:
  - {name: simulated.tpot_ms, lever: kernel, values: [10.0, 7.0], default: 10.0, help: The answer.}
  - {name: simulated.bits, lever: weights, values: [1000.0, 1100.0], default: 1000.0, help: The quality.}
"""
"""A campaign of four tests or so, for what is killed and driven again."""

SMALLEST_SPACE = """
name: smallest
knobs:
  - {name: simulated.tpot_ms, lever: kernel, values: [10.0, 7.0], default: 10.0, help: The answer.}
"""
"""A campaign of a baseline and two tests: one for a loop that is killed at its first, one for the next."""


def start_small(folder: Path) -> tuple[Database, int]:
    return start(folder, space_text=SMALL_SPACE, **{"baseline.sweep": ["simulated.bits"]})


@pytest.mark.parametrize(
    "point",
    [
        KillPoint.AFTER_DISPATCH,
        # in the suite one is killed while it learns in test_several_devices_killed.py, with two in flight
        pytest.param(KillPoint.BETWEEN_VERDICT_AND_STATE, marks=pytest.mark.bench_only),
        pytest.param(KillPoint.BEFORE_LEARNT, marks=pytest.mark.bench_only),
    ],
)
def test_a_loop_killed_at_a_named_point_is_continued_without_loss(tmp_path: Path, point: KillPoint) -> None:
    database, campaign_id = start(tmp_path, space_text=SMALLEST_SPACE, **{"baseline.sweep": []})
    argv = [sys.executable, "-P", "-m", "tests.simulated.campaign", str(tmp_path)]
    loop = subprocess.run(argv, env={**os.environ, KILL_VARIABLE: point.value}, timeout=120, check=False)
    assert loop.returncode == -signal.SIGKILL
    drive(database, tmp_path, campaign_id)
    assert_whole(tmp_path)


EVENTS_BEFORE_A_KILL = ((1, 26), (6, 16), (6, 16))
"""Bounds of how many events each loop sees: the first test is dispatched with the 25th or so, each test has
ten, a loop that takes over tells five before it gets further, and the whole campaign has more than fifty."""


@pytest.mark.bench_only
@pytest.mark.parametrize("seed", [5, 6, 7])
def test_a_loop_killed_at_random_is_continued_without_loss(tmp_path: Path, seed: int) -> None:
    database, campaign_id = start_small(tmp_path)
    argv = [sys.executable, "-P", "-m", "tests.simulated.campaign", str(tmp_path)]
    chance = random.Random(seed)
    for bounds in EVENTS_BEFORE_A_KILL:
        goal = events_told(database) + chance.randrange(*bounds)
        loop = subprocess.Popen(argv)
        while events_told(database) < goal and loop.poll() is None:
            time.sleep(0.02)
        loop.kill()
        assert loop.wait() == -signal.SIGKILL, "it ended by itself: nothing was tested"
    drive(database, tmp_path, campaign_id)
    assert_whole(tmp_path)


def events_told(database: Database) -> int:
    with database.read() as session:
        return events.last_id(session)


def assert_whole(folder: Path) -> None:
    """Every test has at most one verdict, every settled hypothesis one, and nothing is left in the air."""
    database = open_database(database_url(folder))
    with database.read() as session:
        judged = session.scalars(select(Verdict.experiment_id)).all()
        assert len(judged) == len(set(judged))
        for hypothesis in session.scalars(select(Hypothesis)):
            count = session.scalar(
                select(func.count()).select_from(Verdict).where(Verdict.hypothesis_id == hypothesis.id)
            )
            settled = hypothesis.state not in (HypothesisState.QUEUED, HypothesisState.WITHDRAWN)
            assert count == (1 if settled else 0), (hypothesis.id, hypothesis.state)
        attempts = session.execute(
            select(Launch.experiment_id, func.count(Launch.attempt.distinct())).group_by(Launch.experiment_id)
        )
        assert all(count == 1 for _, count in attempts), "results of two attempts were recorded"
    database.close()
