"""Verifying on a rented machine: within the budgets in dollars, and what they have no room for."""

from pathlib import Path

import pytest
from sqlalchemy import func, select, update

from agent.campaign.rerun.reproduce import allow_reproduction, enqueue_reproduction, reproduce
from agent.campaign.rerun.verify import Limits
from agent.campaign.resources.allowance import more_dollars
from agent.campaign.resources.fresh_price import NoRoom, price_watch
from configs.errors import UsageError
from db.models import Campaign, Experiment, Job, JobQuote, RemoteRun
from db.money import budgets, microusd
from db.states import JobState, RemoteRunState
from knowledge.queries.found.verification import Standing
from tests.integration.campaign.campaigned import RENTED, Campaigned, campaign, interrupt
from tests.integration.cli.command import Autoinfer

__all__ = ["campaign"]


def rented(campaign: Campaigned, bound_usd: float) -> None:
    """As if both verdicts had been measured on a rented machine, each quoted so much at most."""
    with campaign.database.write() as session:
        session.execute(update(Job).where(Job.experiment_id.in_((2, 3))).values(device_class=RENTED))
        row = session.get_one(Campaign, campaign.campaign_id)
        row.spec = {**row.spec, "target": RENTED}
        for each in session.scalars(select(Job).where(Job.experiment_id.in_((2, 3)))):
            session.add(
                RemoteRun(
                    job_id=each.id,
                    campaign_id=campaign.campaign_id,
                    experiment_id=each.experiment_id,
                    executor="modal",
                    target=RENTED,
                    kind="test",
                    key=f"key-{each.id}",
                    state=RemoteRunState.ENDED,
                    day=0,
                    expected_s=60.0,
                    expected_microusd=microusd(bound_usd / 2),
                    reserved_microusd=microusd(bound_usd),
                    actual_microusd=microusd(bound_usd / 4),
                    basis="as it was",
                )
            )


def test_a_rented_machine_without_a_budget_or_room_in_it_is_refused_before_anything_is_queued(
    campaign: Campaigned,
) -> None:
    rented(campaign, 2.0)
    with pytest.raises(UsageError, match=f"No budget in dollars covers {RENTED}") as none:
        campaign.verify(interrupt)
    assert "the first runs there were quoted $4.00 at most in all" in none.value.message
    assert none.value.hint == "Give it one: autoinfer verify C-1 --budget-usd 4.00"
    with pytest.raises(UsageError, match="No fresh run could be submitted") as small:
        campaign.verify(interrupt, Limits(more_usd=1.0))
    assert "It costs $2.00 at most, and the budget of C-1 has $1.00 left" in small.value.message
    assert campaign.told() == []
    with campaign.database.read() as session:
        assert session.scalars(select(func.max(Experiment.id))).one() == 3
        assert budgets(session) == [], "what was refused left nothing behind"


def quote_dearer(campaign: Campaigned) -> None:
    """As if a worker had asked for the price of the newest job, which is beyond what is left."""
    with campaign.database.write() as session:
        job = session.scalars(select(Job).order_by(Job.id.desc())).first()
        assert job is not None
        session.add(
            JobQuote(
                job_id=job.id,
                target=RENTED,
                expected_s=60.0,
                bound_s=120.0,
                expected_microusd=microusd(4.0),
                bound_microusd=microusd(90.0),
                basis="dearer now",
                waits_because="It costs $90.00 at most, and the budget of C-1 has $5.00 left.",
            )
        )


def test_a_fresh_run_that_no_budget_will_have_room_for_is_taken_back_and_left_to_the_next_call(
    campaign: Campaigned,
) -> None:
    rented(campaign, 2.0)

    def wait(device: str) -> None:
        assert device == RENTED
        quote_dearer(campaign)

    found = campaign.verify(wait, Limits(more_usd=5.0))
    assert {row.standing for row in found.verdicts} == {Standing.WAITS}
    assert found.verdicts[0].why.startswith("no budget has room for it: It costs $90.00 at most")
    with campaign.database.read() as session:
        states = session.scalars(select(Job.state).where(Job.experiment_id > 3)).all()
        assert set(states) == {JobState.CANCELLED}


def test_one_reproduction_on_a_rented_machine_is_bounded_by_the_same_budgets(
    campaign: Campaigned, tmp_path: Path
) -> None:
    rented(campaign, 2.0)
    autoinfer = Autoinfer(tmp_path)
    for words, says in (
        ("", f"No budget in dollars covers {RENTED}"),
        (" --budget-usd 1", "It costs $2.00 at most, and the budget of C-1 has $1.00 left"),
    ):
        refused = autoinfer(f"reproduce E-0002{words}")
        assert (refused.code, says in refused.err) == (2, True), refused.err
        assert "autoinfer reproduce E-0002 --budget-usd 2.00" in refused.err
    with campaign.database.write() as session:
        assert session.scalars(select(func.max(Experiment.id))).one() == 3
        assert budgets(session) == [], "what was refused left nothing behind"
        allow_reproduction(session, 2, RENTED, more_usd=5.0)
    look = price_watch(campaign.database, 2, RENTED, pytest.fail)

    def wait() -> None:
        look()
        quote_dearer(campaign)

    with pytest.raises(NoRoom, match=r"costs \$90.00 at most"):
        reproduce(campaign.database, 2, wait, device=RENTED)
    with campaign.database.write() as session:
        assert session.scalars(select(Job.state).where(Job.experiment_id > 3)).all() == [JobState.CANCELLED]
        more_dollars(session, campaign.campaign_id, -4.5, None)
        with pytest.raises(UsageError, match=r"has \$0.500 left"):
            allow_reproduction(session, 2, RENTED)
        enqueue_reproduction(session, 2, RENTED)
        allow_reproduction(session, 2, RENTED)  # that one is gone on with, and watched
