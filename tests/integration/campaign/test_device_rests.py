"""A campaign with a device that others use: it rests, is looked at by a stated rule, and takes tests again.

The loop, the database, the queue and the judge are the real ones; the devices are names that nobody has, jobs
are recorded by hand and what the driver says of them is invented.
"""

from itertools import pairwise
from pathlib import Path

from sqlalchemy import select

from agent.campaign.device_rests import FIRST_LOOK_S, LOOK_EVERY_S, MOST_REST_S, Look, rest_s
from db import events, queue
from db.event_kinds import EventKind
from db.models import Campaign, Experiment, Hypothesis, Verdict
from db.states import CampaignState, HypothesisState
from experiments.engines.port import DEVICE_BUSY
from tests.integration.campaign.shared_bench import (
    BUSY,
    FREE,
    LOST,
    NOTEBOOK,
    TAKEN,
    SharedBench,
    bench,
    end_baseline,
    two,
)
from tests.simulated.by_hand import LEASE_S
from tests.simulated.campaign import start

__all__ = ["bench", "two"]


def test_a_campaign_whose_only_device_others_use_waits_and_goes_on_when_they_are_gone(
    bench: SharedBench,
) -> None:
    bench.found["cuda:0"] = TAKEN
    reason = bench.drive(
        bench.end(failure=BUSY),
        bench.nothing,
        *[bench.nothing_runs, bench.passes(60.0)] * 5,
        bench.says(FREE),
        bench.passes(LOOK_EVERY_S),
        bench.nothing,
        bench.one_runs,
        bench.end(),
        bench.nothing,
    )
    assert reason == "stopped by the user", "five minutes of a notebook end no night"
    (rests,), (back,) = (
        bench.told(EventKind.CAMPAIGN_DEVICE_RESTS),
        bench.told(EventKind.CAMPAIGN_DEVICE_BACK),
    )
    assert NOTEBOOK in rests
    assert "cuda:0 rests: it is looked at in 30 s, then every 30 s" in rests
    assert rests.endswith("which costs none of its time while nothing of it runs elsewhere")
    assert back.startswith("cuda:0 takes tests again after")
    assert back.endswith("nobody else is on it any more")
    with bench.database.read() as session:
        assert len(session.scalars(select(Verdict)).all()) == 1


def test_the_wait_for_a_device_costs_none_of_the_budget(bench: SharedBench) -> None:
    bench.found["cuda:0"] = TAKEN
    budget_s = 300.0
    bench.drive(bench.end(failure=BUSY), bench.nothing, *[bench.passes(budget_s)] * 4, bench.nothing_runs)
    assert bench.spent_s() < 10.0


def test_time_goes_on_while_another_device_measures(two: SharedBench) -> None:
    two.found["cuda:1"] = TAKEN
    two.drive(two.nothing, two.end("cuda:1", BUSY), two.nothing, two.passes(100.0), two.nothing)
    assert two.spent_s() > 100.0


def test_a_look_is_taken_by_the_stated_rule(bench: SharedBench) -> None:
    bench.found["cuda:0"] = TAKEN
    bench.drive(bench.end(failure=BUSY), *[bench.passes(1.0)] * 100)
    at = [second for _, second in bench.asked]
    begun = at[0] - FIRST_LOOK_S
    assert begun < 3.0
    assert len(at) > 3
    assert all(LOOK_EVERY_S <= later - earlier < LOOK_EVERY_S + 2.0 for earlier, later in pairwise(at))


def test_who_comes_and_goes_is_met_ever_more_rarely() -> None:
    assert [rest_s(each) for each in (1, 2, 3, 4, 5, 6, 5000)] == [30, 60, 120, 240, 480, 600, 600]
    assert rest_s(1) == FIRST_LOOK_S
    assert rest_s(6) == MOST_REST_S


def test_a_second_experiment_in_a_row_rests_it_for_twice_as_long(bench: SharedBench) -> None:
    bench.drive(
        bench.end(failure=BUSY),
        bench.nothing,
        bench.passes(FIRST_LOOK_S),
        bench.nothing,
        bench.end(failure=BUSY),
        bench.nothing,
        bench.passes(FIRST_LOOK_S),
        bench.nothing,
        bench.nothing_runs,
        bench.passes(FIRST_LOOK_S),
        bench.nothing,
        bench.one_runs,
    )
    second = bench.told(EventKind.CAMPAIGN_DEVICE_RESTS)[1]
    assert "looked at in 1 min (2 experiments in a row found others there)" in second


def test_an_experiment_that_came_to_its_end_begins_the_count_anew(bench: SharedBench) -> None:
    bench.drive(
        bench.end(failure=BUSY),
        bench.nothing,
        bench.passes(FIRST_LOOK_S),
        bench.nothing,
        bench.end(),
        bench.nothing,
        bench.nothing,
        bench.end(failure=BUSY),
        bench.nothing,
    )
    assert "looked at in 30 s, then" in bench.told(EventKind.CAMPAIGN_DEVICE_RESTS)[1]


