import subprocess
import sys
from dataclasses import replace
from functools import partial

import pytest
from sqlalchemy import select

from agent.campaign.queue.accept import accept
from configs.errors import UsageError
from db import campaign_lease, queue
from db.campaign_owner import is_dead, new_owner
from db.models import Campaign, Directive, Event, Experiment, Hypothesis, Job
from db.states import (
    CampaignState,
    DirectiveKind,
    ExperimentState,
    HypothesisState,
    JobState,
    VerdictOutcome,
)
from knowledge.acts import lever_steering, steering
from tests.history.campaign_history import SPACE, History

LEVERS = ("threads", "dtype", "compile", "pruning")


def steer(history: History, kind: DirectiveKind, lever: str) -> Directive:
    with history.database.write() as session:
        return lever_steering.give_directive(session, history.campaign_id, kind, lever, LEVERS)


def active(history: History) -> list[tuple[str, str | None]]:
    with history.database.read() as session:
        query = select(Directive.kind, Directive.lever).where(Directive.active).order_by(Directive.id)
        return [(kind.value, lever) for kind, lever in session.execute(query)]


def events(history: History, kind: str) -> list[Event]:
    with history.database.read() as session:
        return list(session.scalars(select(Event).where(Event.kind == kind).order_by(Event.id)))


def test_a_directive_is_stored_with_the_event_that_the_ranking_cites(history: History) -> None:
    given = steer(history, DirectiveKind.FOCUS, "threads")
    (event,) = events(history, "directive.given")
    assert given.event_id == event.id
    assert event.data == {"kind": "focus", "lever": "threads", "hypothesis_id": None}
    assert active(history) == [("focus", "threads")]


def test_giving_it_again_gives_the_same_one(history: History) -> None:
    assert steer(history, DirectiveKind.BAN, "dtype").id == steer(history, DirectiveKind.BAN, "dtype").id
    assert len(events(history, "directive.given")) == 1


def test_an_unknown_lever_is_refused_with_the_nearest(history: History) -> None:
    with pytest.raises(UsageError, match="There is no lever 'thread'") as refused:
        steer(history, DirectiveKind.FOCUS, "thread")
    assert "threads" in refused.value.hint


@pytest.mark.parametrize(
    ("first", "second"), [(DirectiveKind.BAN, DirectiveKind.FOCUS), (DirectiveKind.BOOST, DirectiveKind.BAN)]
)
def test_a_ban_and_its_opposite_do_not_hold_together(
    history: History, first: DirectiveKind, second: DirectiveKind
) -> None:
    steer(history, first, "threads")
    with pytest.raises(UsageError, match="contradicts"):
        steer(history, second, "threads")
    assert active(history) == [(first.value, "threads")]


def test_focus_and_boost_may_hold_together(history: History) -> None:
    steer(history, DirectiveKind.FOCUS, "threads")
    steer(history, DirectiveKind.BOOST, "threads")
    assert len(active(history)) == 2


def test_lifting_takes_one_lever_or_all(history: History) -> None:
    for lever in LEVERS[:3]:
        steer(history, DirectiveKind.BAN, lever)
    with history.database.write() as session:
        lever_steering.lift_directives(session, history.campaign_id, DirectiveKind.BAN, "dtype")
    assert active(history) == [("ban", "threads"), ("ban", "compile")]
    with history.database.write() as session:
        lever_steering.lift_directives(session, history.campaign_id, DirectiveKind.BAN, None)
    assert active(history) == []
    assert len(events(history, "directive.lifted")) == 3


def test_lifting_what_does_not_hold_is_refused(history: History) -> None:
    with history.database.write() as session, pytest.raises(UsageError, match="no ban on dtype to lift"):
        lever_steering.lift_directives(session, history.campaign_id, DirectiveKind.BAN, "dtype")


def test_a_pin_is_set_and_taken_off_again(history: History) -> None:
    number = history.propose({"serving.threads": 1})
    with history.database.write() as session:
        assert steering.pin(session, number).pinned
    assert active(history) == [("pin", None)]
    with history.database.write() as session:
        assert not steering.unpin(session, number).pinned
    assert active(history) == []


