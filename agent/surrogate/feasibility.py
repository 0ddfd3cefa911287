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

The prior of a setting is one in fifty, corrected by what the other settings of its lever came to. A candidate
that failed itself runs again with `FAILED_BEFORE` only: it is not run again blindly. A failure of the control
says nothing about the candidate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import TypeAlias

from agent.proposers.port import Trial
from agent.surrogate.carried import COUNTS, MOST_COUNTED, Carried, trials_of
from agent.surrogate.levers import LeverView, Setting
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

CONTROL_FAILED = "control"
"""Failure kind of an experiment whose control did not run."""

MOST_PASSES = 50
"""Passes over all failures; a dozen are enough where failures share few settings."""

CLOSE = 1e-6
"""Change of log odds below which nothing moves any more."""


@dataclass(frozen=True)
class FeasibilityBelief:
    """What ran (how often, by cause) and what failed (its causes, and how much it counts)."""

    view: LeverView
    ran: Mapping[Cause, float] = field(default_factory=dict)
    failures: tuple[tuple[tuple[Cause, ...], float], ...] = ()
    failed: frozenset[Configuration] = frozenset()
    others: FeasibilityBelief | None = None
    """What other campaigns told, each outcome counted less."""

    @classmethod
    def learn(
        cls, view: LeverView, trials: Sequence[Trial], carried: Sequence[Carried] = ()
    ) -> FeasibilityBelief:
        """What all trials say whose candidate ran or failed; those `carried` over from other campaigns count
        less, and what failed there may be tried here."""
        others = cls(view)._with(trials_of(carried), COUNTS) if carried else None
        return cls(view, others=others)._with(trials)

    def after(self, trial: Trial) -> FeasibilityBelief:
        """The belief after one trial more."""
        return self._with([trial])

    def _with(self, trials: Sequence[Trial], weight: float = 1.0) -> FeasibilityBelief:
        ran, failures, failed = dict(self.ran), list(self.failures), set(self.failed)
        for trial in trials:
            if trial.failure_kind == CONTROL_FAILED:
                continue
            causes = _causes(self.view.settings(trial.candidate))
            if trial.outcome == Outcome.INFEASIBLE:
                failed.add(trial.candidate)
                failures.append((causes, weight))
            else:
                failed.discard(trial.candidate)
                for cause in causes:
                    ran[cause] = ran.get(cause, 0.0) + weight
        return FeasibilityBelief(self.view, ran, tuple(failures), frozenset(failed), self.others)

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
        levers = {cause[0][0] for cause in self._broken if len(cause) == 1}
        return {lever: _lever_share(self._broken, lever) for lever in levers}

    @cached_property
    def _broken(self) -> dict[Cause, float]:
        """The chance to be broken of each cause that was tried."""
        others = self.others or FeasibilityBelief(self.view)
        failures = [(causes, weight, False) for causes, weight in self.failures]
        failures += [(causes, weight, True) for causes, weight in others.failures]
        tried = sorted(
            {*self.ran, *others.ran, *(cause for causes, *_ in failures for cause in causes)}, key=repr
        )
        told = dict(others.ran)
        for causes, weight in others.failures:
            for cause in causes:
                told[cause] = told.get(cause, 0.0) + weight
        least = {cause: min(1.0, MOST_COUNTED / count) if count else 1.0 for cause, count in told.items()}
        runs = {
            cause: self.ran.get(cause, 0.0) + least.get(cause, 1.0) * others.ran.get(cause, 0.0)
            for cause in tried
        }
        said: dict[tuple[int, Cause], float] = {
            (number, cause): 0.0 for number, (causes, *_) in enumerate(failures) for cause in causes
        }
        broken = {cause: _share(PRIOR) if len(cause) == 1 else PAIR_BROKEN for cause in tried}
        for _ in range(MOST_PASSES):
            blamed = dict.fromkeys(tried, 0.0)
            for (_, cause), log_odds in said.items():
                blamed[cause] += log_odds
            odds = {
                cause: _logit(_lever_share(broken, cause[0][0], cause) if len(cause) == 1 else PAIR_BROKEN)
                + runs[cause] * math.log(FAILED_BEFORE)
                + blamed[cause]
                for cause in tried
            }
            new: dict[tuple[int, Cause], float] = {}
            for number, (causes, weight, elsewhere) in enumerate(failures):
                without = [_chance(odds[cause] - said[number, cause]) for cause in causes]
                for place, cause in enumerate(causes):
                    rest = math.prod(
                        1 - (1 - FAILED_BEFORE) * chance for k, chance in enumerate(without) if k != place
                    )
                    ratio = (1 - FAILED_BEFORE) / (1 - (1 - BY_CHANCE) * rest)
                    counts = weight * least.get(cause, 1.0) if elsewhere else weight
                    new[number, cause] = counts * max(0.0, math.log(ratio))
            moved = max((abs(new[key] - said[key]) for key in said), default=0.0)
            before, broken = broken, {cause: _chance(value) for cause, value in odds.items()}
            moved = max([moved, *(abs(broken[cause] - before[cause]) for cause in tried)])
            said = {key: (said[key] + value) / 2 for key, value in new.items()}  # halfway, so that it settles
            if moved < CLOSE:
                break
        return broken


def _causes(settings: Mapping[str, Setting]) -> tuple[Cause, ...]:
    """The settings and the pairs of them, in the order of their levers."""
    singles = sorted(settings.items())
    return (*((each,) for each in singles), *combinations(singles, 2))


def _lever_share(broken: Mapping[Cause, float], lever: str, but: Cause = ()) -> float:
    """The share of a lever's settings that are broken, by those tried, but for one."""
    chances = [chance for cause, chance in broken.items() if len(cause) == 1 and cause[0][0] == lever]
    if but:
        chances.remove(broken[but])
    good, bad = PRIOR
    return _share((good + math.fsum(1 - each for each in chances), bad + math.fsum(chances)))


def _share(counts: tuple[float, float]) -> float:
    return counts[1] / (counts[0] + counts[1])


def _logit(chance: float) -> float:
    return math.log(chance / (1 - chance))


def _chance(log_odds: float) -> float:
    return 1 / (1 + math.exp(-max(-700.0, min(700.0, log_odds))))
