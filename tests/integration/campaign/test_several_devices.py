"""A campaign on several devices, turn by turn: who gets which test, and what happens when one is lost.

The loop, the database, the queue and the judge are the real ones; the devices are names that nobody has, jobs
are recorded by hand and the driver's words are invented.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from agent.campaign.decision.choosing import choose
from agent.campaign.decision.desk import Desk
from agent.campaign.known.measured import read_measured
from agent.campaign.known.reading_facts import read_facts
from agent.campaign.queue import order
from agent.campaign.rerun.reproduce import enqueue_reproduction
from agent.discovery.e_lond import level
from agent.ground.legal import legal_here
from agent.proposers.port import Draft, Proposer
from configs.errors import UsageError
from db import events, queue, workers
from db.event_kinds import EventKind
from db.models import Campaign, Experiment, Hypothesis, Job, Verdict
from db.states import CampaignState, ExperimentKind, ExperimentState, HypothesisState, VerdictOutcome
from experiments.engines.port import DEVICE_LOST
from experiments.job.result import Failure, JobResult
from experiments.job.spec import TestJob, parse_job
from experiments.measurement.evidence import LaunchRecord
from experiments.worker.claiming import Taken
from experiments.worker.reporting import Reporter
from experiments.worker.settings import WorkerTimes
from knowledge.acts import approving, steering
from knowledge.going_on import USER_STOPPED_IT
from knowledge.queries.campaigns import campaign_detail
from knowledge.queries.devices import on_devices
from knowledge.queries.facts import under_test
from knowledge.queries.measured.experiments import list_experiments
from knowledge.queries.order.queue import queue_page
from knowledge.queries.present.now import now_view
from tests.simulated.by_hand import LEASE_S, measure_baseline, run_by_hand
from tests.simulated.campaign import start
from tests.simulated.turn_by_turn import TIMES, Bench, alike

TWO = "cuda:0,cuda:1"
LOST = Failure(DEVICE_LOST, "It is lost (the driver says: GPU is lost); reset it.")


@dataclass
class TwoBench(Bench):
    """A campaign with two devices, of which `absent` are not there."""

    absent: tuple[str, ...] = ()

    def given(self) -> dict[str, Any]:
        return {"absent": self.absent}

    def turns_to_stop(self) -> int:
        return 3

    def on(self) -> dict[str, int]:
        """The experiment that each device has now."""
        found = {job.device_class: job.experiment_id or 0 for job in self.jobs()}
        assert len(found) == len(self.jobs()), "two jobs on one device"
        return found

    def both_fly(self) -> None:
        assert set(self.on()) == {"cuda:0", "cuda:1"}

    def only(self, device: str) -> Callable[[], None]:
        def look() -> None:
            assert set(self.on()) == {device}

        return look

    def end(
        self,
        device: str,
        failure: Failure | None = None,
        launches: Callable[[TestJob], list[LaunchRecord]] = alike,
    ) -> Callable[[], None]:
        """The device's test comes to its end."""

        def finish() -> None:
            run_by_hand(
                self.database, self.on()[device], launches if failure is None else lambda _: [], failure
            )

        return finish

    def under_test(self) -> list[int | None]:
        with self.database.read() as session:
            kind = Experiment.kind == ExperimentKind.TEST
            return list(session.scalars(select(Experiment.hypothesis_id).where(kind).order_by(Experiment.id)))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[TwoBench]:
    database, campaign_id = start(tmp_path, target=TWO)
    measure_baseline(database, campaign_id)
    yield TwoBench(database, campaign_id)
    database.close()


def test_each_free_device_gets_the_next_hypothesis_and_never_the_same_one(bench: TwoBench) -> None:
    bench.drive(
        bench.only("cuda:0"),
        bench.both_fly,
        bench.both_fly,
        bench.end("cuda:1"),
        bench.nothing,
        bench.both_fly,
        bench.end("cuda:0"),
        bench.nothing,
        bench.both_fly,
    )
    tested = bench.under_test()
    assert len(tested) == len(set(tested)) == 4
    with bench.database.read() as session:
        devices = session.scalars(select(Job.device_class).order_by(Job.id)).all()
    assert devices == ["cuda:0", "cuda:0", "cuda:1", "cuda:1", "cuda:0"], "the baseline first"


