"""What confirming on other targets costs, told before the campaign begins: its prices and the budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from sqlalchemy.orm import Session

from agent.campaign.known.other_targets import Terms
from agent.campaign.rerun.elsewhere import Elsewhere, find_elsewhere
from agent.ground.drafter import space_of
from agent.plan.footing import Footing
from agent.plan.price import standings_with, test_job
from configs.campaign import CampaignSpec
from configs.errors import UsageError
from configs.quantities import format_usd
from configs.targets import is_rented
from db.money import refusal, usd
from experiments.executors.port import Executor
from experiments.remote.quoting import Price


@dataclass(frozen=True)
class ConfirmTerms:
    """The targets of a campaign's confirmations with what is known of them, and the prices of those that are
    rented."""

    terms: Mapping[str, Terms]
    prices: Mapping[str, Price]
    usd_per_hour: float

    @property
    def told(self) -> tuple[str, ...]:
        """What confirming costs and how it is weighed, in sentences."""
        lines = [
            f"what is supported is confirmed on {target}: {format_usd(price.bound_usd)} a test at most, "
            f"expected {format_usd(price.expected_usd)} ({price.basis})"
            for target, price in self.prices.items()
        ]
        if lines:
            lines.append(
                f"an hour counts as {format_usd(self.usd_per_hour)} where targets are weighed: --usd-per-hour"
            )
        return tuple(lines)


def confirm_terms(
    session: Session | None, spec: CampaignSpec, footing: Footing, executor: Callable[[str], Executor]
) -> ConfirmTerms:
    """What is known of each target that the campaign confirms on; `executor` makes that of a rented one.

    Raises `UsageError` for a target that is none, and as the executor's quote does.
    """
    terms, prices = {}, {}
    for target in spec.confirm_on:
        there = find_elsewhere(target)
        price = None
        if is_rented(target):
            price = prices[target] = _price(session, spec, footing, there, executor(target))
        terms[target] = Terms(
            usd_per_s=None if price is None else price.usd_per_s,
            bound_usd=None if price is None else price.bound_usd,
            bandwidth_bytes_per_s=_bandwidth(there),
        )
    return ConfirmTerms(terms, prices, spec.usd_per_hour)


def check_confirmable(
    session: Session,
    spec: CampaignSpec,
    found: ConfirmTerms,
    campaign_id: int | None = None,
    more_usd: float = 0.0,
) -> None:
    """Raise `UsageError` where no budget covers a target that the campaign confirms on, or has no room for
    one test there. `campaign_id` is that of one that goes on, with `more_usd` added to its budget; then a
    budget that is spent only ends what is confirmed."""
    for target, price in found.prices.items():
        standings = standings_with(session, spec, target, campaign_id, more_usd)
        why, _ = refusal(standings, target, price.bound, price.bound)
        if why is not None and (campaign_id is None or not standings):
            raise UsageError(
                f"Nothing could be confirmed on {target}: {why}",
                f"Give the campaign a budget: --budget-usd {usd(price.bound):.2f} or more",
            )


def _price(
    session: Session | None, spec: CampaignSpec, footing: Footing, there: Elsewhere, executor: Executor
) -> Price:
    default = dict(footing.begins_from(space_of(spec)))
    of_there = replace(footing, target_key=there.key)
    job = test_job(spec.model_copy(update={"target": there.device}), of_there, default, default)
    return of_there.price(session, executor, job, there.device)


def _bandwidth(there: Elsewhere) -> float | None:
    listed = None if there.card is None else there.card.listed
    return None if listed is None else listed.bandwidth_bytes_per_s
