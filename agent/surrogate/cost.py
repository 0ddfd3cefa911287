"""What an experiment is expected to cost, in seconds. Pure.

Measuring costs about the same whatever is measured; what differs is what must be built before, and an
artifact that exists costs nothing. So the cost is a running mean of the measured part, by lever with a prior,
plus what each launch compiles anew, plus the builds that no earlier experiment left behind: a pruned or
quantized checkpoint, compiled code.

Where weights change, their quality is looked at first, in a launch that compiles nothing but the kernels that
multiply packed weights, and mostly that is all there is to see. Such a test costs the checkpoint and that
look; the rest of it is multiplied by the probability that the quality holds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent.proposers.port import Trial
from agent.surrogate.carried import MOST_COUNTED, Carried
from agent.surrogate.cost_priors import (
    COMPILE_S,
    DRAFTER_S,
    PRIOR_WEIGHT,
    REFERENCE_PRIORS,
    SCREENED,
    TRACED_S,
    CostPriors,
)
from agent.surrogate.levers import LeverView, Setting, joined, levers_in
from experiments.space.configuration import Configuration
from experiments.space.legality import EXTERNAL_DRAFTERS

COMPILED_WITH = ("compile", "dtype", "threads", "pruning", "quantization", "drafting")
"""Levers on which compiled code depends: another setting of any of them is compiled anew."""

LATE = frozenset({"compile", "drafting"})
"""What is built once the quality of changed weights was looked at, by the beginning of its key."""

RANKED_ON, ORDER, NONE = "pruning.ranked_on", "pruning.order", "none"
"""Knobs that tie pruning to quantization, and the value of a method that does nothing."""

LEAST_COST_S = 1.0
"""No experiment is expected to cost less, so that a score stays finite."""


@dataclass(frozen=True)
class CostBelief:
    """Expected seconds after the trials.

    `built` holds the keys of what exists. `timed_s` and `screened_s` hold sum and count of experiments'
    seconds, less their builds and traces: of those that were timed by lever, and under the empty name of all
    of them; and of those that ended with the look at their quality.
    """

    view: LeverView
    built: frozenset[str]
    timed_s: Mapping[str, tuple[float, float]]
    screened_s: tuple[float, float]
    priors: CostPriors = REFERENCE_PRIORS
    _found: dict[Configuration, dict[str, float]] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )
    """What must be built for a configuration, once that was worked out."""

    @classmethod
    def learn(
        cls,
        view: LeverView,
        trials: Sequence[Trial],
        built: frozenset[str] = frozenset(),
        priors: CostPriors = REFERENCE_PRIORS,
        carried: Sequence[Carried] = (),
    ) -> CostBelief:
        """Learn from trials in the order they ran; `built` are keys of artifacts that exist besides. Of those
        `carried` over from other campaigns the ones on this very ground count, as a few at most."""
        exists = built | frozenset(build_keys(view, view.baseline))
        begun = cls(view, exists, {}, (0.0, 0), priors)
        there = begun._with([each.trial for each in carried if each.is_here])
        timed_s = {name: _few(mean) for name, mean in there.timed_s.items()}
        return replace(begun, timed_s=timed_s, screened_s=_few(there.screened_s))._with(trials)

    def after(self, trial: Trial) -> CostBelief:
        """The belief after one trial more."""
        return self._with([trial])

    def _with(self, trials: Sequence[Trial]) -> CostBelief:
        exists, timed, screened = set(self.built), dict(self.timed_s), self.screened_s
        found: dict[Configuration, dict[str, float]] = {}
        for trial in trials:
            for each in (trial.control, trial.candidate):
                if each not in found:
                    found[each] = build_keys(self.view, each, self.priors)
            exists.update(found[trial.control])
            ended_early = self._looks_first(trial.lever) and trial.effect_log is None
            needed = {
                key: cost
                for key, cost in found[trial.candidate].items()
                if not (ended_early and _is_late(key))
            }
            spent = trial.cost_s - math.fsum(cost for key, cost in needed.items() if key not in exists)
            exists.update(needed)
            if self._looks_first(trial.lever):
                spent -= self.priors.compiled_s(trial.candidate)
            if ended_early:
                screened = _added(screened, spent)
                continue
            for name in ("", trial.lever):
                timed[name] = _added(timed.get(name, (0.0, 0)), spent - self._anew_s(trial.candidate))
        return CostBelief(self.view, frozenset(exists), timed, screened, self.priors)

    def expected_s(
        self,
        candidates: Sequence[Configuration],
        p_quality: Sequence[float],
        levers: Sequence[str] | None = None,
    ) -> list[float]:
        """For each candidate the expected seconds of its experiment, whose quality holds with the
        probability given; `levers` name what each changes."""
        names = levers or [joined(tuple(self.view.settings(candidate))) for candidate in candidates]
        return [
            self._of(candidate, lever, chance)
            for candidate, lever, chance in zip(candidates, names, p_quality, strict=True)
        ]

    def builds_s(
        self,
        candidates: Sequence[Configuration],
        p_quality: Sequence[float],
        levers: Sequence[str] | None = None,
    ) -> list[Mapping[str, float]]:
        """For each candidate what of its expected seconds builds an artifact that is not there, by its key:
        who else needs the same artifact need not build it again."""
        names = levers or [joined(tuple(self.view.settings(candidate))) for candidate in candidates]
        return [
            {
                key: cost * (chance if self._looks_first(lever) and _is_late(key) else 1.0)
                for key, cost in self._missing(candidate).items()
            }
            for candidate, lever, chance in zip(candidates, names, p_quality, strict=True)
        ]

    def whole_s(self, candidates: Sequence[Configuration], plans_s: Sequence[float]) -> list[float]:
        """For each candidate the seconds of its experiment if its quality holds and all of its plan is
        measured, which takes `plans_s` without builds, with what its kernels compile at each load."""
        found = []
        for candidate, plan_s in zip(candidates, plans_s, strict=True):
            lever = joined(tuple(self.view.settings(candidate)))
            built_s = math.fsum(self._missing(candidate).values())
            screened_s = self._screened_s(candidate) if self._looks_first(lever) else 0.0
            whole_s = built_s + screened_s + plan_s + _traced_s(candidate)
            found.append(max(whole_s, self._of(candidate, lever, 1.0)))
        return found

    def _missing(self, candidate: Configuration) -> dict[str, float]:
        """What must be built for it and is not there."""
        found = self._found.get(candidate)
        if found is None:
            keys = build_keys(self.view, candidate, self.priors)
            found = self._found[candidate] = {k: cost for k, cost in keys.items() if k not in self.built}
        return found

    def _anew_s(self, candidate: Configuration) -> float:
        """Seconds of what the launches of a timed experiment compile anew, and wait for where they are up one
        at a time."""
        compiled_s = self.priors.loads * self.priors.compiled_s(candidate)
        return _traced_s(candidate) + compiled_s + self.priors.apart_s(candidate)

    def _screened_s(self, candidate: Configuration) -> float:
        """Seconds of the look at the quality of changed weights."""
        return _shrunk(self.screened_s, self.priors.screen_s) + self.priors.compiled_s(candidate)

    def _looks_first(self, lever: str) -> bool:
        """Whether a test of this lever looks at the quality of changed weights first."""
        return not self.priors.made_up and _screened(lever)

    def _of(self, candidate: Configuration, lever: str, p_quality: float) -> float:
        overall = _shrunk(self.timed_s.get("", (0.0, 0)), self.priors.measure_s)
        rest = _shrunk(self.timed_s.get(lever, (0.0, 0)), overall) + self._anew_s(candidate)
        missing = self._missing(candidate)
        if not self._looks_first(lever):
            return max(LEAST_COST_S, rest + math.fsum(missing.values()))
        first = math.fsum(cost for key, cost in missing.items() if not _is_late(key))
        rest += math.fsum(cost for key, cost in missing.items() if _is_late(key))
        return max(LEAST_COST_S, first + self._screened_s(candidate) + p_quality * rest)


def _screened(lever: str) -> bool:
    """Whether this lever changes weights."""
    return any(part in SCREENED for part in levers_in(lever))


def _added(mean: tuple[float, float], spent_s: float) -> tuple[float, float]:
    return mean if spent_s <= 0 else (mean[0] + spent_s, mean[1] + 1)


def _few(mean: tuple[float, float]) -> tuple[float, float]:
    """The same mean of fewer experiments."""
    total, count = mean
    least = min(1.0, MOST_COUNTED / count) if count else 1.0
    return total * least, count * least


def _shrunk(mean: tuple[float, float], prior_s: float) -> float:
    total, count = mean
    return (PRIOR_WEIGHT * prior_s + total) / (PRIOR_WEIGHT + count)


def _is_late(key: str) -> bool:
    """Whether what a key names is built after the look at the quality: compiled code, a drafter."""
    return key.partition(":")[0] in LATE


def _traced_s(configuration: Configuration) -> float:
    return TRACED_S.get(str(configuration.get("serving.compile")), 0.0)


def build_keys(
    view: LeverView, configuration: Configuration, priors: CostPriors = REFERENCE_PRIORS
) -> dict[str, float]:
    """What must have been built for a configuration: key → expected seconds; empty for the baseline's own.

    A checkpoint is made in the order of its stages, each key naming what it was made from, so that two
    configurations that share the first stage pay for it once. Layers that are ranked on the quantized model
    need that model, unpruned, besides.
    """
    settings = view.made_with(configuration)
    keys: dict[str, float] = {}
    made_from = ""
    for lever in _stages(configuration):
        if lever not in settings or configuration.get(f"{lever}.method", NONE) == NONE:
            continue
        if lever == "pruning" and configuration.get(RANKED_ON) == "quantized" and not made_from:
            keys[_key("quantization", settings, "")] = _build_s("quantization", configuration, priors)
        key = _key(lever, settings, made_from)
        keys[key] = _build_s(lever, configuration, priors)
        made_from = f" of {key}"
    if configuration.get("drafting.method") in EXTERNAL_DRAFTERS and "drafting" in settings:
        keys[_key("drafting", settings, made_from)] = DRAFTER_S
    if "compile" in settings:
        parts = [f"{lever}{settings[lever]!r}" for lever in COMPILED_WITH if lever in settings]
        keys[f"compile:{';'.join(parts)}"] = COMPILE_S
    return keys


def checkpoint_keys(view: LeverView, configurations: Sequence[Configuration]) -> frozenset[str]:
    """The keys of what is built for the checkpoints of these configurations; without what is made later, such
    as a drafter."""
    return frozenset(key for each in configurations for key in build_keys(view, each) if not _is_late(key))


def _stages(configuration: Configuration) -> tuple[str, str]:
    reverse = configuration.get(ORDER) == "after_quantization"
    return ("quantization", "pruning") if reverse else ("pruning", "quantization")


def _key(lever: str, settings: Mapping[str, Setting], made_from: str) -> str:
    """Without what says where the stage stands and which model ranks, where that changes nothing."""
    setting = settings.get(lever, ())
    own = [each for each in setting if each not in ((RANKED_ON, "original"),) and each[0] != ORDER]
    return f"{lever}:{own!r}{made_from}"


def _build_s(lever: str, configuration: Configuration, priors: CostPriors) -> float:
    made = priors.quantization_s if lever == "quantization" else priors.pruning_s
    return made(configuration)