def test_all_launches_of_a_test_are_on_the_device_that_it_was_given_to(bench: TwoBench) -> None:
    bench.drive(bench.nothing, bench.both_fly)
    with bench.database.read() as session:
        _, *tests = session.scalars(select(Job).order_by(Job.id)).all()
        told = events.read(session, kinds=[EventKind.HYPOTHESIS_PREREGISTERED])
    assert [job.device_class for job in tests] == ["cuda:0", "cuda:1"]
    assert [job.spec["device"] for job in tests] == ["cuda:0", "cuda:1"]
    assert [(each.data or {})["device"] for each in told] == ["cuda:0", "cuda:1"]


def test_the_baseline_is_measured_on_one_device_while_the_others_wait(tmp_path: Path) -> None:
    database, campaign_id = start(tmp_path, target=TWO)
    bench = TwoBench(database, campaign_id)
    bench.drive(*[bench.only("cuda:0")] * 4)
    assert bench.waited[:4] == [TIMES.busy_poll_s] * 4
    database.close()


def test_a_campaign_that_was_stopped_while_its_loop_was_held_up_ends_its_loop(bench: TwoBench) -> None:
    def is_held_up() -> None:
        with bench.database.write() as session:
            campaign = session.get_one(Campaign, bench.campaign_id)
            campaign.owner_lease_expires_at = campaign.created_at
        with bench.database.write() as session:
            assert steering.stop_campaign(session, bench.campaign_id).state is CampaignState.STOPPED

    assert bench.drive(bench.nothing, bench.both_fly, is_held_up) == USER_STOPPED_IT
    assert len(bench.waited) == 3


