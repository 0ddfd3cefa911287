"""A campaign with a device that others use: it rests, is looked at by a stated rule, and takes tests again.

The loop, the database, the queue and the judge are the real ones; the devices are names that nobody has, jobs
are recorded by hand and what the driver says of them is invented.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from agent.campaign.device_rests import FIRST_LOOK_S, LOOK_EVERY_S, MOST_REST_S, Look, rest_s, who_is_on
from cli.sheets.campaign import print_campaign
from db import events, queue
from db.clock import after
from db.event_kinds import EventKind
from db.models import Campaign, Experiment, Hypothesis, Verdict
from db.session import Database
from db.states import CampaignState, HypothesisState
from experiments.engines.port import DEVICE_BUSY, DEVICE_LOST
from experiments.job.result import Failure, JobResult
from experiments.job.spec import parse_job
from experiments.job.unnamed_memory import VARIABLE
from experiments.telemetry.free_memory import MemoryUnknown
from experiments.telemetry.occupants import DeviceGone, DeviceUse, Occupant
from experiments.worker.claiming import Taken
from experiments.worker.reporting import Reporter
from experiments.worker.settings import WorkerTimes
from knowledge import approving, steering
from knowledge.approvals import awaits_approval
from knowledge.queries.campaigns import campaign_detail
from knowledge.queries.devices import devices_at_rest
from knowledge.queries.facts import campaign_facts
from knowledge.queries.now import NowView, Standing, now_view
from knowledge.queries.verification import verification
from knowledge.summary import summarize
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
    assert "cuda:0 rests: it is looked at in 30s, then every 30s" in rests
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
    assert "looked at in 1m (2 experiments in a row found others there)" in second


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
    assert "looked at in 30s, then" in bench.told(EventKind.CAMPAIGN_DEVICE_RESTS)[1]


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
    assert reason == f"the budget of 5m is spent{left}"


def test_a_spent_budget_says_of_a_resting_device_that_the_baseline_is_not_measured(tmp_path: Path) -> None:
    database, campaign_id = start(tmp_path, target="cuda:0")
    bench = SharedBench(database, campaign_id, found={"cuda:0": TAKEN})
    reason = bench.drive(lambda: _end_baseline(database, BUSY), bench.nothing, bench.spend, bench.nothing)
    assert reason.startswith("the budget of 5m is spent and the baseline not measured")
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
    assert bench.drive(*turns, bench.resume, bench.nothing) == "the budget of 5m is spent"
    assert states == [CampaignState.PAUSED]


def test_a_baseline_that_found_others_is_measured_when_they_are_gone(tmp_path: Path) -> None:
    database, campaign_id = start(tmp_path, target="cuda:0")
    bench = SharedBench(database, campaign_id, found={"cuda:0": TAKEN})

    def fail() -> None:
        _end_baseline(database, BUSY)

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


def _end_baseline(database: Database, failure: Failure) -> None:
    with database.write() as session:
        claimed = queue.claim(session, "someone", "here/cuda:0", ("cuda:0",), LEASE_S)
    assert claimed is not None
    taken = Taken(claimed, f"job{claimed.id}")
    reporter = Reporter(database, taken, WorkerTimes(lease_s=LEASE_S), 0)
    reporter.record(parse_job(claimed.spec), JobResult(launches=(), failure=failure))


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


def test_pages_and_summary_say_that_it_rests_and_no_more_when_it_is_back(bench: SharedBench) -> None:
    bench.found["cuda:0"] = TAKEN
    shown: list[NowView] = []
    words: list[str] = []

    def look() -> None:
        shown.append(bench.shown())
        with bench.database.read() as session:
            assert [each.device for each in campaign_detail(session, bench.campaign_id).devices_at_rest] == [
                each.device for each in devices_at_rest(session, bench.campaign_id)
            ]
            part = summarize(campaign_facts(session, bench.campaign_id)).at_rest
            words.append("" if part is None else f"{part.sentence} {' '.join(part.lines)}")

    bench.drive(
        bench.end(failure=BUSY),
        bench.nothing,
        look,
        bench.says(FREE),
        bench.passes(FIRST_LOOK_S),
        bench.nothing,
        bench.one_runs,
        look,
    )
    first, second = shown
    assert first.campaign is not None
    assert first.campaign.standing is Standing.RESTING
    assert [each.device for each in first.at_rest] == ["cuda:0"]
    assert NOTEBOOK in first.at_rest[0].told
    assert words[0].startswith("cuda:0 rests, because others use it.")
    assert re.search(rf"since [-0-9]+ [:0-9]+; told then: .*{re.escape(NOTEBOOK)}", words[0])
    assert (second.at_rest, words[1]) == ((), "")


def lets_go(bench: SharedBench) -> None:
    """The loop gave its lease back as it died."""


def lease_runs_out(bench: SharedBench) -> None:
    with bench.database.write() as session:
        campaign = session.get_one(Campaign, bench.campaign_id)
        campaign.owner, campaign.owner_lease_expires_at = "elsewhere#1#x", after(-1)


@pytest.mark.parametrize("gone", [lets_go, lease_runs_out])
def test_of_an_interrupted_campaign_is_said_that_it_rested(
    bench: SharedBench, gone: Callable[[SharedBench], None], capsys: pytest.CaptureFixture[str]
) -> None:
    def die() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench.drive(bench.end(failure=BUSY), bench.nothing, die)
    gone(bench)
    shown = bench.shown()
    assert shown.campaign is not None
    assert shown.campaign.standing is Standing.INTERRUPTED
    assert [(each.device, each.interrupted) for each in shown.at_rest] == [("cuda:0", True)]
    with bench.database.read() as session:
        part = summarize(campaign_facts(session, bench.campaign_id)).at_rest
        print_campaign(campaign_detail(session, bench.campaign_id), verification(session, bench.campaign_id))
    assert part is not None
    assert part.sentence == "cuda:0 rested when the campaign was interrupted, because others used it."
    assert "at rest when it was interrupted: cuda:0" in " ".join(capsys.readouterr().out.split())
    assert part.lines == ("looked at as soon as it goes on: autoinfer run --resume C-1",)


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


@pytest.mark.parametrize(
    ("answer", "look"),
    [
        (DeviceUse(0, 10**11, ()), FREE),
        (DeviceUse(9 * 10**9, 10**11, (Occupant(7, "python3", 9 * 10**9),)), TAKEN),
        (MemoryUnknown("No NVIDIA driver answers."), Look(not_known="No NVIDIA driver answers")),
        (DeviceGone("GPU is lost"), Look(not_known="the driver says: GPU is lost")),
    ],
    ids=["nobody", "a notebook", "no driver", "lost"],
)
def test_what_is_made_of_the_driver_s_answer(
    answer: DeviceUse | Exception, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    def device_use(device: str) -> DeviceUse:
        assert device == "cuda:0"
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr("agent.campaign.device_rests.device_use", device_use)
    monkeypatch.setattr("agent.campaign.device_rests.socket.gethostname", lambda: "desk")
    assert who_is_on("cuda:0", "desk/cuda:0") == look
    assert who_is_on("cuda:0", None) == look


@pytest.mark.parametrize(("allowed", "free"), [(None, False), ("3GB", True)])
def test_a_device_whose_memory_nobody_is_named_for_rests_until_the_user_allows_it(
    allowed: str | None, free: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "agent.campaign.device_rests.device_use", lambda device: DeviceUse(2 * 10**9, 10**11, None)
    )
    monkeypatch.delenv(VARIABLE, raising=False)
    if allowed is not None:
        monkeypatch.setenv(VARIABLE, allowed)
    assert (who_is_on("cuda:0", None) == FREE) is free


def test_a_device_of_another_machine_is_not_asked_for_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(device: str) -> DeviceUse:
        raise AssertionError(device)

    monkeypatch.setattr("agent.campaign.device_rests.device_use", never)
    monkeypatch.setattr("agent.campaign.device_rests.socket.gethostname", lambda: "desk")
    assert who_is_on("cuda:0", "server/cuda:0") == Look(not_known="it is on server")
