"""A test that runs when the budget is spent is finished, as long as it overruns it by no more than stated."""

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import select

from agent.campaign.resources.waiting import LEAST_OVERRUN_S, MOST_OVERRUN_S, OVERRUN_SHARE, overrun_s
from db import queue
from db.claims import ClaimedJob
from db.event_kinds import EventKind
from db.models import Campaign, Experiment, Hypothesis, Job
from db.states import ExperimentState, HypothesisState, JobState
from experiments.worker.cancelling import ENDS_WITH_WHAT_IT_HAS
from tests.integration.campaign.test_waiting_loop import bench
from tests.simulated.turn_by_turn import Bench

__all__ = ["bench"]

OVER = (
    f"{ENDS_WITH_WHAT_IT_HAS}the budget of 5 min was spent 1 min before, and no test may overrun it by more."
)


@pytest.fixture
def claimed() -> list[ClaimedJob]:
    return []


@pytest.fixture
def taken(bench: Bench, claimed: list[ClaimedJob]) -> Iterator[Callable[[], None]]:
    """A worker takes the test that was dispatched."""

    def take() -> None:
        with bench.database.write() as session:
            found = queue.claim(session, "w", "here/cpu", ("cpu",), 3600.0)
            assert found is not None
            claimed.append(found)

    return take


def spent(bench: Bench, beyond_s: float) -> Callable[[], None]:
    """So many seconds more than the budget are spent."""

    def spend() -> None:
        with bench.database.write() as session:
            campaign = session.get_one(Campaign, bench.campaign_id)
            wall_s = campaign.budget["wall_s"]
            assert isinstance(wall_s, float)
            campaign.budget = {**campaign.budget, "spent_s": wall_s + beyond_s}

    return spend


def asked(bench: Bench, claimed: list[ClaimedJob], what: list[str | None]) -> Callable[[], None]:
    def look() -> None:
        with bench.database.read() as session:
            what.append(queue.cancel_reason(session, claimed[0]))

    return look


def test_a_running_test_is_asked_to_end_once_it_overruns_the_budget_by_more_than_it_may(
    bench: Bench, taken: Callable[[], None], claimed: list[ClaimedJob]
) -> None:
    told: list[str | None] = []
    look = asked(bench, claimed, told)

    def ended() -> None:
        """It obeyed, before anything was measured."""
        with bench.database.write() as session:
            experiment = session.get_one(Experiment, claimed[0].spec["experiment_id"])
            experiment.state, experiment.progress = ExperimentState.DONE, {"stop_reason": OVER}
            queue.finish(session, claimed[0], JobState.DONE)

    reason = bench.drive(
        *(taken, spent(bench, 30.0), look, spent(bench, 61.0), look, bench.nothing, look, ended),
        *[bench.nothing] * 3,
    )
    assert told == [None, OVER, OVER]
    assert len(bench.told(EventKind.EXPERIMENT_CUT_SHORT)) == 1
    assert reason == "the budget of 5 min is spent"
    with bench.database.read() as session:
        assert session.get_one(Job, claimed[0].id).state is JobState.DONE
        inconclusive = select(Hypothesis).where(Hypothesis.state == HypothesisState.INCONCLUSIVE)
        (tested,) = session.scalars(inconclusive)
    assert str(tested.state_reason).endswith(OVER)


def test_a_budget_may_be_overrun_by_its_share_but_by_a_minute_at_least_and_by_ten_at_most() -> None:
    assert overrun_s(480.0) == LEAST_OVERRUN_S == 60.0
    assert overrun_s(3600.0) == OVERRUN_SHARE * 3600.0 == 360.0
    assert overrun_s(8 * 3600.0) == MOST_OVERRUN_S == 600.0
