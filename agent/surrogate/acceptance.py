"""How many draft tokens are accepted: a prior by method, corrected by what trials report. Pure.

The unknown is the probability that the first draft token is accepted, by method and target. A target with
other weights (pruned, quantized) than the baseline's is expected to accept somewhat less, because what drafts
was made for the original; how much less is learnt for each target apart, from the acceptance lengths that
trials report (`drafting.first_acceptance` inverts them).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from agent.proposers.port import Trial
from agent.surrogate.averaged import Averaged
from agent.surrogate.carried import Carried, by_scope
from agent.surrogate.drafting import drafts, first_acceptance
from agent.surrogate.hearing import Row
from agent.surrogate.levers import LeverView, Target
from agent.surrogate.linear import Features
from experiments.measurement.judging import Outcome

PRIOR: Mapping[str, tuple[float, float]] = {
    "mtp": (0.65, 0.15),
    "ngram": (0.25, 0.2),
    "draft_model": (0.55, 0.2),
    "dflash": (0.5, 0.25),
}
"""Acceptance of the first draft token before any trial, mean and standard deviation by method; judgement: MTP
was trained with the model, repetition depends on the text."""

PRIOR_OTHERWISE = (0.4, 0.3)
"""The same for a method that is not named here."""

DROP = 0.05
"""How much less the first token is expected to be accepted by a target whose weights were changed."""

DROP_SD = 0.08
"""Standard deviation of that, for each target apart."""

REPORT_SE = 0.02
"""Error with which a reported acceptance length speaks of the first token's acceptance on all text."""


@dataclass(frozen=True)
class Acceptance:
    """Acceptance of the first draft token: its mean, the standard deviation that all targets share, and that
    of this target apart."""

    mean: float
    sd: float
    target_sd: float


@dataclass(frozen=True)
class AcceptanceBelief:
    """What is believed after the trials."""

    belief: Averaged

    @classmethod
    def prior(cls) -> AcceptanceBelief:
        """What is believed before any trial."""
        return cls(Averaged.learn([], {}))

    @classmethod
    def learn(
        cls,
        view: LeverView,
        trials: Sequence[Trial],
        carried: Sequence[Carried] = (),
        credit: Mapping[str, float] | None = None,
    ) -> AcceptanceBelief:
        """The belief after all trials that report an acceptance length; whether it paid does not matter.
        Those `carried` over from other campaigns say the less the more their model differs, and the less they
        are believed in the times of the same runs (`credit`, by campaign; 1 of who is not named).

        Confounded ones are left out: something beside what is known of them may have moved it.
        """
        told = {
            scope: [
                (each.discounted_content(features), residual, variance)
                for each in found
                for features, residual, variance in _rows(view, [each.trial])
            ]
            for scope, found in by_scope(carried).items()
        }
        return cls(Averaged.learn(_rows(view, trials), told, credit=credit))

    @cached_property
    def _known(self) -> dict[tuple[str, Target], Acceptance]:
        """What was asked before: many configurations share a method and a target."""
        return {}

    def of(self, method: str, target: Target) -> Acceptance:
        """The acceptance of a method's first draft token by a target."""
        key = (method, target)
        if key not in self._known:
            mean, features = _prior(method, target)
            shared = {name: value for name, value in features.items() if name == method}
            found, variance = self.belief.predict([features, shared])
            whole, common = float(variance[0]), float(variance[1])
            self._known[key] = Acceptance(
                min(1.0, max(0.0, mean + float(found[0]))),
                math.sqrt(common),
                math.sqrt(max(0.0, whole - common)),
            )
        return self._known[key]


def _rows(view: LeverView, trials: Sequence[Trial]) -> list[Row]:
    rows: list[Row] = []
    for trial in trials:
        drafting = drafts(trial.candidate)
        if drafting is None or trial.acceptance_length is None or trial.outcome == Outcome.CONFOUNDED:
            continue
        method, tokens = drafting
        mean, features = _prior(method, view.target(view.settings(trial.candidate)))
        rows.append((features, first_acceptance(trial.acceptance_length, tokens) - mean, REPORT_SE**2))
    return rows


def _prior(method: str, target: Target) -> tuple[float, Features]:
    mean, spread = PRIOR.get(method, PRIOR_OTHERWISE)
    features = {method: spread}
    if target:
        mean -= DROP
        features[f"{method} on {target!r}"] = DROP_SD
    return mean, features