def test_the_queue_is_ranked_with_new_proposals_while_another_test_flies(
    bench: TwoBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    proposals = order.proposals

    def counted(desk: Desk, model: Proposer | None = None) -> list[Draft]:
        asked.append(len(bench.on()))
        return proposals(desk, model)

    monkeypatch.setattr(order, "proposals", counted)
    bench.drive(bench.nothing, bench.both_fly, bench.end("cuda:0"), bench.nothing, bench.both_fly)
    assert asked == [0, 1], "after the baseline, and beside the test that still flies"


def test_nothing_is_computed_while_every_device_is_at_work(
    bench: TwoBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []

    def read(*arguments: object) -> object:
        reads.append(len(bench.waited))
        return read_facts(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("agent.campaign.desk_reading.read_facts", read)
    bench.drive(bench.nothing, *[bench.both_fly] * 5)
    assert set(reads) == {0, 1, 9}, "for the two dispatches, and at the end"
    assert bench.waited[1:6] == [TIMES.busy_poll_s] * 5


def test_a_free_device_rests_where_only_what_flies_can_open_something(
    bench: TwoBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One hypothesis at a time is proposed: nothing is left for the second device, and the end waits."""
    chosen: list[bool] = []

    def one_at_a_time(desk: Desk, left_s: float, *, flying: bool = False) -> object:
        chosen.append(flying)
        return choose(desk, 0.0 if flying else left_s, flying=flying)

    monkeypatch.setattr("agent.campaign.loop.choose", one_at_a_time)
    bench.drive(*[bench.only("cuda:0")] * 5, bench.end("cuda:0"), bench.nothing, bench.nothing)
    assert chosen[:3] == [False, True, False], "asked once while it flew"
    assert bench.waited[2:5] == [TIMES.busy_poll_s] * 3


def test_the_confirmation_and_the_end_wait_for_what_flies(bench: TwoBench) -> None:
    bench.drive(bench.nothing, bench.both_fly)
    with bench.database.read() as session:
        facts = read_facts(session, bench.campaign_id)
        measured = read_measured(session, facts)
    desk = Desk(replace(facts, queue=()), legal_here(facts.spec, facts.checkpoint, facts.cores), measured, ())
    beside, alone = choose(desk, 60.0, flying=True), choose(desk, 60.0)
    assert beside.hypothesis is beside.draft is None
    assert beside.reason == "the verdicts of what runs come first"
    assert alone.reason.startswith("nothing is left")


def test_a_level_counts_only_discoveries_that_are_known_when_the_test_is_dispatched(
    bench: TwoBench,
) -> None:
    """Three tests: the first is supported while the second flies, so only the third's level is raised."""

    def support() -> None:
        with bench.database.write() as session:
            verdict = session.scalars(select(Verdict)).one()
            verdict.outcome = VerdictOutcome.SUPPORTED

    bench.drive(bench.nothing, bench.both_fly, bench.end("cuda:0"), support, bench.both_fly)
    with bench.database.read() as session:
        plans = session.scalars(
            select(Experiment.plan).where(Experiment.kind == ExperimentKind.TEST).order_by(Experiment.id)
        ).all()
        told = events.read(session, kinds=[EventKind.HYPOTHESIS_PREREGISTERED])
    assert [plan["support_alpha"] for plan in plans] == [
        level(0.05, 0, 0),
        level(0.05, 1, 0),
        level(0.05, 2, 1),
    ]
    assert [(each.data or {})["level"]["discoveries"] for each in told] == [0, 0, 1]


def test_a_lost_device_is_left_out_and_the_campaign_goes_on_with_the_others(bench: TwoBench) -> None:
    bench.drive(
        bench.nothing,
        bench.both_fly,
        bench.end("cuda:1", LOST),
        bench.only("cuda:0"),
        bench.only("cuda:0"),
        bench.end("cuda:0"),
        bench.nothing,
        bench.only("cuda:0"),
    )
    (told,) = bench.told(EventKind.CAMPAIGN_DEVICE_OUT)
    assert told.startswith("cuda:1 is out, because it was lost: It is lost (the driver says: GPU is lost)")
    assert told.endswith("the campaign goes on with cuda:0")
    with bench.database.read() as session:
        assert len(session.scalars(select(Verdict)).all()) == 1
        again = session.get_one(Hypothesis, bench.under_test()[1])
        assert again.state in (HypothesisState.QUEUED, HypothesisState.WITHDRAWN, HypothesisState.TESTING)
        shown = now_view(session, None, None, session.get_one(Campaign, 1).created_at)
    assert EventKind.CAMPAIGN_DEVICE_OUT.value in {each.kind for each in shown.events}


def test_the_campaign_ends_when_its_last_device_is_lost_and_takes_all_up_again(bench: TwoBench) -> None:
    reason = bench.drive(bench.nothing, bench.end("cuda:0", LOST), bench.nothing, bench.end("cuda:1", LOST))
    assert reason.startswith("none of its 2 devices is left: cuda:1 was lost: It is lost")
    bench.drive(bench.nothing, bench.both_fly)
    assert len(bench.told(EventKind.CAMPAIGN_DEVICE_OUT)) == 2


def test_a_device_that_is_absent_at_the_start_gets_nothing_and_is_told(bench: TwoBench) -> None:
    bench.absent = ("cuda:0",)
    bench.drive(bench.only("cuda:1"), bench.only("cuda:1"))
    assert bench.told(EventKind.CAMPAIGN_DEVICE_OUT) == [
        "cuda:0 is out, because it is not there; the campaign goes on with cuda:1"
    ]


def test_a_baseline_whose_device_is_lost_is_measured_on_another(tmp_path: Path) -> None:
    database, campaign_id = start(tmp_path, target=TWO)
    bench = TwoBench(database, campaign_id)

    def lose() -> None:
        (job,) = bench.jobs()
        with database.write() as session:
            claimed = queue.claim(session, "someone", "here/cuda:0", ("cuda:0",), LEASE_S)
        assert claimed is not None
        reporter = Reporter(database, Taken(claimed, f"job{job.id}"), WorkerTimes(lease_s=LEASE_S), 0)
        reporter.record(parse_job(claimed.spec), JobResult(launches=(), failure=LOST))

    bench.drive(lose, bench.nothing, bench.only("cuda:1"))
    (told,) = bench.told(EventKind.CAMPAIGN_DEVICE_OUT)
    assert told.startswith("cuda:0 is out, because it was lost")
    database.close()


def test_a_pause_lets_both_finish_and_begins_nothing(bench: TwoBench) -> None:
    reason = bench.drive(
        bench.nothing,
        bench.both_fly,
        bench.pause,
        bench.end("cuda:0"),
        bench.only("cuda:1"),
        bench.end("cuda:1"),
        *[bench.nothing_runs] * 3,
        bench.resume,
        bench.nothing,
        bench.both_fly,
    )
    assert reason == "stopped by the user"
    assert len(bench.told(EventKind.EXPERIMENT_JUDGED)) == 2


def test_a_stop_finishes_what_flies_on_both(bench: TwoBench) -> None:
    def stop() -> None:
        with bench.database.write() as session:
            for pid, device in enumerate(("cuda:0", "cuda:1"), 1):
                workers.register(session, f"desk/{device}", "desk", pid, device)
            steering.stop_campaign(session, bench.campaign_id)

    reason = bench.drive(
        bench.nothing, bench.both_fly, stop, bench.end("cuda:1"), bench.only("cuda:0"), bench.end("cuda:0")
    )
    assert reason == "stopped by the user"
    assert len(bench.told(EventKind.EXPERIMENT_JUDGED)) == 2


def test_a_hypothesis_under_test_is_not_withdrawn_and_another_one_is(bench: TwoBench) -> None:
    withdrawn: list[int] = []

    def withdraw() -> None:
        first = bench.under_test()[1]
        assert first is not None
        with pytest.raises(UsageError), bench.database.write() as session:
            steering.withdraw(session, first, "not wanted")
        with bench.database.write() as session:
            queued = Hypothesis.state == HypothesisState.QUEUED
            waiting = session.scalars(select(Hypothesis.id).where(queued).order_by(Hypothesis.rank)).all()
            steering.withdraw(session, waiting[0], "not wanted")
            withdrawn.append(waiting[0])

    bench.drive(bench.nothing, withdraw, bench.end("cuda:0"), bench.nothing, bench.both_fly)
    assert withdrawn[0] not in bench.under_test()


def test_what_waits_for_approval_is_not_given_to_a_free_device_until_it_is_approved(tmp_path: Path) -> None:
    database, campaign_id = start(tmp_path, target=TWO, approve_above="2s")
    measure_baseline(database, campaign_id)
    bench = TwoBench(database, campaign_id)
    approved: list[int] = []

    def approve() -> None:
        queued = Hypothesis.state == HypothesisState.QUEUED
        with database.write() as session:
            first = session.scalars(select(Hypothesis.id).where(queued).order_by(Hypothesis.rank)).first()
            assert first is not None
            approving.approve(session, first)
        approved.append(first)

    bench.drive(
        *[bench.nothing_runs] * 2,
        approve,
        bench.nothing,
        *[bench.only("cuda:0")] * 2,
        approve,
        bench.nothing,
        bench.both_fly,
    )
    assert bench.under_test() == approved
    database.close()


def test_a_device_on_which_another_campaign_measures_comes_last(bench: TwoBench) -> None:
    with bench.database.write() as session:
        queue.enqueue(session, "experiment", {}, device_class="cuda:0")
        assert queue.claim(session, "another", "there/cuda:0", ("cuda:0",), LEASE_S) is not None
    bench.drive(bench.only("cuda:1"), bench.both_fly)


def test_a_reproduction_runs_on_the_device_of_its_original(bench: TwoBench) -> None:
    bench.drive(bench.nothing, bench.end("cuda:1"), bench.nothing)
    with bench.database.write() as session:
        original = session.scalars(select(Verdict.experiment_id)).one()
        fresh = enqueue_reproduction(session, original)
        job = session.scalars(select(Job).where(Job.experiment_id == fresh)).one()
    assert job.device_class == job.spec["device"] == "cuda:1"


def test_a_campaign_with_one_target_is_read_as_before(tmp_path: Path) -> None:
    database, campaign_id = start(tmp_path)
    with database.read() as session:
        campaign = session.get_one(Campaign, campaign_id)
        assert campaign.spec["target"] == "cpu"
        assert read_facts(session, campaign_id).spec.devices == ("cpu",)
    database.close()


def test_every_test_that_runs_is_shown_with_its_device(bench: TwoBench) -> None:
    shown: list[set[str | None]] = []

    def look() -> None:
        devices = ("cuda:0", "cuda:1")
        with bench.database.write() as session:
            claimed = [queue.claim(session, "w", f"desk/{each}", (each,), LEASE_S) for each in devices]
            for each in claimed:
                assert each is not None
                session.get_one(Experiment, each.experiment_id).state = ExperimentState.RUNNING
        with bench.database.read() as session:
            now = now_view(session, None, None, session.get_one(Campaign, 1).created_at)
            queued = queue_page(session, bench.campaign_id, limit=10).items
            listed = list_experiments(session, states=(ExperimentState.RUNNING,), limit=10).items
            shown.extend(
                (
                    {run.device for run in now.runs},
                    {row.device for row in queued if row.state is HypothesisState.TESTING},
                    {row.device for row in listed},
                    {fact.device for fact in under_test(session, bench.campaign_id)},
                    set(on_devices(session)),
                )
            )
            assert campaign_detail(session, bench.campaign_id).devices == devices
        with bench.database.write() as session:
            for each in claimed:
                assert each is not None
                queue.release(session, each)

    bench.drive(bench.nothing, look)
    assert shown == [{"desk/cuda:0", "desk/cuda:1"}] * 5


def test_a_campaign_tells_which_of_its_devices_are_left_out(bench: TwoBench) -> None:
    bench.drive(bench.nothing, bench.end("cuda:1", LOST), bench.nothing)
    with bench.database.read() as session:
        assert campaign_detail(session, bench.campaign_id).devices_out == ("cuda:1",)