def test_the_other_device_goes_on_meanwhile(two: SharedBench) -> None:
    two.found["cuda:1"] = TAKEN

    def only_the_first() -> None:
        assert {each.device_class for each in two.jobs()} == {"cuda:0"}

    def both() -> None:
        assert {each.device_class for each in two.jobs()} == {"cuda:0", "cuda:1"}

    two.drive(
        two.nothing,
        two.end("cuda:1", BUSY),
        two.nothing,
        *[two.passes(60.0), only_the_first] * 3,
        two.end("cuda:0"),
        two.nothing,
        only_the_first,
        two.says(FREE, "cuda:1"),
        two.passes(60.0),
        two.nothing,
        both,
    )
    (told,) = two.told(EventKind.CAMPAIGN_DEVICE_RESTS)
    assert told.endswith("the campaign goes on with cuda:0")
    assert not two.told(EventKind.CAMPAIGN_DEVICE_OUT)


def test_a_device_rests_on_in_the_next_process_which_looks_at_once(bench: SharedBench) -> None:
    bench.found["cuda:0"] = TAKEN
    bench.drive(bench.end(failure=BUSY), bench.nothing)
    asked = len(bench.asked)
    assert asked == 0, "it was not time for the first look"
    bench.drive(*[bench.nothing_runs] * 3)
    assert len(bench.asked) == 1
    assert len(bench.told(EventKind.CAMPAIGN_DEVICE_RESTS)) == 1, "told once"
    bench.found["cuda:0"] = FREE
    bench.drive(bench.nothing, bench.one_runs)
    assert len(bench.told(EventKind.CAMPAIGN_DEVICE_BACK)) == 1


def test_where_the_driver_can_t_tell_the_next_test_finds_out(bench: SharedBench) -> None:
    bench.found["cuda:0"] = Look(not_known="No NVIDIA driver answers on this machine")
    bench.drive(
        bench.end(failure=BUSY), bench.nothing, bench.passes(FIRST_LOOK_S), bench.nothing, bench.one_runs
    )
    (back,) = bench.told(EventKind.CAMPAIGN_DEVICE_BACK)
    assert "can't be told (No NVIDIA driver answers on this machine)" in back


def test_a_test_of_another_campaign_on_the_device_is_no_stranger(bench: SharedBench) -> None:
    bench.found["cuda:0"] = TAKEN

    def another_measures() -> None:
        with bench.database.write() as session:
            campaign = session.get_one(Campaign, bench.campaign_id)
            columns = campaign.__table__.columns.keys()
            other = Campaign(**{each: getattr(campaign, each) for each in columns if each != "id"})
            session.add(other)
            session.flush()
            queue.enqueue(session, "test", {}, campaign_id=other.id, device_class="cuda:0")
            assert queue.claim(session, "w", "here/cuda:0", ("cuda:0",), LEASE_S) is not None

    bench.drive(
        bench.end(failure=BUSY),
        another_measures,
        bench.passes(FIRST_LOOK_S),
        bench.nothing,
        bench.nothing,
    )
    assert bench.asked == []
    (back,) = bench.told(EventKind.CAMPAIGN_DEVICE_BACK)
    assert "another campaign measures there" in back


def test_a_baseline_that_found_others_is_measured_when_they_are_gone(tmp_path: Path) -> None:
    database, campaign_id = start(tmp_path, target="cuda:0")
    bench = SharedBench(database, campaign_id, found={"cuda:0": TAKEN})

    def fail() -> None:
        end_baseline(database, BUSY)

    turns = (bench.nothing, bench.passes(FIRST_LOOK_S), bench.nothing, bench.nothing)
    bench.drive(
        fail,
        *turns,
        bench.nothing_runs,
        bench.says(FREE),
        *turns,
        bench.one_runs,
        fail,
        *turns,
        *turns,
        bench.one_runs,
        fail,
        bench.nothing,
    )
    with database.read() as session:
        assert session.get_one(Campaign, campaign_id).stopped_because == "stopped by the user"
    assert len(bench.told(EventKind.CAMPAIGN_DEVICE_RESTS)) == 3, "however often, nothing is given up"
    database.close()


def test_a_lost_device_is_given_up_though_another_rests(two: SharedBench) -> None:
    two.found["cuda:1"] = TAKEN
    two.drive(
        two.nothing,
        two.end("cuda:1", BUSY),
        two.nothing,
        two.end("cuda:0", LOST),
        two.nothing,
        two.nothing_runs,
        two.says(FREE, "cuda:1"),
        two.passes(60.0),
        two.nothing,
        two.one_runs,
    )
    (out,) = two.told(EventKind.CAMPAIGN_DEVICE_OUT)
    assert out.startswith("cuda:0 is out, because it was lost")


def test_nothing_is_concluded_of_what_found_others(bench: SharedBench) -> None:
    bench.found["cuda:0"] = TAKEN
    bench.drive(bench.end(failure=BUSY), bench.nothing, bench.nothing)
    with bench.database.read() as session:
        assert session.scalars(select(Verdict)).all() == []
        states = set(session.scalars(select(Hypothesis.state)))
        assert HypothesisState.QUEUED in states
        assert not {HypothesisState.INFEASIBLE, HypothesisState.TESTING} & states
        assert session.get_one(Campaign, bench.campaign_id).state is CampaignState.STOPPED
        kinds = session.scalars(select(Experiment.failure_kind)).all()
        told = events.read(session, kinds=[EventKind.CAMPAIGN_DEVICE_RESTS])
    assert kinds.count(DEVICE_BUSY) == len(told) == 1
