"""The quote of a job on a rented machine, by a price list. Pure."""

from __future__ import annotations

from configs.prices import Machine, PriceList, upper_bound_s
from experiments.executors.port import Quote


def rented_quote(
    prices: PriceList,
    machine: Machine,
    *,
    timeout_s: float,
    startup_s: float,
    retries: int,
    expected_s: float,
) -> Quote:
    """What a job costs at most, (timeout + start-up) × rates × (retries + 1), and is expected to cost.

    `expected_s` is what it is expected to take, with its start. Raises `UsageError` for a GPU that has no
    price.
    """
    rate = machine.usd_per_s(prices)
    most_s = upper_bound_s(timeout_s, startup_s, retries)
    expected_s = min(expected_s, most_s)
    return Quote(expected_s, most_s, rate * expected_s, rate * most_s, prices.basis)
