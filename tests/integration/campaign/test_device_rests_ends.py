"""A campaign ends, asks for approval and keeps to its budget while its device rests as at any other time."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from agent.campaign.device_rests import LOOK_EVERY_S
from db.event_kinds import EventKind
from db.models import Campaign, Hypothesis
from db.states import CampaignState, HypothesisState
from knowledge.acts import steering
from knowledge.acts.approvals import awaits_approval
from tests.integration.campaign.shared_bench import (
    BUSY,
    FREE,
    TAKEN,
    SharedBench,
    approve_first,
    bench,
    end_baseline,
)
from tests.simulated.by_hand import measure_baseline
from tests.simulated.campaign import start

__all__ = ["bench"]


def test_a_campaign_with_nothing_left_to_test_ends_while_its_device_rests(bench: SharedBench) -> None:
    bench.found["cuda:0"] = TAKEN
    reason = bench.drive(
        bench.end(failure=BUSY), bench.nothing, bench.nothing_runs, *[bench.withdraw_all] * 4
    )
    assert reason == "nothing is left in the queue"
    assert not bench.told(EventKind.CAMPAIGN_DEVICE_BACK)


@pytest.fixture
def asking(tmp_path: Path) -> Iterator[SharedBench]:
    """A campaign that asks before each test, whose first was approved and found others."""
    database, campaign_id = start(tmp_path, target="cuda:0", approve_above="2s")
    measure_baseline(database, campaign_id)
    bench = SharedBench(database, campaign_id, found={"cuda:0": TAKEN})
    bench.drive(bench.nothing, lambda: approve_first(bench), bench.one_runs, bench.end(failure=BUSY))
    assert bench.told(EventKind.CAMPAIGN_DEVICE_RESTS)
    with database.write() as session:
        for row in session.scalars(select(Hypothesis).where(Hypothesis.state == HypothesisState.QUEUED)):
            if not awaits_approval(row):
                steering.withdraw(session, row.id, "it has waited for long enough")
    bench.waited.clear()
    yield bench
    database.close()


def test_what_waits_for_approval_is_asked_for_while_the_device_rests(asking: SharedBench) -> None:
    before = len(asking.told(EventKind.CAMPAIGN_WAITS))
    asking.drive(
        *[asking.nothing_runs] * 3,
        lambda: approve_first(asking),
        asking.nothing_runs,
        asking.says(FREE),
        asking.passes(LOOK_EVERY_S),
        asking.nothing,
        asking.one_runs,
    )
    assert len(asking.told(EventKind.CAMPAIGN_WAITS)) == before + 1


def test_unattended_what_waits_for_approval_ends_it_while_the_device_rests(asking: SharedBench) -> None:
    reason = asking.drive(attended=False)
    assert reason.startswith("nothing is left but what waits for your approval: H-")
    assert not asking.told(EventKind.CAMPAIGN_DEVICE_BACK)


def test_a_spent_budget_ends_a_campaign_whose_device_rests_as_any(
    bench: SharedBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.found["cuda:0"] = TAKEN
    left = "; not confirmed on cuda:3: H-007"
    monkeypatch.setattr("agent.campaign.loop.left_over", lambda *_: left)
    reason = bench.drive(bench.end(failure=BUSY), bench.nothing, bench.spend, bench.nothing)
    assert reason == f"the budget of 5 min is spent{left}"


def test_a_spent_budget_says_of_a_resting_device_that_the_baseline_is_not_measured(tmp_path: Path) -> None:
    database, campaign_id = start(tmp_path, target="cuda:0")
    bench = SharedBench(database, campaign_id, found={"cuda:0": TAKEN})
    reason = bench.drive(lambda: end_baseline(database, BUSY), bench.nothing, bench.spend, bench.nothing)
    assert reason.startswith("the budget of 5 min is spent and the baseline not measured")
    database.close()


def test_a_paused_campaign_stays_paused_while_its_device_rests_and_its_budget_is_spent(
    bench: SharedBench,
) -> None:
    bench.found["cuda:0"] = TAKEN
    states: list[CampaignState] = []

    def look() -> None:
        with bench.database.read() as session:
            states.append(session.get_one(Campaign, bench.campaign_id).state)

    turns = (bench.end(failure=BUSY), bench.nothing, bench.pause, bench.spend, bench.nothing, look)
    assert bench.drive(*turns, bench.resume, bench.nothing) == "the budget of 5 min is spent"
    assert states == [CampaignState.PAUSED]
