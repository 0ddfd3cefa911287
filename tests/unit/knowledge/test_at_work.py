"""What a machine that went off leaves as if it ran is told as interrupted, on every view."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from sqlalchemy import select

from db import campaign_lease, queue, remote_runs
from db.models import Campaign, RemoteRun
from db.session import Database
from db.states import CampaignState, ExperimentState, HypothesisState, RemoteRunState
from experiments.worker.reaping import reap
from knowledge.queries.at_work import INTERRUPTED
from knowledge.queries.campaigns import campaign_detail
from knowledge.queries.devices import on_devices
from knowledge.queries.facts import campaign_facts
from knowledge.queries.measured.experiment_detail import experiment_detail
from knowledge.queries.measured.experiments import count_experiments, list_experiments
from knowledge.queries.order.queue import queue_page
from knowledge.queries.present.now import NowView, Standing, now_view
from knowledge.telling.summary import SummaryView, summarize
from tests.history.campaign_history import History

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)

WORKER, DEVICE = "desk/cuda:1#7", "desk/cuda:1"

ALIVE_S, GONE_S = 60.0, -60.0
"""What is left of a lease."""


def under_test(history: History, lease_s: float) -> int:
    """A test that began and whose worker has so many seconds left of its lease; the experiment."""
    experiment_id = history.start_testing(history.propose({"serving.threads": 1}))
    with history.database.write() as session:
        job_id = queue.enqueue(
            session, "test", {}, campaign_id=history.campaign_id, experiment_id=experiment_id
        )
        assert queue.claim_one(session, job_id, WORKER, DEVICE, lease_s) is not None
    return experiment_id


def now_of(database: Database) -> NowView:
    with database.read() as session:
        return now_view(session, None, None, LONG_AGO)


def summary_of(history: History) -> SummaryView:
    with history.database.read() as session:
        return summarize(campaign_facts(session, history.campaign_id))


def test_a_test_whose_worker_is_heard_of_is_under_test_though_nothing_drives_the_campaign(
    history: History,
) -> None:
    experiment_id = under_test(history, ALIVE_S)
    found = now_of(history.database)
    assert found.campaign is not None
    assert found.campaign.standing is Standing.BASELINE, "no best is known yet"
    assert [run.interrupted for run in found.runs] == [None]
    summary = summary_of(history)
    assert summary.headline.endswith("it is running.")
    assert summary.go_on is None
    assert summary.validating.sentence.startswith("1 hypothesis is under test;")
    with history.database.read() as session:
        assert list(on_devices(session)) == [DEVICE]
        counts = count_experiments(session, history.campaign_id)
        assert (counts.interrupted, counts.measured_now) == (0, 1)
        assert experiment_detail(session, experiment_id).standing == "running"


def test_a_test_whose_worker_was_not_heard_of_within_its_lease_is_interrupted_everywhere(
    history: History,
) -> None:
    experiment_id = under_test(history, GONE_S)
    found = now_of(history.database)
    assert found.campaign is not None
    assert found.campaign.standing is Standing.INTERRUPTED
    (run,) = found.runs
    assert run.interrupted is not None
    assert run.interrupted.since is not None
    assert run.left_s is None
    summary = summary_of(history)
    assert summary.headline.endswith("it was interrupted, and nothing drives it.")
    assert summary.go_on == "Go on with: autoinfer run --resume C-1"
    assert summary.validating.sentence.startswith("1 test was interrupted;")
    with history.database.read() as session:
        assert on_devices(session) == {}
        assert experiment_detail(session, experiment_id).standing == INTERRUPTED
        counts = count_experiments(session)
        assert (counts.interrupted, counts.measured_now) == (1, 0)
        (row,) = list_experiments(session, limit=10).items
        assert (row.state, row.standing) == (ExperimentState.RUNNING, INTERRUPTED)
        (place,) = queue_page(session, history.campaign_id, limit=10).items
        assert (place.state, place.interrupted) == (HypothesisState.TESTING, row.interrupted)
        assert campaign_detail(session, history.campaign_id).standing == INTERRUPTED


def test_while_a_loop_drives_the_campaign_the_test_alone_is_interrupted_until_it_is_begun_again(
    history: History,
) -> None:
    experiment_id = under_test(history, GONE_S)
    with history.database.write() as session:
        assert campaign_lease.take(session, history.campaign_id, "elsewhere", ALIVE_S)
    found = now_of(history.database)
    assert found.campaign is not None
    assert found.campaign.standing is not Standing.INTERRUPTED
    summary = summary_of(history)
    assert summary.headline.endswith("it is running.")
    assert summary.go_on is None
    assert summary.validating.sentence.startswith("1 test was interrupted;")
    with history.database.write() as session:
        (taken_back,) = reap(session)
    (run,) = now_of(history.database).runs
    assert run.interrupted is not None
    assert run.interrupted.since is None, "its job waits for a worker"
    with history.database.write() as session:
        assert queue.claim_one(session, taken_back.job_id, WORKER, DEVICE, ALIVE_S) is not None
    with history.database.read() as session:
        assert experiment_detail(session, experiment_id).standing == "running"


def test_what_was_sent_to_a_rented_machine_goes_on_there_without_its_worker(history: History) -> None:
    experiment_id = history.start_testing(history.propose({"serving.threads": 1}))
    with history.database.write() as session:
        job_id = queue.enqueue(
            session, "test", {}, campaign_id=history.campaign_id, experiment_id=experiment_id
        )
        claimed = queue.claim_one(session, job_id, WORKER, "modal:H100", GONE_S)
        assert claimed is not None
        remote_runs.intend(
            session,
            claimed,
            executor="modal",
            target="modal:H100",
            key="key",
            expected_s=60.0,
            expected=1,
            bound=2,
            basis="a price",
        )
    with history.database.read() as session:
        assert experiment_detail(session, experiment_id).standing == "running"
        assert not campaign_detail(session, history.campaign_id).interrupted
    with history.database.write() as session:
        session.scalars(select(RemoteRun)).one().state = RemoteRunState.ENDED
    with history.database.read() as session:
        assert experiment_detail(session, experiment_id).standing == INTERRUPTED


def test_one_that_lives_beside_one_that_does_not_keeps_the_campaign_going(history: History) -> None:
    under_test(history, GONE_S)
    second = history.start_testing(history.propose({"serving.compile": "default"}))
    with history.database.write() as session:
        job_id = queue.enqueue(session, "test", {}, campaign_id=history.campaign_id, experiment_id=second)
        assert queue.claim_one(session, job_id, "desk/cuda:2#8", "desk/cuda:2", ALIVE_S) is not None
    summary = summary_of(history)
    assert summary.headline.endswith("it is running.")
    assert summary.validating.sentence.startswith("1 hypothesis is under test, 1 test was interrupted;")


@pytest.mark.parametrize("state", [CampaignState.PAUSED, CampaignState.STOPPED])
def test_what_is_not_to_go_on_by_itself_is_not_interrupted(history: History, state: CampaignState) -> None:
    under_test(history, GONE_S)
    with history.database.write() as session:
        session.get_one(Campaign, history.campaign_id).state = state
    with history.database.read() as session:
        assert campaign_detail(session, history.campaign_id).standing == state.value


def test_more_budget_is_asked_for_where_none_is_left(history: History) -> None:
    under_test(history, GONE_S)
    with history.database.write() as session:
        campaign = session.get_one(Campaign, history.campaign_id)
        campaign.budget = {**campaign.budget, "spent_s": campaign.budget["wall_s"]}
    assert summary_of(history).go_on == "Go on with: autoinfer run --resume C-1 --budget 30m"
