"""What the proof measured, and how it stands against the targets."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agent.judge.interval import PairNoise
from experiments.measurement.plan import StoppingPlan
from tests.proofs.counting import Share, percent, plain
from tests.proofs.discovery_rate import Discoveries, FalseRate
from tests.proofs.hypothesis_streams import Kind, Mixture
from tests.proofs.real_equal_arms import RealSeries, held, supported
from tests.proofs.shared_profile import SharedProfile
from tests.proofs.simulated_rates import FREEDOM, Counts, TimeNoise
from tests.proofs.stopping_early import Compared, Streams

MOST_SUPPORTED = 0.01
LEAST_COVERED = 0.95
LEAST_POWER = 0.90
LEAST_SAVED = 0.30
MOST_WRONGLY_STOPPED = 0.05
LEAST_REAL = 100
"""Targets, as the architecture states them."""

TRUE_GAIN = 0.05
"""The gain whose power has a target."""

LATER_TEST = 5
"""The later test of a campaign whose level is shown beside the first one's."""

SCARCE_FREEDOM = 2
"""Degrees of freedom of the profile that three noise launches leave."""


@dataclass(frozen=True)
class Power:
    """A true gain under one plan, at its level of support; `who` names the campaign that dispatches such a
    test, and which of its tests it is, empty where none does."""

    plan: StoppingPlan
    gain: float
    noise: TimeNoise
    found: Counts
    who: str = ""

    @property
    def supported(self) -> Share:
        """How often it was found."""
        return self.found.share(self.found.supported)

    @property
    def reach(self) -> float:
        """Half the interval over the whole plan at this noise, natural log: with the plan's blocks."""
        return self._reach(self.plan.alpha)

    @property
    def support_reach(self) -> float:
        """The same at the level at which support is called: of one side, so about twice it, and alpha at
        most."""
        return self._reach(min(self.plan.alpha, 2 * self.plan.support_level))

    @property
    def beyond(self) -> float:
        """How far the gain lies beyond `min_effect`, natural log."""
        return math.log((1 - self.plan.min_effect) / (1 - self.gain))

    def _reach(self, alpha: float) -> float:
        pairs = self.plan.full_pairs + self.plan.validation_pairs
        spread = self.noise.of_mean(self.plan.full_blocks, self.plan.workload.prompts_per_block)
        squares = 2 * spread**2 * (FREEDOM + pairs - 1)
        return PairNoise(squares, FREEDOM, pairs, "pooled").reach(pairs, alpha)


@dataclass(frozen=True)
class LaterPower:
    """The power of a gain at the `test`-th test of a campaign of `campaign` (minutes, hours), after
    `supported` of the tests before were."""

    campaign: str
    test: int
    supported: int
    power: Power


@dataclass(frozen=True)
class Results:
    """Everything that the page tells."""

    equal: Counts
    conditions: dict[str, Counts]
    power: Sequence[Power]
    calm: Sequence[Power]
    """The same plans where times vary as is assumed without a series; empty where that is what `power` is."""
    later: Sequence[LaterPower]
    """By test, the gains of each side by side."""
    streams: Streams
    rates: Mapping[tuple[Mixture, bool], Discoveries]
    """By the mixture of the streams, and whether there is online control."""
    shared: Sequence[SharedProfile]
    scarce: Discoveries
    """The streams that are hardest in time under online control, with the profile of `SCARCE_FREEDOM`."""
    at_margin: Share
    """Of hypotheses that lose exactly the margin of quality, those called supported, under online control."""
    series: tuple[RealSeries, ...]
    """Power is at the noise of the first."""
    noise: TimeNoise
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
        """Of the truths that the full schedule found, those that stopping early did not; what does not run
        is found by both, and left out."""
        ran = [each for each in self.tested if each.kind is not Kind.INFEASIBLE]
        found = [each for each in ran if each.found_in_full(by_t)]
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
    passed, covered = equal.share(equal.supported), equal.share(equal.held_everywhere)
    stopping = Stopping(all_of(results.streams))
    return [
        Target(
            "equal arms called supported, simulated",
            f"at most {plain(MOST_SUPPORTED)}",
            str(passed),
            passed.value <= MOST_SUPPORTED,
        ),
        Target(
            "interval holds the truth at every look",
            f"at least {plain(LEAST_COVERED)}",
            str(covered),
            covered.value >= LEAST_COVERED,
            "launches with heavy tails that remember each other are not what the interval assumes",
        ),
        _real_target(results.series),
        _real_coverage(results.series),
        *(_power_target(each) for each in results.power if each.who),
        Target(
            "seconds saved by stopping early",
            f"at least {plain(LEAST_SAVED)}",
            percent(stopping.saved),
            stopping.saved >= LEAST_SAVED,
        ),
        _stopped_target(
            "judged as stopping early is",
            stopping.wrongly(),
            "the rest of a plan is not run where it could hardly settle the question",
        ),
        _stopped_target(
            "by Student's t at one look",
            stopping.wrongly(by_t=True),
            "an interval that may be looked at always, at the level of the online control, is wider than one "
            "for a single look and a single test",
        ),
        *_discovery_targets(results),
    ]


