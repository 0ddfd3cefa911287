"""False discoveries over streams of hypotheses, with the campaign's online control and without."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from experiments.measurement.judging import Outcome
from tests.proofs.counting import Share
from tests.proofs.hypothesis_streams import LOST_BITS
from tests.proofs.stopping_early import Compared


@dataclass(frozen=True)
class FalseRate:
    """False discoveries in one respect: how many, and `rate`, the mean over streams of false over all
    discoveries (0 where there is none), with three of its standard errors, None with one stream."""

    false: int
    rate: float
    error: float | None


@dataclass(frozen=True)
class Discoveries:
    """What streams called supported: those that are false in their time, which the online control is of, or
    in their quality, which it is not; and the truths that they found."""

    streams: int
    supported: int
    in_time: FalseRate
    in_quality: FalseRate
    worth_having: int
    found: int

    @property
    def power(self) -> Share:
        """The share of hypotheses worth having that were supported."""
        return Share(self.found, self.worth_having)


def discoveries(streams: Sequence[Sequence[Compared]]) -> Discoveries:
    """Count over whole streams, by where the judge stopped."""
    everything = [each for tested in streams for each in tested]
    worth = [each for each in everything if each.worth_having]
    return Discoveries(
        streams=len(streams),
        supported=sum(each.early is Outcome.SUPPORTED for each in everything),
        in_time=_rate(streams, lambda each: not each.worth_having and each.kind not in LOST_BITS),
        in_quality=_rate(streams, lambda each: each.kind in LOST_BITS),
        worth_having=len(worth),
        found=sum(each.early is Outcome.SUPPORTED for each in worth),
    )


def _rate(streams: Sequence[Sequence[Compared]], false: Callable[[Compared], bool]) -> FalseRate:
    called = [[each for each in tested if each.early is Outcome.SUPPORTED] for tested in streams]
    wrong = [sum(map(false, each)) for each in called]
    rates = [count / max(1, len(each)) for count, each in zip(wrong, called, strict=True)]
    error = 3 * stdev(rates) / math.sqrt(len(rates)) if len(rates) > 1 else None
    return FalseRate(sum(wrong), fmean(rates), error)
