"""What measurements add to the physics prior of latency. Pure.

A configuration's log TPOT over the baseline's is what physics expects (`composed.py`), plus a residual that
is linear in features: of levers whose part of the step is known one for each thing that is open of a part,
of others one *lever* feature, shared by all its settings ("the prior is wrong about pruning"), one a *knob
value* ("and about three layers in particular"), in part shared with its neighbours where values lie along a
scale (`ordered.py`), and one a pair of levers. The features are scaled so that together they carry the
expectation's standard deviation. A verdict's effect is a row: features of the
candidate minus those of the control, weighted by the effect's standard error. Refuted and inconclusive ones
teach like supported ones; confounded ones don't, since something else moved them, and effects on other
metrics than latency don't either. A profile of the candidate's step is a row for each kind of part that a
lever acts on, and outcomes of other campaigns are rows of less weight (`carried.py`).

A campaign measures both arms of a trial side by side, so that each effect has an error of its own. Where
trials share a measurement (in a replay trial 0 is measured once, and all that is tried is held against it)
they share its error, which is one unknown more: a trial 0 that came out slow by chance makes all look fast.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from agent.proposers.port import Measured, Trial
from agent.surrogate.acceptance import AcceptanceBelief
from agent.surrogate.averaged import BELIEVED, Averaged, believed
from agent.surrogate.carried import Carried, by_scope
from agent.surrogate.composed import composed, of_part
from agent.surrogate.hearing import FARTHEST, Row, heard
from agent.surrogate.kernel_parts import PROFILED, KernelParts
from agent.surrogate.levers import LeverView
from agent.surrogate.linear import Features, LinearBelief
from agent.surrogate.physics import Physics
from experiments.measurement.judging import Outcome
from experiments.measurement.plan import Prediction
from experiments.space.configuration import Configuration

INTERACTION_SD_LOG = 0.02
"""What adding levers on the log scale leaves out, per measured or predicted ratio."""

LAUNCHES_SD_LOG = 0.035
"""What a measured ratio is off by beside that and its standard error, which is of samples within launches:
two launches of one configuration differ. With it a ratio is open by 0.04 in all; of 0.02, 0.04, 0.06 and 0.1
this gave outcomes the best likelihood on the reference engine's table, and on the H200's: each chooses it for
the other."""

EFFECT_SE_LOG = 0.05
"""Standard error of an effect that came without one (no degrees of freedom): one launch pair of a noisy
CPU."""

PART_SE_LOG = 0.05
"""Standard error of the time of a kind of part as an outcome: a few profiled steps, at one request and a
short prompt whatever the campaign's workload is."""


