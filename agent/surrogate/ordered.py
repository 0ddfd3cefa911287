"""What is open of one value of a knob, and what values of an ordered one have in common of it. Pure.

What is open of a value is one unknown of its own where a knob chooses between things: a corpus, a kernel, on
or off. Where all its values are numbers they lie along a scale, neighbours resemble each other, and what is
open of a value v is z(v), of variance 1 as before, with

    corr(z(v), z(w)) = ADJACENT ** (steps from v to w)

which is an Ornstein-Uhlenbeck process (Rasmussen and Williams, *Gaussian Processes for Machine Learning*,
§4.2.1). In a regression whose unknowns are independent z(v) is a row of the Cholesky factor of these
correlations over the knob's domain: `serving.threads from 4 on` is what is new at 4, and all that lie beyond
have a part of it. So before any outcome no value is more or less open over the baseline than with an unknown
for each; of one value over another less is open, by what they have in common.

**Scale.** A step is the mean distance of adjacent values of the domain, in logs where these are the more even
ones there (1, 2, 4, 8), so that m values are m − 1 steps long however they are spaced.

**The baseline.** Effects are over the baseline's, of which nothing is open. What lies below it and what lies
above are walks that have no step in common, and tell nothing of each other: an effect that goes on in one
direction turns its sign there, one that is best in the middle does not.

**Outside the domain**, as values of other campaigns may lie, and those of a user whose space was narrowed
since: z there is as far as it is foretold by the domain's, and for the rest has an unknown of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import pairwise
from statistics import fmean, pstdev

import numpy as np

from agent.surrogate.linear import Array, Features
from experiments.space.configuration import KnobValue
from experiments.space.knob import Knob
from experiments.space.space import Space

ADJACENT = 0.7
"""Correlation of what is open of two adjacent values: what comes out of one explains half (0.7²) of what is
open of its neighbour, a quarter two steps on, next to nothing six steps on. Judgement, before any replay."""

TOGETHER = 1e-6
"""Steps: a scale on which values lie nearer together than this tells them apart no better than rounding."""

LEAST = 1e-6
"""Below this the weight of an unknown is rounding, such as of what a value of the domain has of its own."""


@dataclass(frozen=True)
class OrderedKnob:
    """A knob whose values lie along a scale: its domain without the baseline's value, which is `start` (None
    where the knob is not active there). `places` are where these lie, in steps."""

    name: str
    values: tuple[float, ...]
    places: tuple[float, ...]
    step: float
    in_logs: bool
    start: float | None

    @classmethod
    def of(cls, knob: Knob, start: KnobValue | None) -> OrderedKnob | None:
        """The knob as a scale; None of one that chooses between things, has but one value, or has values that
        no scale tells apart."""
        domain = sorted({value for value in map(_number, knob.values) if value is not None})
        if len(domain) < max(2, len(knob.values)):
            return None
        in_logs, step = _scale(tuple(domain))
        begins = _number(start)
        kept = tuple(value for value in domain if value != begins)
        places = tuple((math.log(value) if in_logs else value) / step for value in kept)
        if min(_gaps(places), default=math.inf) < TOGETHER:
            return None
        return cls(knob.name, kept, places, step, in_logs, begins)

    def unknowns(self, value: float) -> Features | None:
        """z of a value, as weights of independent unknowns whose squares add up to 1, without what it has of
        its own; None of one that has no place on the scale."""
        if self.in_logs and value <= 0:
            return None
        place = (math.log(value) if self.in_logs else value) / self.step
        alike = np.array([self._alike(value, place, *each) for each in self._domain])
        weights = np.linalg.solve(self._factor, alike)
        named = zip(self.values, weights.tolist(), strict=True)
        return {f"{self.name} from {each!r} on": weight for each, weight in named if abs(weight) > LEAST}

    @property
    def _domain(self) -> list[tuple[float, float]]:
        return list(zip(self.values, self.places, strict=True))

    @cached_property
    def _factor(self) -> Array:
        rows = [[self._alike(*one, *other) for other in self._domain] for one in self._domain]
        return np.linalg.cholesky(np.array(rows))

    def _alike(self, one: float, at: float, other: float, there: float) -> float:
        """The correlation of two values."""
        if self.start is not None and (one - self.start) * (other - self.start) < 0:
            return 0.0
        return float(ADJACENT ** abs(at - there))


@dataclass(frozen=True)
class Resemblance:
    """Which knobs of a space are ordered, by name; of none nothing resembles anything."""

    ordered: Mapping[str, OrderedKnob] = field(default_factory=dict)

    @classmethod
    def of(cls, space: Space, baseline: Mapping[str, KnobValue]) -> Resemblance:
        """The ordered knobs of a space, by the kind of their values."""
        found = (OrderedKnob.of(knob, baseline.get(knob.name)) for knob in space.knobs)
        return cls({each.name: each for each in found if each is not None})

    def open(self, knob: str, value: KnobValue | None, sd: float) -> Features:
        """The features of what is open of a knob's value (None: it is not active), of this standard deviation
        in all."""
        key = (knob, type(value), value, sd)
        if key not in self._known:
            unknowns = self._unknowns(knob, value)
            self._known[key] = {name: weight * sd for name, weight in unknowns.items()}
        return self._known[key]

    def of_all(self, knobs: Mapping[str, KnobValue | None], sd: float) -> dict[str, float]:
        """The features of what is open of each of these knobs' values, of this standard deviation each."""
        found: dict[str, float] = {}
        for knob, value in knobs.items():
            found.update(self.open(knob, value, sd))
        return found

    @cached_property
    def _known(self) -> dict[tuple[str, type, KnobValue | None, float], Features]:
        """What was derived before: many configurations share a value, and few spreads are asked of it."""
        return {}

    def _unknowns(self, knob: str, value: KnobValue | None) -> Features:
        scale, number = self.ordered.get(knob), _number(value)
        shared = None if scale is None or number is None else scale.unknowns(number)
        own = math.sqrt(max(0.0, 1 - math.fsum(weight**2 for weight in (shared or {}).values())))
        return {**(shared or {}), **({f"{knob}={value!r}": own} if own > LEAST else {})}


def _number(value: KnobValue | None) -> float | None:
    """The value as a number; None of words and switches."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


@lru_cache(maxsize=4096)
def _scale(domain: tuple[float, ...]) -> tuple[bool, float]:
    """Whether values lie evenly in their logarithms, and the mean step of them; known after the first look,
    for every belief is built over the same few domains."""
    logs = [*map(math.log, domain)] if domain[0] > 0 else []
    in_logs = bool(logs) and _unevenness(logs) < _unevenness(domain)
    return in_logs, fmean(_gaps(logs if in_logs else domain))


def _gaps(domain: Sequence[float]) -> list[float]:
    return [after - before for before, after in pairwise(domain)]


def _unevenness(domain: Sequence[float]) -> float:
    """How much the distances of adjacent values differ, over their mean."""
    gaps = _gaps(domain)
    return pstdev(gaps) / fmean(gaps)
