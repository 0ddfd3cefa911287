"""A job that costs more than was agreed to is not submitted by the price of some minutes ago."""

from dataclasses import replace

import pytest

from db import agreed_prices, money
from db.models import JobQuote
from db.session import Database
from db.states import BudgetScope
from experiments.remote.worker import RemoteWorker
from knowledge.acts.job_approvals import approve_price
from tests.integration.remote.conftest import enqueue, give_budget
from tests.integration.remote.test_money import TIMES
from tests.integration.worker.processes import events_of
from tests.simulated.queueing import start_campaign
from tests.simulated.remote_executor import RATE_USD_PER_S, FileProvider
from tests.simulated.remote_worker_main import TARGET

ALWAYS_FRESH = replace(TIMES, fresh_s=0.0)


def working(database: Database, provider: FileProvider) -> RemoteWorker:
    """A worker that lives on between its turns, with the quotes that it keeps."""
    worker = RemoteWorker(database, provider, TARGET, times=ALWAYS_FRESH, leave_running=True)
    worker.begin()
    return worker


def told(database: Database, campaign: int, usd_per_s: float = RATE_USD_PER_S) -> None:
    """As `autoinfer run` keeps it when it has told its prices."""
    with database.write() as session:
        agreed_prices.agree(session, campaign, {TARGET: usd_per_s})


def approve(database: Database, job_id: int, up_to_usd: float | None = None) -> None:
    with database.write() as session:
        approve_price(session, job_id, up_to_usd)


def test_a_price_that_rose_while_its_approval_was_waited_for_is_asked_about_anew(
    database: Database, provider: FileProvider
) -> None:
    _, job_id = enqueue(database, start_campaign(database))
    give_budget(database, 9.0, approve_above=0.5)
    worker = working(database, provider)
    worker.turn()
    approve(database, job_id)
    provider.usd_per_s *= 2
    worker.turn()
    assert provider.submits() == []
    assert "It costs $2.00 at most now, $1.00 more than you approved" in events_of(database, "job.held")[-1]
    approve(database, job_id)
    worker.turn()
    assert len(provider.submits()) == 1


def test_an_approval_without_a_threshold_holds_up_to_its_price_too(
    database: Database, provider: FileProvider
) -> None:
    """As `autoinfer promote --yes` leaves it: agreed to, on a budget that asks above nothing."""
    _, job_id = enqueue(database, start_campaign(database))
    give_budget(database, 9.0)
    with database.write() as session:
        quoted = {"expected_s": 1.0, "bound_s": 1000.0, "expected_microusd": 1, "basis": "told"}
        session.add(
            JobQuote(job_id=job_id, target=TARGET, bound_microusd=10**6, approved_microusd=10**6, **quoted)
        )
    provider.usd_per_s *= 1.5
    worker = working(database, provider)
    worker.turn()
    assert provider.submits() == []
    assert "$0.500 more than you approved, and you are asked again" in events_of(database, "job.held")[-1]


def test_a_price_above_what_a_campaign_was_told_is_asked_about_once(
    database: Database, provider: FileProvider
) -> None:
    campaign = start_campaign(database)
    give_budget(database, 50.0)
    told(database, campaign)
    worker = working(database, provider)
    enqueue(database, campaign, seed=1)
    worker.turn()
    assert len(provider.submits()) == 1
    provider.usd_per_s *= 2
    _, job_id = enqueue(database, campaign, seed=2)
    worker.turn()
    assert len(provider.submits()) == 1
    [held] = events_of(database, "job.held")
    assert "It costs $2.00 at most now, and $1.00 at the price that you were told" in held
    assert f"autoinfer approve J-{job_id}" in held
    approve(database, job_id)
    enqueue(database, campaign, seed=3)
    worker.turn()
    assert len(provider.submits()) == 3, "who approved a price has agreed to it for the campaign"
    provider.usd_per_s *= 2
    enqueue(database, campaign, seed=4)
    worker.turn()
    assert len(provider.submits()) == 3


@pytest.mark.parametrize(
    ("rise", "approve_above"),
    [(1.09, None), (3.0, 3.5)],
    ids=["less than a tenth", "below the price above which a budget asks"],
)
def test_a_rise_that_nobody_wants_to_be_woken_for_is_not_asked_about(
    database: Database, provider: FileProvider, rise: float, approve_above: float | None
) -> None:
    campaign = start_campaign(database)
    give_budget(database, 9.0, approve_above)
    told(database, campaign)
    provider.usd_per_s *= rise
    enqueue(database, campaign)
    working(database, provider).turn()
    assert len(provider.submits()) == 1


def test_a_rise_beyond_a_budget_is_no_matter_of_approval(database: Database, provider: FileProvider) -> None:
    campaign = start_campaign(database)
    with database.write() as session:
        money.set_budget(session, BudgetScope.CAMPAIGN, str(campaign), money.microusd(1.5), None)
    told(database, campaign)
    provider.usd_per_s *= 2
    enqueue(database, campaign)
    working(database, provider).turn()
    assert provider.submits() == []
    assert "has $1.50 left of $1.50" in events_of(database, "job.held")[-1]