@dataclass(frozen=True)
class LatencyBelief:
    """Physics corrected by trials."""

    view: LeverView
    physics: Physics
    belief: Averaged
    told: tuple[tuple[Carried, Row], ...] = ()
    """The rows of other campaigns, each with the trial that it is of."""
    near: Features = field(default_factory=dict)
    """What was open, by name, as profiles of candidates told it: near there sums of parts are linear."""

    @classmethod
    def learn(
        cls,
        view: LeverView,
        physics: Physics,
        trials: Sequence[Trial],
        carried: Sequence[Carried] = (),
    ) -> LatencyBelief:
        """The belief after all trials that measured an effect on latency, and those `carried` over from other
        campaigns."""
        apart = by_scope(carried)
        alone = cls._before(view, replace(physics, acceptance=AcceptanceBelief.learn(view, trials)))
        begun = alone
        if any(each.trial.acceptance_length is not None for each in carried):
            # by what is known of acceptance without them: else a lie in both would bear itself out
            credit = {scope: alone._there(found)._credit(found) for scope, found in apart.items()}
            accepted = AcceptanceBelief.learn(view, trials, carried, credit)
            begun = cls._before(view, replace(physics, acceptance=accepted))
        told: list[tuple[Carried, Row]] = []
        sources: dict[str, list[Row]] = {}
        turned: dict[str, list[Row]] = {}
        for scope, found in apart.items():
            there = begun._there(found)
            rows = [(each, row) for each in found for row in there._rows_of_others(each)]
            told += rows
            sources[scope] = [row for _, row in rows]
            turned[scope] = [row for each in found for row in there._rows_of_others(each.turned)]
        begun = replace(begun, near=begun._told_by_profiles(trials))
        own = [row for trial in trials for row in begun._rows(trial)]
        return replace(begun, belief=Averaged.learn(own, sources, FARTHEST, turned), told=tuple(told))

    @classmethod
    def _before(cls, view: LeverView, physics: Physics) -> LatencyBelief:
        """What is believed before any outcome."""
        there = replace(physics, resemblance=view.resemblance)
        return cls(view, there, Averaged.learn([], {}, FARTHEST))

    def _there(self, carried: Sequence[Carried]) -> LatencyBelief:
        """The same on the ground of one other campaign."""
        return replace(self, physics=_there(self.physics, carried[0]))

    def _credit(self, carried: Sequence[Carried]) -> float:
        """How far what a campaign on this ground tells of times is believed at first: 1 where physics has
        nothing against it."""
        rows = [row for each in carried for row in self._rows_of_others(each)]
        turned = [row for each in carried for row in self._rows_of_others(each.turned)]
        return believed(rows, turned) / BELIEVED

    def _rows(self, trial: Trial) -> list[Row]:
        """What a trial teaches: its effect, and the parts of its candidate's step where that was profiled."""
        whole = self._row(trial)
        return [*self._part_rows(trial), *([] if whole is None else [whole])]

    def _rows_of_others(self, carried: Carried) -> list[Row]:
        """What a trial of another campaign teaches; nothing where that is of another loop of steps."""
        if carried.is_of_another_loop:
            return []
        return [
            (carried.discounted(features), residual, variance)
            for features, residual, variance in self._rows(carried.trial)
        ]

    def _told_by_profiles(self, trials: Sequence[Trial]) -> Features:
        """What profiles tell of what is open of parts, by name: of one part by itself nothing is a sum."""
        rows = heard([row for trial in trials for row in self._part_rows(trial)])
        if not rows:
            return {}
        learnt = LinearBelief.learn(*zip(*rows, strict=True))
        return dict(zip(learnt.names, map(float, learnt.mean), strict=True))

    def _part_rows(self, trial: Trial) -> Iterator[Row]:
        own, profiled = self.physics.own, KernelParts.of(trial.profile, self.physics.bandwidth_bytes_per_s)
        if own is None or profiled is None or trial.outcome == Outcome.CONFOUNDED:
            return
        settings = self.view.settings(trial.candidate)
        for part in PROFILED:
            found = of_part(self.physics, settings, self.view.target(settings), part)
            before_ms, after_ms = own.time_ms.get(part), profiled.time_ms.get(part)
            if found is not None and before_ms and after_ms:
                mean, features = found
                yield features, math.log(after_ms / before_ms) - mean, PART_SE_LOG**2

    def after(self, trial: Trial) -> LatencyBelief:
        """The belief after one trial more, that reports no acceptance length and no profile of a step by
        kernels: these change what is expected of the others too, and raise `ValueError`."""
        if trial.acceptance_length is not None:
            raise ValueError("what is believed of acceptance is learnt from all trials at once")
        if any(self._part_rows(trial)):
            raise ValueError("what profiles tell of parts is learnt from all trials at once")
        row = self._row(trial)
        return self if row is None else replace(self, belief=self.belief.after(*row))

    def _row(self, trial: Trial) -> Row | None:
        """Features, residual and its variance of a trial; None of one that teaches nothing."""
        if trial.effect_log is None or trial.outcome == Outcome.CONFOUNDED or not trial.on_objective:
            return None
        mean, features = self.contrast(trial.control, trial.candidate)
        if trial.arms is not None:
            before, after = trial.arms
            shared = {**features, _error_of(before): -_error_sd(before), _error_of(after): _error_sd(after)}
            return shared, trial.effect_log - mean, INTERACTION_SD_LOG**2
        error = trial.effect_se_log if trial.effect_se_log is not None else EFFECT_SE_LOG
        return features, trial.effect_log - mean, error**2 + INTERACTION_SD_LOG**2 + LAUNCHES_SD_LOG**2

    def contrast(self, control: Configuration, candidate: Configuration) -> tuple[float, Features]:
        """Mean of log(candidate / control) where nothing open is otherwise than physics expects, and the
        features of the residual, which is linear around `near`."""
        (before, less), (after, more) = self._of(control), self._of(candidate)
        features = dict(more)
        for name, value in less.items():
            features[name] = features.get(name, 0.0) - value
        return after - before, features

    @property
    def launches_sd_log(self) -> float:
        """What of each prediction's spread is between launches: it will be measured, and can't be won."""
        return self.belief.scale * LAUNCHES_SD_LOG

    @cached_property
    def _known(self) -> dict[Configuration, tuple[float, Features]]:
        """What was derived before: many pairs share a control."""
        return {}

    def _of(self, configuration: Configuration) -> tuple[float, Features]:
        """The same of log(configuration / baseline)."""
        if configuration not in self._known:
            settings = self.view.settings(configuration)
            target = self.view.target(settings)
            self._known[configuration] = composed(self.physics, settings, target, self.near)
        return self._known[configuration]

    def rests_on(self, control: Configuration, candidate: Configuration) -> dict[str, float]:
        """What moves the expected log of candidate over control, and by how much: labels of findings of other
        campaigns (of the campaign where its verdict bears on none), the largest first."""
        features = self.contrast(control, candidate)[1]
        moved = self.belief.moved_by(features, [(each.scope, row) for each, row in self.told])
        found: dict[str, float] = {}
        for (each, _), log in zip(self.told, moved, strict=True):
            label = each.finding or each.scope
            found[label] = found.get(label, 0.0) + log
        return dict(sorted(found.items(), key=lambda item: -abs(item[1])))

    def predict(self, pairs: Sequence[tuple[Configuration, Configuration]]) -> list[Prediction]:
        """Log of candidate over control for each (control, candidate), as a normal."""
        contrasts = [self.contrast(control, candidate) for control, candidate in pairs]
        means, variances = self.belief.predict([features for _, features in contrasts])
        left_out = self.belief.scale * INTERACTION_SD_LOG
        return [
            Prediction(
                log_ratio_mean=physics + float(mean),
                log_ratio_sd=math.hypot(math.sqrt(variance), left_out, self.launches_sd_log),
            )
            for (physics, _), mean, variance in zip(contrasts, means, variances, strict=True)
        ]

    def foretold(
        self, control: Configuration, measured: Measured, candidate: Configuration, se_log: float
    ) -> Prediction:
        """Log of what a measurement of the candidate, with this standard error, will tell over what the
        control's measurement told: of that one's error is known what all trials that share it say."""
        physics, features = self.contrast(control, candidate)
        shared = {**features, _error_of(measured): -_error_sd(measured)}
        mean, variance = self.belief.predict([shared])
        own = math.hypot(INTERACTION_SD_LOG, _error_sd(Measured("", se_log)))
        spread = math.hypot(math.sqrt(float(variance[0])), self.belief.scale * own)
        return Prediction(log_ratio_mean=physics + float(mean[0]), log_ratio_sd=spread)


def _error_of(measured: Measured) -> str:
    """The feature of what a measurement is off by."""
    return f"error of {measured.name}"


def _error_sd(measured: Measured) -> float:
    """How far it may be off: by its samples, and by its launch, half of the variance of two of them."""
    return math.hypot(measured.se_log, LAUNCHES_SD_LOG / math.sqrt(2))


def _there(here: Physics, carried: Carried) -> Physics:
    """Physics of the ground that a trial comes from, as far as it is known.

    Where its step was not profiled its parts have the shares that they have here: without any, what is said
    of a lever there would be about other features than what is expected of it here, and tell nothing.
    """
    if carried.tpot_ms is None:
        return here
    if carried.same_hardware:
        return replace(here, tpot_ms=carried.tpot_ms)
    return replace(
        here,
        tpot_ms=carried.tpot_ms,
        bandwidth_bytes_per_s=carried.bandwidth_bytes_per_s,
        profile=carried.profile or here.profile,
        timed=None,
        incumbent_profile=(),
        swept_log={},
    )
