"""What the loop does while there is nothing to do: it waits, looks rarely, and computes nothing.

No process and no sleeping: whatever happens meanwhile happens when the loop waits.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.campaign.decision.choosing import Choice
from agent.campaign.decision.desk import Desk
from agent.campaign.known.facts import Facts
from agent.campaign.known.reading_facts import read_facts
from agent.campaign.queue import order
from agent.campaign.resources.room_wait import FULL_WAIT_S, RoomWait
from agent.proposers.confirmation import PROPOSER as CONFIRMATION
from agent.proposers.port import Draft
from configs.errors import DatabaseLocked, DiskFull
from db import events, queue
from db.event_kinds import EventKind
from db.models import Campaign, Hypothesis, Move
from db.states import CampaignState, HypothesisState
from experiments.measurement.plan import Prediction
from tests.simulated.by_hand import LEASE_S, measure_baseline
from tests.simulated.campaign import start
from tests.simulated.turn_by_turn import TIMES, Bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    database, campaign_id = start(tmp_path)
    measure_baseline(database, campaign_id)
    yield Bench(database, campaign_id)
    database.close()


def test_a_loop_that_is_paused_waits_until_it_is_resumed(bench: Bench) -> None:
    """Turn by turn: rank and dispatch; then learn, and take nothing new until it is resumed."""
    steps = [bench.one_runs, bench.pause, bench.finish, *[bench.nothing_runs] * 4, bench.resume]
    assert bench.drive(*steps, bench.one_runs) == "stopped by the user"
    assert bench.told(EventKind.EXPERIMENT_JUDGED)
    assert bench.waited[3:7] == [TIMES.busy_poll_s] * 4


def test_a_loop_waits_for_a_database_that_another_process_keeps_locked(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Locked at the second write, then at the fourth and the two after: each step is tried again, once."""
    write, number = bench.database.write, count(1)

    def refused_at_times() -> AbstractContextManager[Session]:
        if next(number) in (2, 4, 5, 6):
            raise DatabaseLocked("Another process keeps the database locked.", "Try again.")
        return write()

    monkeypatch.setattr(bench.database, "write", refused_at_times)
    assert bench.drive(*[bench.nothing] * 8, bench.one_runs, bench.finish, bench.nothing) == (
        "stopped by the user"
    )
    assert len([each for each in caplog.messages if each.endswith("goes on when it is free.")]) == 4
    assert len(bench.told(EventKind.EXPERIMENT_JUDGED)) == 1


