"""The probability that a configuration runs at all, learnt from what did not. Pure.

Whether a setting runs on one target is nearly the same every time. So each setting of a lever, and each pair
of settings, either is *broken* or is not, and a configuration runs if nothing in it is broken (a noisy AND:
Pearl, *Probabilistic Reasoning in Intelligent Systems*, 1988, §4.3.2) and nothing fails by chance. What is
kept is how often each ran, and which of them were in what failed. With b the chance to be broken, in odds,

    odds(b) = prior · FAILED_BEFORE^runs · Π over failures (1 − FAILED_BEFORE) / r
    r = 1 − (1 − BY_CHANCE) · Π over the others in it (1 − (1 − FAILED_BEFORE) · b)

where r is the chance that it fails though this one is whole, and each b in it is as it stands without that
failure. So a failure is blamed on what is doubted already: a setting that ran is nearly cleared, and who
fails beside it is nearly certain. The equations are solved by passing over all failures until nothing moves
(loopy belief propagation, an approximation where failures share settings in a circle), whatever order they
came in.

Where the engine's own words put a failure down to knobs, it tells of their settings alone: what holds none of
them is not in the product, and a pair of which one is named takes part with `ONE_NAMED` of its chance, for
the words would have had to leave the other out. Words that name nothing that was changed are as none.

The prior of a setting is one in fifty, corrected by what the other settings of its lever came to. What the
baseline's sweep tried counts as what tests did. A candidate that failed itself runs again with
`FAILED_BEFORE` only: it is not run again blindly. A failure of the control says nothing about the candidate.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import NamedTuple, TypeAlias

import numpy as np

from agent.proposers.port import Trial
from agent.surrogate.carried import MOST_COUNTED, Carried, trials_of
from agent.surrogate.levers import LeverView, Setting
from agent.surrogate.linear import Array
from experiments.engines.port import Blames
from experiments.measurement.judging import Outcome
from experiments.space.configuration import Configuration

Cause: TypeAlias = tuple[tuple[str, Setting], ...]
"""What may be broken: one setting with its lever, or two."""

PRIOR = (9.8, 0.2)
"""Settings of a lever that run and that are broken before any trial: one in fifty does not run, which weighs
as much as ten settings. In the reference engine's table 5 of 301 settings of levers did not, in the H200's
none of 41, and compilers, drafters and quantizers no more often than others."""

PAIR_BROKEN = 0.002
"""The chance that two settings fail together though each runs: a tenth of that of a setting; judgement."""

BY_CHANCE = 0.002
"""The chance that what is whole does not run, out of memory beside other work, say: as often; judgement."""

FAILED_BEFORE = 0.05
"""The chance that the very same configuration, having failed, runs the next time, and that what holds
something broken runs; judgement."""

ONE_NAMED = 0.1
"""The chance that words name one setting alone where it fails only together with another; judgement: a check
that knows of both names both."""

CONTROL_FAILED = "control"
"""Failure kind of an experiment whose control did not run."""

MOST_PASSES = 50
"""Passes over all failures; a dozen are enough where failures share few settings."""

CLOSE = 1e-6
"""Change of log odds below which nothing moves any more."""

MOST_LOG_ODDS = 700.0
"""Log odds beyond which a chance is counted as there: the exponential of 710 is no number any more."""


@dataclass(frozen=True)
class Tried:
    """A configuration that was tried: whether it ran, and what its failure was put down to."""

    configuration: Configuration
    ran: bool
    blames: Blames = field(default_factory=dict)


@dataclass(frozen=True)
class Failed:
    """A failure: each cause that it may have, with the chance that it fails so and is told so where that is
    broken; and how much it `counts`."""

    causes: tuple[tuple[Cause, float], ...]
    counts: float


@dataclass(frozen=True)
class FeasibilityBelief:
    """What ran (how often, by cause) and what failed."""

    view: LeverView
    ran: Mapping[Cause, float] = field(default_factory=dict)
    failures: tuple[Failed, ...] = ()
    failed: frozenset[Configuration] = frozenset()
    others: FeasibilityBelief | None = None
    """What other campaigns told, each outcome counted less."""

    @classmethod
    def learn(
        cls,
        view: LeverView,
        trials: Sequence[Trial],
        carried: Sequence[Carried] = (),
        swept: Sequence[Tried] = (),
    ) -> FeasibilityBelief:
        """What all trials say whose candidate ran or failed, and the baseline's sweep; those `carried` over
        from other campaigns count as they say (`Carried.counts`), and what failed there may be tried here."""
        others = cls(view) if carried else None
        for counts in sorted({each.counts for each in carried}):
            alike = _tried(trials_of([each for each in carried if each.counts == counts]))
            others = (others or cls(view))._with(alike, counts)
        return cls(view, others=others)._with([*swept, *_tried(trials)])

    def after(self, trial: Trial) -> FeasibilityBelief:
        """The belief after one trial more."""
        return self._with(_tried([trial]))

    def _with(self, tried: Iterable[Tried], weight: float = 1.0) -> FeasibilityBelief:
        ran, failures, failed = dict(self.ran), list(self.failures), set(self.failed)
        for each in tried:
            if not each.ran:
                failed.add(each.configuration)
                failures += [Failed(causes, weight) for causes in self._failed(each)]
            else:
                failed.discard(each.configuration)
                for cause in _causes(self.view.settings(each.configuration)):
                    ran[cause] = ran.get(cause, 0.0) + weight
        return FeasibilityBelief(self.view, ran, tuple(failures), frozenset(failed), self.others)

    def _failed(self, tried: Tried) -> Iterator[tuple[tuple[Cause, float], ...]]:
        """The causes that a failure may have, and those that it may have had with the values that the engine
        told to run behind those it was asked for."""
        levers = {self.view.lever(knob) for knob in tried.blames}
        causes = _causes(self.view.settings(tried.configuration))
        yield _named(causes, levers) or tuple((cause, 1 - FAILED_BEFORE) for cause in causes)
        for knob, value in tried.blames.items():
            if value is not None:
                behind = Configuration.of({**tried.configuration, knob: value})
                yield _named(_causes(self.view.settings(behind)), {self.view.lever(knob)})

    def probability(self, candidates: Sequence[Configuration]) -> list[float]:
        """For each candidate the probability that it runs."""
        return [self._of(candidate) for candidate in candidates]

    def _of(self, candidate: Configuration) -> float:
        if candidate in self.failed:
            return FAILED_BEFORE
        causes = _causes(self.view.settings(candidate))
        broken, lever = self._broken, self._of_lever
        whole = 1 - BY_CHANCE
        for cause in causes:
            chance = broken.get(cause)
            if chance is None:
                chance = PAIR_BROKEN if len(cause) > 1 else lever.get(cause[0][0], _share(PRIOR))
            whole *= 1 - (1 - FAILED_BEFORE) * chance
        return whole

    @cached_property
    def _of_lever(self) -> dict[str, float]:
        """The chance that a setting of a lever is broken that was not tried, by lever."""
        found: dict[str, list[float]] = {}
        for cause, chance in self._broken.items():
            if len(cause) == 1:
                found.setdefault(cause[0][0], []).append(chance)
        return {lever: _broken_share(chances) for lever, chances in found.items()}

    @cached_property
    def _broken(self) -> dict[Cause, float]:
        """The chance to be broken of each cause that was tried."""
        others = self.others or FeasibilityBelief(self.view)
        failures = [(each, False) for each in self.failures] + [(each, True) for each in others.failures]
        tried = sorted(
            {*self.ran, *others.ran, *(cause for failure, _ in failures for cause, _ in failure.causes)},
            key=_order,
        )
        told = dict(others.ran)
        for failure in others.failures:
            for cause, _ in failure.causes:
                told[cause] = told.get(cause, 0.0) + failure.counts
        least = {cause: min(1.0, MOST_COUNTED / count) if count else 1.0 for cause, count in told.items()}
        runs = [
            self.ran.get(cause, 0.0) + least.get(cause, 1.0) * others.ran.get(cause, 0.0) for cause in tried
        ]
        place = {cause: number for number, cause in enumerate(tried)}
        levers: dict[str, list[int]] = {}
        for cause, number in place.items():
            if len(cause) == 1:
                levers.setdefault(cause[0][0], []).append(number)
        blamed = [
            [
                _Blamed(place[cause], share, failure.counts * (least.get(cause, 1.0) if elsewhere else 1.0))
                for cause, share in failure.causes
            ]
            for failure, elsewhere in failures
        ]
        return dict(zip(tried, _solved(runs, list(levers.values()), blamed), strict=True))


class _Blamed(NamedTuple):
    """A cause that a failure may have, by its place among all causes, as in `Failed`."""

    place: int
    share: float
    counts: float


def _solved(
    runs: Sequence[float], levers: Sequence[Sequence[int]], failures: Sequence[Sequence[_Blamed]]
) -> list[float]:
    """The chance to be broken of each cause, which ran so often: the equations at the top of this file.

    `levers` are the places of each lever's settings; all other causes are pairs. Places stand for causes
    since those would be looked up in each pass, which takes longer than all else: they are hashed anew.
    """
    broken, expected = np.full(len(runs), PAIR_BROKEN), np.full(len(runs), _logit(PAIR_BROKEN))
    for settings in levers:
        broken[settings] = _share(PRIOR)
    blamed = [failure for failure in failures if failure]
    sizes = np.array([len(failure) for failure in blamed], dtype=np.intp)
    starts, of = np.cumsum(sizes) - sizes, np.repeat(np.arange(len(blamed)), sizes)
    place = np.array([each.place for failure in blamed for each in failure], dtype=np.intp)
    share = np.array([each.share for failure in blamed for each in failure])
    counts = np.array([each.counts for failure in blamed for each in failure])
    ran = np.array(runs) * math.log(FAILED_BEFORE)
    said = np.zeros(len(place))
    for _ in range(MOST_PASSES):
        for settings in levers:
            shares = _broken_shares_of_others(broken[settings].tolist())
            expected[settings] = [_logit(each) for each in shares]
        odds = expected + ran + np.bincount(place, said, len(runs))
        whole = 1 - share * _chances(odds[place] - said)  # never 0, for no share is 1
        rest = np.multiply.reduceat(whole, starts)[of] / whole
        heard = counts * np.maximum(0.0, np.log(share / (1 - (1 - BY_CHANCE) * rest)))
        before, broken = broken, _chances(odds)
        moved = max(np.abs(heard - said).max(initial=0.0), np.abs(broken - before).max(initial=0.0))
        said = (said + heard) / 2  # halfway, so that it settles
        if moved < CLOSE:
            break
    return list(broken.tolist())


def _tried(trials: Iterable[Trial]) -> Iterator[Tried]:
    """What trials say of their candidates; nothing where the control did not run."""
    for trial in trials:
        if trial.failure_kind != CONTROL_FAILED:
            yield Tried(trial.candidate, trial.outcome != Outcome.INFEASIBLE, trial.blames)


def _named(causes: Sequence[Cause], levers: Collection[str]) -> tuple[tuple[Cause, float], ...]:
    """Of these causes those that hold a setting of the levers that a failure is put down to, with the chance
    that it is told so."""
    found = []
    for cause in causes:
        of_them = [lever in levers for lever, _ in cause]
        if any(of_them):
            found.append((cause, (1 - FAILED_BEFORE) * (1.0 if all(of_them) else ONE_NAMED)))
    return tuple(found)


def _causes(settings: Mapping[str, Setting]) -> tuple[Cause, ...]:
    """The settings and the pairs of them, in the order of their levers."""
    singles = sorted(settings.items())
    return (*((each,) for each in singles), *combinations(singles, 2))


def _order(cause: Cause) -> list[tuple[object, ...]]:
    """Causes by lever, by knob and by value: without the knob first, then numbers by size, then words."""
    return [
        (lever, knob, value is not None, isinstance(value, str), 0 if value is None else value)
        for lever, setting in cause
        for knob, value in setting
    ]


def sums_of_others(values: Sequence[float]) -> list[float]:
    """The sum of all values but the first, of all but the second, and so on; none is negative."""
    whole = math.fsum(values)
    return [max(0.0, whole - each) for each in values]


def _broken_shares_of_others(chances: Sequence[float]) -> list[float]:
    """For each setting of a lever the share of the others that are broken."""
    good, bad = PRIOR
    whole, broken = sums_of_others([1 - each for each in chances]), sums_of_others(chances)
    return [_share((good + one, bad + other)) for one, other in zip(whole, broken, strict=True)]


def _broken_share(chances: Sequence[float]) -> float:
    """The share of a lever's settings that are broken, by the chances of those tried."""
    good, bad = PRIOR
    return _share((good + math.fsum(1 - each for each in chances), bad + math.fsum(chances)))


def _share(counts: tuple[float, float]) -> float:
    return counts[1] / (counts[0] + counts[1])


def _logit(chance: float) -> float:
    return math.log(chance / (1 - chance))


def _chances(log_odds: Array) -> Array:
    odds: Array = np.clip(log_odds, -MOST_LOG_ODDS, MOST_LOG_ODDS)
    return 1 / (1 + np.exp(-odds))
