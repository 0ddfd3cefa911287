"""Outcomes of other campaigns on the same engine, and how much they say here. Pure.

Whatever is open here was open there, and need not have come out alike: each weight w of the regression is w
there plus a difference of its own for that campaign. An outcome of campaign C has, beside each feature f of
value x, a feature `f in C` of value τ·x, so that what C found counts here with the standard deviation τ, in
units of what was open at first, however much C measured. Where several campaigns agree their differences
cancel; where they do not, none of them is believed.

    τ² = SAME_SHARE² + differences · DIFFERENT_SHARE²

with one difference for another model, one for other hardware, one for other versions, and one for another
workload of `WORKLOAD_FACTORS` times as many requests at once or tokens (`workload_distance`). The shares are
stated, not learnt; that they were too small is learnt by the scale of all spreads (`linear.py`), and that a
campaign is not to be believed by what comes out here (`averaged.py`).

Only what physics did not expect is carried: an effect there is held against what physics expects there, of
that ground's own time a token, bandwidth and profile, and what is left moves the expectation here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from agent.proposers.port import Trial
from agent.surrogate.linear import Features
from experiments.engines.port import PartTime
from experiments.measurement.judging import Outcome
from experiments.space.workload_rules import BATCH_TOKENS

SAME_SHARE = 0.3
"""Standard deviation of what another campaign of the same model and workload finds differently, as a share of
what was open before either; judgement: other launches, another day, another version of the engine."""

DIFFERENT_SHARE = 0.5
"""The same for each thing that differs; judgement."""

WORKLOAD_FACTORS = (16.0, 8.0)
"""How many times as many requests at once, and tokens of a prompt, are one difference; judgement."""

COUNTS = 0.5
"""What a run or a failure of another campaign counts towards the chance that something runs here; a failure
of this very machine and software counts whole (`Carried.counts`)."""

MOST_COUNTED = 2.0
"""What all of them count together, at most, of each lever, setting or cost: a few outcomes here overrule
however many there."""

Key = TypeVar("Key")


@dataclass(frozen=True)
class Carried:
    """A trial of another campaign.

    `scope` is that campaign's label; `same_model`, `same_workload`, `same_hardware` and `same_versions` say
    what of its ground is the same besides the engine, `distance` how far another workload is from this one.
    `tpot_ms` is what its trial 0 takes, by which the parts of a step had other shares there; None where that
    is not known, and shares are taken to be as here. Of other hardware `bandwidth_bytes_per_s` and `profile`
    are those of its trial 0. `finding` is the label of the finding that its verdict bears on.
    """

    trial: Trial
    scope: str
    same_model: bool
    same_workload: bool
    tpot_ms: float | None = None
    same_hardware: bool = True
    same_versions: bool = True
    distance: float = 1.0
    bandwidth_bytes_per_s: float | None = None
    profile: tuple[PartTime, ...] = ()
    finding: str = ""

    @property
    def share(self) -> float:
        """τ of a latency: the standard deviation of what may differ, as a share of what was open."""
        differences = (not self.same_hardware) + (0.0 if self.same_workload else self.distance)
        return self._share(differences)

    @property
    def content_share(self) -> float:
        """τ of what the model says, whatever serves it: its quality, and what it accepts of drafts."""
        return self._share(0.0)

    def _share(self, differences: float) -> float:
        all_of_them = differences + (not self.same_model) + (not self.same_versions)
        return math.sqrt(SAME_SHARE**2 + all_of_them * DIFFERENT_SHARE**2)

    @property
    def is_here(self) -> bool:
        """Whether its ground is this one in all that what a test costs depends on."""
        return self.same_model and self.same_workload and self.same_hardware

    @property
    def is_of_another_loop(self) -> bool:
        """Whether tokens of a step were changed under other requests, on another card or of another model:
        what that does is counted for the loop of this ground alone."""
        before, after = (each.get(BATCH_TOKENS) for each in (self.trial.control, self.trial.candidate))
        return not self.is_here and before != after

    @property
    def counts(self) -> float:
        """What it counts towards the chance that something runs here.

        What crashed on the same hardware with the same versions crashes for another model too, nearly every
        time; so does what has no kernel there, where the engine put that down to a knob. What may be of the
        model (its memory, its files, a size that no kernel takes) or was told by another database counts as
        what ran does.
        """
        kind = self.trial.failure_kind
        alike = kind == "crashed" or (kind == "unsupported" and (self.same_model or bool(self.trial.blames)))
        failed = self.trial.outcome is Outcome.INFEASIBLE and alike
        return 1.0 if failed and self.same_hardware and self.same_versions else COUNTS

    @property
    def turned(self) -> Carried:
        """The same with its effect the wrong way round: the control over the candidate."""
        effect = self.trial.effect_log
        return self if effect is None else replace(self, trial=replace(self.trial, effect_log=-effect))

    def discounted(self, features: Features) -> Features:
        """The features of its latency, with those of what may differ between there and here."""
        return self._discounted(features, self.share)

    def discounted_content(self, features: Features) -> Features:
        """The same of its quality or acceptance."""
        return self._discounted(features, self.content_share)

    def _discounted(self, features: Features, share: float) -> Features:
        apart = {f"{name} in {self.scope}": share * value for name, value in features.items()}
        return {**features, **apart}


def workload_distance(one: tuple[int, int], other: tuple[int, int]) -> float:
    """How far two workloads (requests at once, tokens of a prompt) are apart, in differences."""
    return math.fsum(
        abs(math.log(max(1, left) / max(1, right))) / math.log(factor)
        for left, right, factor in zip(one, other, WORKLOAD_FACTORS, strict=True)
    )


def by_scope(carried: Iterable[Carried]) -> dict[str, list[Carried]]:
    """The trials of each campaign, in their order."""
    found: dict[str, list[Carried]] = {}
    for each in carried:
        found.setdefault(each.scope, []).append(each)
    return found


def bounded(counts: Mapping[Key, tuple[float, float]]) -> dict[Key, tuple[float, float]]:
    """Pairs of counts, each made smaller where it is more than `MOST_COUNTED` together."""
    return {
        key: (good * least, bad * least)
        for key, (good, bad) in counts.items()
        for least in (min(1.0, MOST_COUNTED / (good + bad)) if good + bad else 1.0,)
    }


def trials_of(carried: Sequence[Carried]) -> list[Trial]:
    """The trials alone."""
    return [each.trial for each in carried]