def test_a_loop_waits_for_room_on_a_full_disk_and_says_so_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Full at the second write and the two after: the step is tried again until there is room."""
    write, number = bench.database.write, count(1)

    def refused_at_times() -> AbstractContextManager[Session]:
        if next(number) in (2, 3, 4):
            raise DiskFull("No space is left on the disk of autoinfer.db.", "Free some.")
        return write()

    monkeypatch.setattr(bench.database, "write", refused_at_times)
    assert bench.drive(*[bench.nothing] * 7, bench.one_runs, bench.finish, bench.nothing) == (
        "stopped by the user"
    )
    full, room = caplog.messages
    assert full == (
        "No space is left on the disk of autoinfer.db. Free some. The campaign waits for room, 10 min at "
        "most, and goes on by itself."
    )
    assert room.startswith("There is room again after ")
    assert len(bench.told(EventKind.EXPERIMENT_JUDGED)) == 1


def test_a_disk_that_stays_full_ends_the_wait_with_how_it_goes_on() -> None:
    passed, said = [0.0], list[str]()

    def wait(seconds: float) -> None:
        passed[0] += seconds

    room = RoomWait(wait, lambda: passed[0], said.append, "autoinfer run --resume C-1")
    full = DiskFull("No space is left.", "Free some.")
    while passed[0] < FULL_WAIT_S:
        room.found_full(full)
    with pytest.raises(DiskFull) as raised:
        room.found_full(full)
    assert str(raised.value) == "No space is left. Free some. Then go on with: autoinfer run --resume C-1"
    assert len(said) == 1


@pytest.mark.parametrize(
    ("before", "said"),
    [
        (CampaignState.PAUSED, "The campaign was paused and goes on where it was left"),
        (CampaignState.STOPPING, "The campaign was about to end and goes on where it was left"),
        (CampaignState.STOPPED, "The campaign had ended and goes on where it was left"),
        (CampaignState.RUNNING, "The campaign goes on where it was left"),
    ],
)
def test_who_starts_a_loop_for_a_campaign_wants_it_to_run(
    bench: Bench, before: CampaignState, said: str
) -> None:
    with bench.database.write() as session:
        session.get_one(Campaign, bench.campaign_id).state = before
    bench.drive(bench.one_runs)
    assert bench.told(EventKind.CAMPAIGN_RESUMED) == [said]


def test_after_an_interruption_moves_name_what_left_the_queue_before_it(bench: Bench) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench.drive(bench.one_runs, interrupt)
    bench.drive(bench.one_runs)
    with bench.database.read() as session:
        (sealed,) = events.read(session, kinds=[EventKind.HYPOTHESIS_PREREGISTERED])
        moved = session.scalars(select(Move).where(Move.to_rank != Move.from_rank)).all()
        (left,) = session.scalars(select(Move.reason).where(Move.to_rank.is_(None)))
    went = f"after {sealed.subject} went to its test (event {sealed.id})"
    assert left == f"left the queue: under test, {went}"
    assert moved
    assert {each.reason for each in moved} == {f"{sealed.subject} left the queue ahead of it, {went}"}
    assert f"after {sealed.subject} went to its test; " in bench.told(EventKind.QUEUE_RANKED)[-1]


def test_nothing_is_read_or_ranked_while_a_test_runs_or_the_user_wants_peace(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    ranked: list[Desk] = []

    def read(*arguments: object) -> Facts:
        reads.append(len(bench.waited))
        return read_facts(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("agent.campaign.desk_reading.read_facts", read)
    monkeypatch.setattr(order, "rank_queue", _counting(order.rank_queue, ranked))
    bench.drive(*[bench.one_runs] * 3, bench.pause, bench.finish, *[bench.nothing_runs] * 4)
    assert set(reads) == {0, 6, 10}, "before the dispatch, after the verdict, and at the end"
    assert len(ranked) == 2


def _counting(act: Callable[..., int], calls: list[Desk]) -> Callable[..., int]:
    def counted(session: object, desk: Desk) -> int:
        calls.append(desk)
        return act(session, desk)

    return counted


def test_looks_are_rare_while_another_campaign_measures_on_the_device(bench: Bench) -> None:
    def measured_elsewhere() -> None:
        bench.finish()
        with bench.database.write() as session:
            queue.enqueue(session, "experiment", {}, device_class="cpu")
            assert queue.claim(session, "another", "there/cpu", ("cpu",), LEASE_S) is not None

    bench.drive(bench.finish, bench.nothing, measured_elsewhere, bench.nothing)
    one_out, learnt, next_out, learnt_beside, *_ = bench.waited
    assert (one_out, learnt, next_out) == (TIMES.busy_poll_s, TIMES.idle_poll_s, TIMES.busy_poll_s)
    assert learnt_beside == TIMES.busy_poll_s


def test_nothing_is_ranked_beside_the_confirmation(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    ranked: list[Desk] = []

    def choose(desk: Desk, _: float, *, flying: bool) -> Choice:
        return Choice(draft=confirmation(desk))

    monkeypatch.setattr("agent.campaign.loop.choose", choose)
    monkeypatch.setattr(order, "rank_queue", _counting(order.rank_queue, ranked))
    bench.drive(*[bench.one_runs] * 4)
    assert len(ranked) == 1, "before it was chosen"
    with bench.database.read() as session:
        tested = session.scalars(select(Hypothesis).where(Hypothesis.proposer == CONFIRMATION)).all()
    assert [each.state for each in tested] == [HypothesisState.QUEUED], "cancelled at the end"


def confirmation(desk: Desk) -> Draft:
    baseline = desk.baseline_configuration
    return Draft(
        claim="Together they are faster.",
        control=baseline,
        candidate=desk.space.with_change(baseline, {"simulated.tpot_ms": 7.0, "simulated.threads": 2}),
        lever="kernel+threads",
        prediction=Prediction(log_ratio_mean=-0.3, log_ratio_sd=0.1),
        min_effect=0.03,
        refuted_if="They are not.",
        rationale="Each step was measured against the one before.",
        proposer=CONFIRMATION,
    )
