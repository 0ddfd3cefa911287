"""The dollars of a plan as they are printed: each kind of job, a first verdict, and the whole campaign."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cli.console.output import console, table
from configs.quantities import format_duration, format_usd
from db.money import usd

if TYPE_CHECKING:
    from agent.plan.price import Prices
    from cli.executors.prices import Quoted
    from experiments.remote.quoting import Price

HOUR_S = 3600


def print_prices(quoted: Quoted, wall_s: float) -> None:
    """Print what the jobs of rented machines cost; `wall_s` is the campaign's budget of time."""
    out = console()
    if quoted.why_not is not None:
        out.print(f"dollars: not known. {quoted.why_not}")
    if quoted.prices is not None:
        rows = [(what, *_row(price)) for what, price in quoted.prices.rows]
        columns = (f"a job on {quoted.prices.target}", ">at most", ">in", ">expected", ">in")
        out.print(table(columns, rows))
        out.print(quoted.prices.test.basis, style="dim")
        for line in _sums(quoted.prices, wall_s):
            out.print(line)
    for line in () if quoted.there is None else quoted.there.told:
        out.print(line)
    out.print()


def _row(price: Price) -> tuple[str, ...]:
    return (
        format_usd(price.bound_usd),
        format_duration(round(price.bound_s)),
        format_usd(price.expected_usd),
        format_duration(round(price.expected_s)),
    )


def _sums(prices: Prices, wall_s: float) -> tuple[str, ...]:
    whole = prices.whole(wall_s)
    tests = "no test" if whole.tests == 0 else f"{whole.tests} test{'' if whole.tests == 1 else 's'}"
    return (
        f"a first verdict needs a budget of {format_usd(usd(prices.to_first_verdict))}: --budget-usd "
        f"{usd(prices.to_first_verdict):.2f}",
        f"all of its {format_duration(wall_s)}: about {format_usd(usd(whole.expected))} (the baseline and "
        f"{tests}), {format_usd(usd(whole.most))} at most; never more than --budget-usd",
    )


def prices_document(quoted: Quoted, wall_s: float) -> dict[str, Any]:
    """The same as JSON; dollars and seconds."""
    prices, found = quoted.prices, {"why_not": quoted.why_not}
    confirmed = {} if quoted.there is None else quoted.there.prices
    confirms = [{"target": target, **_priced(price)} for target, price in confirmed.items()]
    if prices is None:
        return {**found, "target": None, "jobs": [], "confirms": confirms}
    whole = prices.whole(wall_s)
    return {
        **found,
        "target": prices.target,
        "usd_per_hour": prices.test.usd_per_s * HOUR_S,
        "basis": prices.test.basis,
        "jobs": [{"what": what, **_priced(price)} for what, price in prices.rows],
        "first_verdict_needs_usd": usd(prices.to_first_verdict),
        "campaign": {
            "wall_s": wall_s,
            "expected_usd": usd(whole.expected),
            "most_usd": usd(whole.most),
            "tests": whole.tests,
        },
        "confirms": confirms,
    }


def _priced(price: Price) -> dict[str, Any]:
    return {
        "bound_usd": price.bound_usd,
        "expected_usd": price.expected_usd,
        "bound_s": price.bound_s,
        "expected_s": price.expected_s,
        "limit_s": price.limit_s,
        "basis": price.basis,
    }
