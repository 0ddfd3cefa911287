"""What is expected to cost more than was agreed waits for the user, and nothing is spent on it before."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from configs.errors import UsageError
from db.event_kinds import EventKind
from db.models import Campaign, Experiment, Hypothesis
from db.states import ExperimentKind, HypothesisState
from knowledge.acts import approving
from knowledge.acts.approvals import awaits_approval
from tests.simulated.by_hand import measure_baseline
from tests.simulated.campaign import start
from tests.simulated.turn_by_turn import TIMES, Bench

EVERYTHING_WAITS = "2s"
"""Less than a test is expected to take, by what the simulated baseline took."""

BORING_S = 3600.0
"""How long nobody approves anything, in seconds."""


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    database, campaign_id = start(tmp_path, approve_above=EVERYTHING_WAITS)
    measure_baseline(database, campaign_id)
    yield Bench(database, campaign_id)
    database.close()


def waiting(bench: Bench) -> list[int]:
    with bench.database.read() as session:
        rows = session.scalars(
            select(Hypothesis).where(Hypothesis.state == HypothesisState.QUEUED).order_by(Hypothesis.rank)
        )
        return [row.id for row in rows if awaits_approval(row)]


def approve_first(bench: Bench) -> None:
    with bench.database.write() as session:
        approving.approve(session, waiting(bench)[0])


def hold_back_first(bench: Bench) -> None:
    with bench.database.write() as session:
        approved = select(Hypothesis).where(Hypothesis.state == HypothesisState.QUEUED)
        first = next(each for each in session.scalars(approved) if (each.score or {}).get("approved_by"))
        approving.unapprove(session, first.id)


def begun(bench: Bench) -> int:
    with bench.database.read() as session:
        return len(session.scalars(select(Experiment).where(Experiment.kind == ExperimentKind.TEST)).all())


def spent_s(bench: Bench) -> float:
    with bench.database.read() as session:
        return float(session.get_one(Campaign, bench.campaign_id).budget["spent_s"])


def test_a_campaign_waits_where_nothing_else_is_left_and_goes_on_with_what_is_approved(bench: Bench) -> None:
    bench.drive(*[bench.nothing_runs] * 3, lambda: approve_first(bench), bench.one_runs)
    assert begun(bench) == 1
    (said,) = bench.told(EventKind.CAMPAIGN_WAITS)
    assert said.startswith("Nothing is left but what waits for your approval: H-")
    assert "Approve with: autoinfer approve H-" in said
    assert bench.waited[:4] == [TIMES.busy_poll_s] * 4, "it looks rarely"


def test_each_that_waits_is_asked_about_once_with_its_quote(bench: Bench) -> None:
    bench.drive(*[bench.nothing_runs] * 3)
    asked = bench.told(EventKind.HYPOTHESIS_WAITS)
    assert len(asked) == len(waiting(bench)) > 0
    assert asked[0].startswith("Waits for your approval: expected to take ")
    assert " if all of its plan is measured. Approve it with: autoinfer approve H-" in asked[0]


def test_the_time_in_which_nobody_approves_is_free(bench: Bench) -> None:
    def much_later() -> None:
        bench.waited.append(BORING_S)

    bench.drive(bench.nothing_runs, much_later, lambda: approve_first(bench), bench.one_runs)
    assert spent_s(bench) < BORING_S / 100
    assert begun(bench) == 1, "the budget of five minutes still bears it"


def test_an_approval_that_was_taken_back_counts_no_more(bench: Bench) -> None:
    def change_of_mind() -> None:
        approve_first(bench)
        hold_back_first(bench)

    bench.drive(bench.nothing_runs, change_of_mind, *[bench.nothing_runs] * 3)
    assert begun(bench) == 0
    assert len(bench.told(EventKind.DIRECTIVE_LIFTED)) == 1


def test_nothing_is_dispatched_whose_approval_was_taken_back_after_it_was_chosen(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agent.campaign.decision.choosing import Choice, choose
    from agent.campaign.decision.desk import Desk

    taken_back = []

    def chosen(desk: Desk, left_s: float, *, flying: bool) -> Choice:
        found = choose(desk, left_s, flying=flying)
        if found.hypothesis is not None and not taken_back:
            taken_back.append(found.hypothesis.id)
            hold_back_first(bench)
        return found

    monkeypatch.setattr("agent.campaign.loop.choose", chosen)
    bench.drive(bench.nothing_runs, lambda: approve_first(bench), *[bench.nothing_runs] * 3)
    assert taken_back
    assert begun(bench) == 0


def test_a_campaign_that_nobody_attends_ends_and_says_how_to_go_on(bench: Bench) -> None:
    reason = bench.drive(attended=False)
    assert reason.startswith("nothing is left but what waits for your approval: H-")
    assert reason.endswith("then go on with autoinfer run --resume C-1")
    approve_first(bench)
    bench.waited.clear()
    bench.drive(bench.one_runs)
    assert begun(bench) == 1


def test_withdrawing_what_waits_ends_the_waiting(bench: Bench) -> None:
    from knowledge.acts import steering

    def withdraw_all() -> None:
        with bench.database.write() as session:
            for number in waiting(bench):
                steering.withdraw(session, number, "not worth its price")

    reason = bench.drive(bench.nothing_runs, withdraw_all, withdraw_all, withdraw_all, withdraw_all)
    assert "queue" in reason


def test_the_ranking_cites_the_approval_and_the_hypothesis_keeps_its_place(bench: Bench) -> None:
    bench.drive(bench.nothing_runs, bench.pause, lambda: approve_first(bench), bench.nothing)
    with bench.database.read() as session:
        (row,) = [
            each
            for each in session.scalars(select(Hypothesis))
            if each.score is not None and each.score["approved_by"] is not None
        ]
        assert row.rank == 1
        assert "; approved by you at " in str(row.rank_reason)
        assert f"(event {row.score['approved_by']})" in str(row.rank_reason)


def test_what_does_not_wait_is_not_approved(bench: Bench) -> None:
    bench.drive(bench.nothing_runs)
    first = waiting(bench)[0]
    with bench.database.write() as session:
        approving.approve(session, first)
        assert approving.approve(session, first).id == first, "it stays so"
        with pytest.raises(UsageError, match="was not approved"):
            approving.unapprove(session, waiting(bench)[1])
    assert len(bench.told(EventKind.DIRECTIVE_GIVEN)) == 1