def test_a_move_keeps_what_stays_ahead_and_a_later_one_replaces_it(history: History) -> None:
    numbers = [
        history.propose({"serving.threads": 1}, rank=1),
        history.propose({"serving.dtype": "bfloat16"}, rank=2),
    ]
    last = history.propose({"serving.compile": "default"}, rank=3)
    with history.database.write() as session:
        steering.move(session, last, 2)
    with history.database.write() as session:
        steering.move(session, last, 1)
    with history.database.read() as session:
        directives = session.scalars(select(Directive).order_by(Directive.id)).all()
        assert [each.value for each in directives] == [
            {"ahead": numbers[:1], "place": 2},
            {"ahead": [], "place": 1},
        ]
        assert [each.active for each in directives] == [False, True]
    assert events(history, "directive.given")[0].text == "H-003 is put at place 2 of the queue."
    with history.database.write() as session:
        steering.unmove(session, last)
    assert active(history) == []
    with history.database.write() as session, pytest.raises(UsageError, match="was not moved by hand"):
        steering.unmove(session, last)


def test_a_move_to_no_place_or_before_a_pin_or_of_a_pin_is_refused(history: History) -> None:
    first = history.propose({"serving.threads": 1}, rank=1)
    second = history.propose({"serving.dtype": "bfloat16"}, rank=2)
    with history.database.write() as session:
        steering.pin(session, first)
    for number, place, why in (
        (second, 3, "no place 3 in the queue of 2"),
        (second, 1, "H-001 is pinned"),
        (first, 2, "H-001 is pinned"),
    ):
        with history.database.write() as session, pytest.raises(UsageError, match=why):
            steering.move(session, number, place)


def test_what_was_judged_can_neither_be_pinned_nor_withdrawn(history: History) -> None:
    number = history.propose({"serving.threads": 1})
    history.judge(number, VerdictOutcome.SUPPORTED)
    with history.database.write() as session:
        with pytest.raises(UsageError, match="H-001 is supported"):
            steering.pin(session, number)
        with pytest.raises(UsageError, match="H-001 is supported"):
            steering.withdraw(session, number, "by the user")


def test_a_withdrawn_hypothesis_leaves_the_queue_with_its_pin(history: History) -> None:
    number = history.propose({"serving.threads": 1}, rank=1)
    with history.database.write() as session:
        steering.pin(session, number)
    with history.database.write() as session:
        steering.withdraw(session, number, "not worth it")
    with history.database.read() as session:
        row = session.get_one(Hypothesis, number)
        assert (row.state, row.rank, row.pinned) == (HypothesisState.WITHDRAWN, None, False)
    assert active(history) == []
    assert events(history, "hypothesis.withdrawn")[0].text == (
        "H-001 was withdrawn by the user: not worth it."
    )


@pytest.mark.parametrize(
    ("why", "reason"),
    [(None, "By the user."), ("  it was\nmeasured by hand. ", "By the user: it was measured by hand.")],
)
def test_a_withdrawal_keeps_who_and_why(history: History, why: str | None, reason: str) -> None:
    number = history.propose({"serving.threads": 1}, rank=1)
    with history.database.write() as session:
        assert steering.withdraw(session, number, why).state_reason == reason
    [event] = events(history, "hypothesis.withdrawn")
    assert event.text == f"H-001 was withdrawn {reason[0].lower()}{reason[1:]}"
    assert event.data is not None
    assert event.data["by"] == "user"


def test_a_withdrawal_with_a_reason_that_is_none_is_refused_and_nothing_is_changed(history: History) -> None:
    number = history.propose({"serving.threads": 1}, rank=1)
    for why, told in (
        (" . ", "is empty"),
        ("x" * 501, "has 501 characters, and 500"),
        ("a\x1b[2Jb", "no text"),
    ):
        with pytest.raises(UsageError, match=told), history.database.write() as session:
            steering.withdraw(session, number, why)
    with history.database.read() as session:
        assert session.get_one(Hypothesis, number).state is HypothesisState.QUEUED
    assert events(history, "hypothesis.withdrawn") == []


def test_a_campaign_is_paused_and_resumed_and_not_twice(history: History) -> None:
    with history.database.write() as session:
        assert steering.pause_campaign(session, 1).state is CampaignState.PAUSED
    with history.database.write() as session, pytest.raises(UsageError, match="C-1 is paused, not running"):
        steering.pause_campaign(session, 1)
    with history.database.write() as session:
        assert steering.resume_campaign(session, 1).state is CampaignState.RUNNING
    with history.database.write() as session, pytest.raises(UsageError, match="not paused"):
        steering.resume_campaign(session, 1)