def _power_target(power: Power) -> Target:
    pairs = f"{power.plan.full_pairs} + {power.plan.validation_pairs} pairs"
    return Target(
        f"a true gain of {plain(power.gain)} found by {power.who} ({pairs})",
        f"at least {plain(LEAST_POWER)}",
        str(power.supported),
        power.supported.value >= LEAST_POWER,
        f"the interval over the whole plan reaches ±{percent(power.reach)} at {plain(power.plan.alpha)}, and "
        f"the gain lies {percent(power.beyond)} beyond min_effect; the table says what it takes",
    )


def _stopped_target(judged: str, wrong: Share, why: str) -> Target:
    return Target(
        f"wrongly stopped, of the truths that the full schedule found, {judged}",
        f"at most {plain(MOST_WRONGLY_STOPPED)}",
        str(wrong),
        wrong.value <= MOST_WRONGLY_STOPPED,
        why,
    )


def _discovery_targets(results: Results) -> Iterator[Target]:
    asked = f"at most {plain(results.plan.alpha)}"
    for mixture in (Mixture.USUAL, Mixture.HARDEST):
        found = results.rates[mixture, True].in_time
        yield Target(
            f"false in time among the supported, with online control, {mixture.value} streams",
            asked,
            rate_words(found, results.rates[mixture, True].supported),
            found.rate <= results.plan.alpha,
        )
    yield Target(
        "a loss of exactly the margin of quality called supported",
        f"{asked}, as the exact interval tells",
        str(results.at_margin),
        results.at_margin.bounds()[0] <= results.plan.alpha,
        "the guard of quality lets more pass than its level",
    )
    found = results.rates[Mixture.AT_MARGIN, True]
    yield Target(
        f"false in quality among the supported, {Mixture.AT_MARGIN.value} streams",
        "none: the online control is of the time alone",
        rate_words(found.in_quality, found.supported),
        None,
    )


def _real_target(series: Sequence[RealSeries]) -> Target:
    asked = f"at most {plain(MOST_SUPPORTED)}, of at least {LEAST_REAL} whole experiments"
    found = supported(series)
    return _of_real(
        "equal arms called supported, on the reference engine",
        asked,
        found,
        found.value <= MOST_SUPPORTED,
        series,
    )


def _real_coverage(series: Sequence[RealSeries]) -> Target:
    what = "interval holds the truth at every look, on the reference engine"
    asked = f"at least {plain(LEAST_COVERED)}, as the exact interval tells"
    found = held(series)
    return _of_real(what, asked, found, found.bounds()[1] >= LEAST_COVERED, series)


def _of_real(what: str, asked: str, found: Share, met: bool, series: Sequence[RealSeries]) -> Target:
    if not series:
        return Target(what, asked, "not measured", None, "no series of `autoinfer aa` was given")
    enough = found.of >= LEAST_REAL
    launches = sum(each.launches for each in series)
    why = "" if enough else f"the {launches} launches make {found.of} experiments"
    return Target(what, asked, str(found), enough and met, why)


def rate_words(found: FalseRate, supported: int) -> str:
    """The rate with its error and counts."""
    error = "" if found.error is None else f" ± {percent(found.error)}"
    return f"{percent(found.rate)}{error} ({found.false} of {supported} false)"


def all_of(streams: Iterable[Iterable[Compared]]) -> list[Compared]:
    """The hypotheses of all streams."""
    return [each for tested in streams for each in tested]
