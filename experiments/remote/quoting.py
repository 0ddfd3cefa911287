"""The quote of a job on a paid target: the executor's upper bound, and what similar jobs took. Pure but for a
look at the database."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median

from sqlalchemy.orm import Session

from configs.quantities import format_duration
from db.money import microusd, usd
from db.remote_runs import past_seconds
from experiments.executors.port import Executor, Quote
from experiments.job.spec import AnyJob
from experiments.remote.limiting import PlannedSeconds, limit_before_any, limit_by_history, unplanned

SIMILAR = 20
"""The newest runs of the same kind on the same target that an expectation rests on."""

FEWEST_SIMILAR = 3
"""With fewer the executor's own expectation is taken."""


@dataclass(frozen=True)
class Price:
    """A quote as it is kept: amounts in millionths of a dollar, what they rest on, and the limit of the whole
    job that bounds it, None for the limits of its stages."""

    expected_s: float
    bound_s: float
    expected: int
    bound: int
    basis: str
    limit_s: float | None = None

    @property
    def expected_usd(self) -> float:
        """The expectation in dollars."""
        return usd(self.expected)

    @property
    def bound_usd(self) -> float:
        """The bound in dollars."""
        return usd(self.bound)

    @property
    def usd_per_s(self) -> float:
        """Dollars of a second, by the bound."""
        return self.bound_usd / self.bound_s if self.bound_s > 0 else 0.0


def price_of(quote: Quote, took_s: list[float]) -> Price:
    """The price of a job by its executor's quote and the seconds that similar jobs took, newest first.

    The expectation is the median of those, at the rate of the bound, and never above the bound; the bound is
    the executor's alone.
    """
    bound = microusd(quote.upper_bound_usd)
    if len(took_s) < FEWEST_SIMILAR or quote.upper_bound_s <= 0:
        expected = min(bound, microusd(quote.expected_usd))
        guess = f"expected by a guess of {format_duration(quote.expected_s)}: too few such jobs ran here"
        return Price(quote.expected_s, quote.upper_bound_s, expected, bound, f"{quote.basis}; {guess}")
    expected_s = min(median(took_s), quote.upper_bound_s)
    expected = min(bound, microusd(quote.upper_bound_usd * expected_s / quote.upper_bound_s))
    basis = f"{quote.basis}; expected by the median of the last {len(took_s)} such jobs here"
    return Price(expected_s, quote.upper_bound_s, expected, bound, basis)


@dataclass(frozen=True)
class Known:
    """What is known here of a job before its executor is asked: its limit, and what such jobs took."""

    limit_s: float | None
    took_s: list[float]

    def price(self, quote: Quote) -> Price:
        """The price by the executor's quote for that limit."""
        return replace(price_of(quote, self.took_s), limit_s=self.limit_s)


def known_of(session: Session, spec: AnyJob, target: str, planned: PlannedSeconds = unplanned) -> Known:
    """Look up what is known of a job on the target."""
    limit_s = limit_by_history(session, spec, target, planned)
    return Known(limit_s, past_seconds(session, target, spec.kind, SIMILAR))


def price_by_history(
    session: Session, executor: Executor, spec: AnyJob, target: str, planned: PlannedSeconds = unplanned
) -> Price:
    """The price of a job on the target, by its executor and what ran there; raises what `quote` raises."""
    known = known_of(session, spec, target, planned)
    return known.price(executor.quote(spec, known.limit_s))


def price_before_any(executor: Executor, spec: AnyJob, planned_s: float | None) -> Price:
    """The same where nothing ran yet: by its executor and what is planned of it alone."""
    limit_s = limit_before_any(spec, planned_s)
    return Known(limit_s, []).price(executor.quote(spec, limit_s))
