"""A quote bounds what can be billed, and rests on prices that say where they are from."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs.catalog import Kind, packaged_names
from configs.errors import UsageError
from configs.prices import Machine, load_prices, upper_bound_s
from configs.quantities import format_usd, parse_usd
from db.money import RISE_UNASKED, BudgetStanding, microusd, refusal, usd
from db.states import BudgetScope
from experiments.executors.port import Quote
from experiments.executors.rented import rented_quote
from experiments.remote.quoting import FEWEST_SIMILAR, price_of
from experiments.remote.settings import POLLS_PER_S, RemoteTimes

SECONDS = st.floats(1, 86_400)


@pytest.mark.parametrize("name", packaged_names(Kind.PRICES))
def test_a_packaged_price_list_says_what_it_is_and_when_it_was_written(name: str):
    prices = load_prices(name)
    assert prices.recorded.isoformat() in prices.basis
    assert prices.title in prices.basis
    assert "http" not in prices.source


def test_an_h100_for_an_hour_costs_what_the_list_says():
    quote = rented_quote(
        load_prices("modal"),
        Machine("H100!", cpu_cores=8, memory_gib=64),
        timeout_s=3300,
        startup_s=300,
        retries=1,
        expected_s=1800,
    )
    rate = 0.001097 + 8 * 0.0000131 + 64 * 0.00000222
    assert quote.upper_bound_s == 7200
    assert quote.upper_bound_usd == pytest.approx(7200 * rate)
    assert quote.expected_usd == pytest.approx(1800 * rate)


def test_a_gpu_without_a_price_is_refused_with_the_nearest():
    with pytest.raises(UsageError, match="no listed price for a GPU 'H1000'"):
        Machine("H1000", 1, 1).usd_per_s(load_prices("modal"))


@given(SECONDS, SECONDS, st.integers(0, 5), SECONDS)
def test_the_expectation_is_never_above_the_bound(
    timeout_s: float, startup_s: float, retries: int, expected_s: float
):
    machine = Machine("L4", 2, 8)
    quote = rented_quote(
        load_prices("modal"),
        machine,
        timeout_s=timeout_s,
        startup_s=startup_s,
        retries=retries,
        expected_s=expected_s,
    )
    assert quote.upper_bound_s == upper_bound_s(timeout_s, startup_s, retries)
    price = price_of(quote, [])
    assert 0 <= price.expected <= price.bound
    assert price.bound_usd >= quote.upper_bound_usd - 1e-9, "rounded up, never down"
    assert "expected by a guess of" in price.basis


@given(st.lists(SECONDS, min_size=FEWEST_SIMILAR, max_size=20))
def test_history_changes_the_expectation_and_never_the_bound(took_s: list[float]):
    quote = Quote(100, 5000, 0.5, 2.0, "a price")
    price = price_of(quote, took_s)
    assert price.bound == 2_000_000
    assert 0 <= price.expected <= price.bound
    assert price.basis.startswith("a price; expected by the median")


@given(st.floats(0, 1e6))
def test_an_amount_is_rounded_up_by_a_millionth_at_most(amount: float):
    assert amount - 1e-9 * amount <= usd(microusd(amount)) <= amount + 1e-6 + 1e-9 * amount


@pytest.mark.parametrize(
    ("amount", "told"),
    [
        (0, "$0.00"),
        (1, "$1.00"),
        (1234.5, "$1,234.50"),
        (0.5, "$0.500"),
        (0.00123, "$0.00123"),
        (-2, "−$2.00"),
    ],
)
def test_an_amount_as_people_read_it(amount: float, told: str):
    assert format_usd(amount) == told


@pytest.mark.parametrize("text", ["", "-1", "1e3", "five", "1.0000001", "inf"])
def test_what_is_no_amount_is_refused(text: str):
    with pytest.raises(UsageError, match="no amount in US dollars"):
        parse_usd(text)


def test_an_amount_is_read_with_or_without_its_sign():
    assert parse_usd("$2.50") == parse_usd("2.50") == 2.5


def standing(left: int, approve_above: int | None = None) -> BudgetStanding:
    return BudgetStanding(1, BudgetScope.TARGET, "files:T", left + 10, approve_above, 5, 5)


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_a_price_is_let_through_exactly_when_there_is_room(left: int, bound: int):
    why, _ = refusal([standing(left)], "files:T", bound, None)
    assert (why is None) is (bound <= left)


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.none() | st.integers(1, 10**6))
def test_an_approval_holds_up_to_its_amount_and_widens_no_budget(
    bound: int, above: int, approved: int | None
):
    why, ask = refusal([standing(10**7, above)], "files:T", bound, approved)
    held = bound > above and (approved is None or bound > approved)
    assert (why is not None, ask) == (held, held)
    assert refusal([standing(bound - 1, above)], "files:T", bound, bound)[0] is not None


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_what_rose_above_what_was_told_is_asked_about_where_no_budget_says_from_which_price_on(
    bound: int, as_told: int
):
    why, ask = refusal([standing(10**7)], "files:T", bound, None, as_told)
    held = bound > as_told * (1 + RISE_UNASKED)
    assert (why is not None, ask) == (held, held)
    assert refusal([standing(10**7)], "files:T", bound, bound, as_told) == (None, False)
    assert refusal([standing(10**7, bound)], "files:T", bound, None, as_told) == (None, False)


@given(st.floats(0, 1e6), st.integers(1, 5000))
def test_looks_become_rarer_with_age_and_never_more_than_so_many_a_second(age_s: float, runs: int):
    times = RemoteTimes()
    wait_s = times.wait_s(age_s, runs)
    assert wait_s >= times.soonest_s
    assert runs / wait_s <= POLLS_PER_S + 1e-9
    assert times.wait_s(age_s + 60, runs) >= wait_s
    assert math.isclose(times.wait_s(1e6, 1), times.latest_s)