def test_stopping_lets_a_live_loop_finish_and_ends_at_once_without_one(history: History) -> None:
    with history.database.write() as session:
        assert campaign_lease.take(session, 1, "loop", 60.0)
    with history.database.write() as session:
        assert steering.stop_campaign(session, 1).state is CampaignState.STOPPING
    with history.database.write() as session:
        steering.stop_campaign(session, 1)  # asking again changes nothing
        session.get_one(Campaign, 1).state = CampaignState.RUNNING
        campaign_lease.release(session, 1, "loop")
    with history.database.write() as session:
        stopped = steering.stop_campaign(session, 1)
    assert (stopped.state, stopped.stopped_because) == (CampaignState.STOPPED, "the user stopped it")
    assert len(events(history, "campaign.stopped")) == 1
    with history.database.write() as session, pytest.raises(UsageError, match="C-1 has ended"):
        steering.stop_campaign(session, 1)


def token_of_a_dead_process() -> str:
    """The token of a loop of this machine that was killed."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    *here, _, random = new_owner().split("#")
    return "#".join((*here, str(gone.pid), random))


@pytest.mark.parametrize("stopping", [False, True])
def test_stopping_ends_at_once_what_a_killed_loop_left(history: History, stopping: bool) -> None:
    owner = token_of_a_dead_process()
    with history.database.write() as session:
        assert campaign_lease.take(session, 1, owner, 60.0)
        if stopping:
            session.get_one(Campaign, 1).state = CampaignState.STOPPING
    with history.database.write() as session:
        assert steering.stop_campaign(session, 1).state is CampaignState.STOPPED


def test_what_waits_for_a_worker_is_cancelled_when_nobody_would_learn_from_it(history: History) -> None:
    waiting = history.propose({"serving.threads": 1})
    experiment_id = history.start_testing(waiting)
    with history.database.write() as session:
        session.get_one(Experiment, experiment_id).state = ExperimentState.PLANNED
        queue.enqueue(session, "experiment", {}, campaign_id=1, experiment_id=experiment_id)
    with history.database.write() as session:
        steering.stop_campaign(session, 1)
    with history.database.read() as session:
        assert session.scalars(select(Job.state)).all() == [JobState.CANCELLED]
        assert session.get_one(Experiment, experiment_id).state is ExperimentState.CANCELLED
        assert session.get_one(Hypothesis, waiting).state is HypothesisState.QUEUED


def test_only_an_owner_of_this_kernel_and_namespace_is_known_to_be_dead() -> None:
    host, kernel, namespace, pid, random = token_of_a_dead_process().split("#")
    assert is_dead("#".join((host, kernel, namespace, pid, random)))
    for elsewhere in (
        (host, kernel, "1", pid, random),  # another container under the same host name
        (host, "another-boot", namespace, pid, random),
        ("another-host", kernel, namespace, pid, random),
        (host, pid, random),  # an older version, which did not say where
        ("loop",),
    ):
        assert not is_dead("#".join(elsewhere))
    assert not is_dead(new_owner())


def test_an_ended_campaign_cannot_be_steered(history: History) -> None:
    with history.database.write() as session:
        steering.stop_campaign(session, 1)
    with pytest.raises(UsageError, match="C-1 has ended: the user stopped it"):
        steer(history, DirectiveKind.FOCUS, "threads")


@pytest.mark.parametrize("done", ["pinned", "moved"])
def test_what_is_banned_is_neither_pinned_nor_moved_and_the_answer_says_why(
    history: History, done: str
) -> None:
    threads, other = history.propose({"serving.threads": 1}), history.propose({"serving.dtype": "bfloat16"})
    ban = steer(history, DirectiveKind.BAN, "threads")
    act = steering.pin if done == "pinned" else partial(steering.move, place=2)
    with history.database.write() as session, pytest.raises(UsageError) as refused:
        act(session, threads)
    assert refused.value.message == (
        f"H-001 changes threads, which is banned (D-{ban.id}), so it can't be {done}: it is not tested."
    )
    assert refused.value.hint == "Lift the ban first: autoinfer ban threads --clear"
    with history.database.write() as session:
        assert steering.pin(session, other).pinned


def test_a_pin_that_came_with_its_hypothesis_has_an_event_as_any_other(history: History) -> None:
    with history.database.write() as session:
        draft = replace(history.draft({"serving.threads": 1}), pinned=True)
        number = accept(session, history.campaign_id, draft, "tpot_ms", SPACE).hypothesis_id
    assert active(history) == [("pin", None)]
    (given,) = events(history, "directive.given")
    assert (given.text, given.subject) == ("H-001 is tested before all others.", "H-001")
    with history.database.write() as session:
        assert not steering.unpin(session, number).pinned
    assert active(history) == []
