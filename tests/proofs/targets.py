"""What the proof measured, and how it stands against the targets."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agent.judge.interval import PairNoise
from experiments.measurement.plan import StoppingPlan
from tests.proofs.counting import Share, percent, plain
from tests.proofs.discovery_rate import Discoveries
from tests.proofs.real_equal_arms import RealSeries
from tests.proofs.simulated_rates import FREEDOM, Counts
from tests.proofs.stopping_early import Compared, Streams

MOST_SUPPORTED = 0.01
LEAST_COVERED = 0.95
LEAST_POWER = 0.90
LEAST_SAVED = 0.30
MOST_WRONGLY_STOPPED = 0.05
LEAST_REAL = 100
"""Targets, as the architecture states them."""


@dataclass(frozen=True)
class Power:
    """A true gain under one plan; `usual` is the default campaign's."""

    plan: StoppingPlan
    gain: float
    launch_sd: float
    found: Counts
    usual: bool

    @property
    def supported(self) -> Share:
        """How often it was found."""
        return self.found.share(self.found.supported)

    @property
    def reach(self) -> float:
        """Half the interval over the whole plan at this noise, natural log."""
        pairs = self.plan.full_pairs + self.plan.validation_pairs
        squares = 2 * self.launch_sd**2 * (FREEDOM + pairs - 1)
        return PairNoise(squares, FREEDOM, pairs, "pooled").reach(pairs, self.plan.alpha)

    @property
    def beyond(self) -> float:
        """How far the gain lies beyond `min_effect`, natural log."""
        return math.log((1 - self.plan.min_effect) / (1 - self.gain))


@dataclass(frozen=True)
class Results:
    """Everything that the page tells."""

    equal: Counts
    conditions: dict[str, Counts]
    power: Sequence[Power]
    streams: Streams
    rates: dict[tuple[bool, bool], Discoveries]
    """By whether there is online control, and whether the streams are the hardest."""
    series: RealSeries | None
    launch_sd: float
    plan: StoppingPlan


@dataclass(frozen=True)
class Target:
    """A line of the summary."""

    what: str
    asked: str
    measured: str
    met: bool | None
    why: str = ""


@dataclass(frozen=True)
class Stopping:
    """Stopping early against the full schedule, over all streams or one kind of hypothesis."""

    tested: Sequence[Compared]

    @property
    def saved(self) -> float:
        """The share of seconds that were not spent."""
        whole = math.fsum(each.full_s for each in self.tested)
        return 1 - math.fsum(each.early_s for each in self.tested) / whole if whole else 0.0

    def wrongly(self, by_t: bool = False) -> Share:
        """Of the truths that the full schedule found, those that stopping early did not."""
        found = [each for each in self.tested if each.found_in_full(by_t)]
        return Share(sum(each.wrongly_stopped(by_t) for each in found), len(found))

    def right(self) -> tuple[Share, Share, Share]:
        """Truths found: stopping early, on the full schedule, and on it by Student's t."""
        counts = (
            sum(each.early is each.truth for each in self.tested),
            sum(each.found_in_full() for each in self.tested),
            sum(each.found_in_full(by_t=True) for each in self.tested),
        )
        early, full, by_t = (Share(count, len(self.tested)) for count in counts)
        return early, full, by_t


def targets(results: Results) -> list[Target]:
    """The targets with what was measured of them."""
    equal = results.equal
    supported, covered = equal.share(equal.supported), equal.share(equal.held_everywhere)
    stopping = Stopping(all_of(results.streams))
    usual = next(each for each in results.power if each.usual)
    wrong = stopping.wrongly()
    controlled = {"usual": results.rates[True, False], "hardest": results.rates[True, True]}
    return [
        Target(
            "equal arms called supported, simulated",
            f"at most {plain(MOST_SUPPORTED)}",
            str(supported),
            supported.value <= MOST_SUPPORTED,
        ),
        Target(
            "interval holds the truth at every look",
            f"at least {plain(LEAST_COVERED)}",
            str(covered),
            covered.value >= LEAST_COVERED,
            "launches with heavy tails that remember each other are not what the interval assumes",
        ),
        _real_target(results.series),
        Target(
            f"a true gain of {plain(usual.gain)} found, full_pairs = {usual.plan.full_pairs}",
            f"at least {plain(LEAST_POWER)}",
            str(usual.supported),
            usual.supported.value >= LEAST_POWER,
            f"the interval over the whole plan reaches ±{percent(usual.reach)}, and the gain lies "
            f"{percent(usual.beyond)} beyond min_effect; the table says how many pairs it takes",
        ),
        Target(
            "seconds saved by stopping early",
            f"at least {plain(LEAST_SAVED)}",
            percent(stopping.saved),
            stopping.saved >= LEAST_SAVED,
        ),
        Target(
            "wrongly stopped, of the truths that the full schedule found",
            f"at most {plain(MOST_WRONGLY_STOPPED)}",
            f"judged alike {wrong}; full schedule by Student's t, one look, {stopping.wrongly(by_t=True)}",
            wrong.value <= MOST_WRONGLY_STOPPED,
            "the rest of a plan is not run where it could hardly settle the question",
        ),
        Target(
            "false discovery rate over streams, with online control",
            f"at most {plain(results.plan.alpha)}",
            "; ".join(f"{name} streams {rate_words(found)}" for name, found in controlled.items()),
            all(found.rate <= results.plan.alpha for found in controlled.values()),
        ),
    ]


def _real_target(series: RealSeries | None) -> Target:
    asked = f"at most {plain(MOST_SUPPORTED)}, of at least {LEAST_REAL} comparisons"
    what = "equal arms called supported, on the reference engine"
    if series is None:
        return Target(what, asked, "not measured", None, "no database of `autoinfer aa` was given")
    looks = Share(series.first_supported, series.first_looks)
    met = looks.of >= LEAST_REAL and looks.value <= MOST_SUPPORTED
    met = met and series.supported.value <= MOST_SUPPORTED
    return Target(
        what,
        asked,
        f"whole experiments {series.supported}; single pairs {looks}",
        met,
        f"{looks.of} pairs were measured" if looks.of < LEAST_REAL else "",
    )


def rate_words(found: Discoveries) -> str:
    """The rate with its error and counts."""
    error = "" if not found.error else f" ± {percent(found.error)}"
    return f"{percent(found.rate)}{error} ({found.false} of {found.supported} false)"


def all_of(streams: Iterable[Iterable[Compared]]) -> list[Compared]:
    """The hypotheses of all streams."""
    return [each for tested in streams for each in tested]
