"""Prices of rented machines, asked of their executors before anything is submitted: by a plan, and by a
campaign that begins or goes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer
    from sqlalchemy.orm import Session

    from agent.campaign.rerun.price_elsewhere import ConfirmTerms
    from agent.plan.footing import Footing
    from agent.plan.ground import Ground
    from agent.plan.plan import Plan
    from agent.plan.price import Prices
    from configs.campaign import CampaignSpec
    from configs.settings import Settings
    from db.session import Database
    from experiments.executors.port import Executor


@dataclass(frozen=True)
class Quoted:
    """What a plan's jobs cost on rented machines: on its own target, and where it confirms. `why_not` says in
    a sentence or two why a price can't be told; then both are None."""

    prices: Prices | None = None
    there: ConfirmTerms | None = None
    why_not: str | None = None


def prices_there(
    database: Database,
    settings: Settings,
    spec: CampaignSpec,
    ground: Ground,
    going_on: int | None,
    more_usd: float = 0.0,
) -> Prices | None:
    """What the jobs of a rented target cost, where a budget has room for them; None of this machine.

    Raises `UsageError` where none has.
    """
    from agent.plan.footing import footing_on
    from agent.plan.price import check_affordable, prices_of
    from configs.targets import is_rented

    if not is_rented(spec.target):
        return None
    executor = _executor(settings, spec, spec.target)
    with database.read() as session:
        prices = prices_of(session, spec, footing_on(spec, ground), executor)
        check_affordable(session, spec, prices, going_on, more_usd)
    return prices


def keep_agreed(
    database: Database, campaign_id: int, prices: Prices | None, there: ConfirmTerms | None
) -> None:
    """Keep the prices that the user was told and goes on with: what rises above them is asked about."""
    from db.agreed_prices import agree

    told = {} if prices is None else {prices.target: prices.test.usd_per_s}
    if there is not None:
        told |= {target: price.usd_per_s for target, price in there.prices.items()}
    with database.write() as session:
        agree(session, campaign_id, told)


def quoted_for(ctx: typer.Context, plan: Plan) -> Quoted | None:
    """What the plan's jobs cost where any of them is rented, else None; makes and submits nothing."""
    from agent.ground.target import find_target
    from agent.plan.begin import known_fingerprint
    from agent.plan.footing import Footing
    from cli.console.opening import reading
    from configs.errors import AutoinferError, DatabaseMissing

    if not plan.spec.rented:
        return None
    target_key = find_target(plan.spec.target).key

    def asked(session: Session | None) -> Quoted:
        fingerprint = None if session is None else known_fingerprint(session, plan.model.folder)
        footing = Footing(
            plan.model, fingerprint or "", target_key, plan.memory.at_once, plan.start.configuration
        )
        try:
            return _quoted(ctx, session, plan.spec, footing)
        except AutoinferError as reason:
            return Quoted(why_not=str(reason))

    try:
        with reading(ctx) as session:
            return asked(session)
    except DatabaseMissing:
        return asked(None)


def _quoted(ctx: typer.Context, session: Session | None, spec: CampaignSpec, footing: Footing) -> Quoted:
    from agent.campaign.rerun.price_elsewhere import confirm_terms
    from agent.plan.price import prices_of
    from cli.console.opening import settings_of
    from configs.targets import is_rented

    settings = settings_of(ctx)
    prices = there = None
    if is_rented(spec.target):
        prices = prices_of(session, spec, footing, _executor(settings, spec, spec.target))
    if spec.confirm_on:
        there = confirm_terms(session, spec, footing, lambda target: _executor(settings, spec, target))
    return Quoted(prices, there)


def _executor(settings: Settings, spec: CampaignSpec, target: str) -> Executor:
    from cli.executors.executor import make_remote_executor
    from configs.targets import executor_of

    named = executor_of(target, spec.executor) if target == spec.target else target.partition(":")[0]
    return make_remote_executor(settings, named, target)
