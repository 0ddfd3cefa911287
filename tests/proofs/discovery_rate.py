"""False discoveries over streams of hypotheses, with the campaign's online control and without."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from experiments.measurement.judging import Outcome
from tests.proofs.counting import Share
from tests.proofs.stopping_early import Compared


@dataclass(frozen=True)
class Discoveries:
    """What streams called supported: false ones, and the truths that they found.

    `rate` is the mean over streams of false over all discoveries (0 where there is none), `error` three of
    its standard errors, None with one stream.
    """

    streams: int
    supported: int
    false: int
    worth_having: int
    found: int
    rate: float
    error: float | None

    @property
    def power(self) -> Share:
        """The share of hypotheses worth having that were supported."""
        return Share(self.found, self.worth_having)


def discoveries(streams: Sequence[Sequence[Compared]]) -> Discoveries:
    """Count over whole streams, by where the judge stopped."""
    rates, supported, false = [], 0, 0
    for tested in streams:
        called = [each for each in tested if each.early is Outcome.SUPPORTED]
        wrong = sum(not each.worth_having for each in called)
        supported, false = supported + len(called), false + wrong
        rates.append(wrong / max(1, len(called)))
    everything = [each for tested in streams for each in tested]
    worth = [each for each in everything if each.worth_having]
    error = 3 * stdev(rates) / math.sqrt(len(rates)) if len(rates) > 1 else None
    return Discoveries(
        streams=len(streams),
        supported=supported,
        false=false,
        worth_having=len(worth),
        found=sum(each.early is Outcome.SUPPORTED for each in worth),
        rate=fmean(rates),
        error=error,
    )
