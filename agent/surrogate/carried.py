"""Outcomes of other campaigns on the same hardware and engine, and how much they say here. Pure.

Whatever is open here was open there, and need not have come out alike: each weight w of the regression is w
there plus a difference of its own for that campaign. An outcome of campaign C has, beside each feature f of
value x, a feature `f in C` of value τ·x, so that what C found counts here with the standard deviation τ, in
units of what was open at first, however much C measured. Where several campaigns agree their differences
cancel; where they do not, none of them is believed.

    τ² = SAME_SHARE² + differences · DIFFERENT_SHARE²

with one difference for another model, and one for another workload. The shares are stated, not learnt; that
they were too small is learnt by the scale of all spreads (`linear.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from agent.proposers.port import Trial
from agent.surrogate.linear import Features

SAME_SHARE = 0.3
"""Standard deviation of what another campaign of the same model and workload finds differently, as a share of
what was open before either; judgement: other launches, another day, another version of the engine."""

DIFFERENT_SHARE = 0.5
"""The same for each thing that differs; judgement."""

COUNTS = 0.5
"""What a run or a failure of another campaign counts towards the chance that something runs here."""


@dataclass(frozen=True)
class Carried:
    """A trial of another campaign.

    `scope` is that campaign's label; `same_model` and `same_workload` say what of its ground is the same
    besides the hardware and the engine. `tpot_ms` is what its trial 0 takes, by which the parts of a step had
    other shares there; None where that is not known, and shares are taken to be as here.
    """

    trial: Trial
    scope: str
    same_model: bool
    same_workload: bool
    tpot_ms: float | None = None

    @property
    def share(self) -> float:
        """τ: the standard deviation of what may differ, as a share of what was open."""
        differences = (not self.same_model) + (not self.same_workload)
        return math.sqrt(SAME_SHARE**2 + differences * DIFFERENT_SHARE**2)

    def discounted(self, features: Features) -> Features:
        """The features of its outcome, with those of what may differ between there and here."""
        apart = {f"{name} in {self.scope}": self.share * value for name, value in features.items()}
        return {**features, **apart}
