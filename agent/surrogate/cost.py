"""What an experiment is expected to cost, in seconds. Pure.

Measuring costs about the same whatever is measured; what differs is what must be built first, and an artifact
that exists costs nothing. So the cost is a running mean of the measured part, by lever with a prior, plus the
builds that no earlier experiment left behind: a pruned or quantized checkpoint, compiled code.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent.proposers.port import Trial
from agent.surrogate.levers import LeverView, joined
from experiments.space.configuration import Configuration

MEASURE_PRIOR_S = 60.0
"""Expected seconds of an experiment on the reference model besides its builds: eight launches of a few
seconds, some hundred requests, one evaluation."""

PRIOR_WEIGHT = 1.0
"""The prior weighs as much as this many experiments."""

BUILD_PRIOR_S: Mapping[str, float] = {
    "pruning": 10.0,
    "quantization": 60.0,
    "drafting": 30.0,
    "compile": 40.0,
}
"""Expected seconds to build what a lever needs, by lever, on the reference model."""

COMPILED_WITH = ("compile", "dtype", "threads", "pruning", "quantization", "drafting")
"""Levers on which compiled code depends: another setting of any of them is compiled anew."""

WEIGHTS_LEVERS = ("pruning", "quantization", "drafting")
"""Levers that need a checkpoint of their own."""

LEAST_COST_S = 1.0
"""No experiment is expected to cost less, so that a score stays finite."""


@dataclass(frozen=True)
class CostBelief:
    """Expected seconds after the trials.

    `built` holds the keys of what exists, `measured_s` sum and count of experiments' seconds by lever, less
    their builds; under the empty name those of all levers together.
    """

    view: LeverView
    built: frozenset[str]
    measured_s: Mapping[str, tuple[float, int]]

    @classmethod
    def learn(
        cls, view: LeverView, trials: Sequence[Trial], built: frozenset[str] = frozenset()
    ) -> CostBelief:
        """Learn from trials in the order they ran; `built` are keys of artifacts that exist besides."""
        exists = set(built) | set(build_keys(view, view.baseline))
        sums: dict[str, tuple[float, int]] = {}
        for trial in trials:
            exists |= set(build_keys(view, trial.control))
            needed = build_keys(view, trial.candidate)
            spent = trial.cost_s - math.fsum(cost for key, cost in needed.items() if key not in exists)
            exists |= set(needed)
            if spent <= 0:
                continue
            for name in ("", trial.lever):
                total, count = sums.get(name, (0.0, 0))
                sums[name] = (total + spent, count + 1)
        return cls(view, frozenset(exists), sums)

    def expected_s(
        self, candidates: Sequence[Configuration], levers: Sequence[str] | None = None
    ) -> list[float]:
        """For each candidate the expected seconds of its experiment; `levers` name what each changes."""
        names = levers or [joined(tuple(self.view.settings(candidate))) for candidate in candidates]
        return [self._of(candidate, lever) for candidate, lever in zip(candidates, names, strict=True)]

    def _of(self, candidate: Configuration, lever: str) -> float:
        total, count = self.measured_s.get("", (0.0, 0))
        overall = (PRIOR_WEIGHT * MEASURE_PRIOR_S + total) / (PRIOR_WEIGHT + count)
        own, own_count = self.measured_s.get(lever, (0.0, 0))
        measured = (PRIOR_WEIGHT * overall + own) / (PRIOR_WEIGHT + own_count)
        needed = build_keys(self.view, candidate)
        return max(
            LEAST_COST_S,
            measured + math.fsum(cost for key, cost in needed.items() if key not in self.built),
        )


def build_keys(view: LeverView, configuration: Configuration) -> dict[str, float]:
    """What must have been built for a configuration: key → expected seconds; empty for the baseline's own."""
    settings = view.settings(configuration)
    keys: dict[str, float] = {}
    for lever in WEIGHTS_LEVERS:
        if lever in settings:
            keys[f"{lever}:{settings[lever]!r}"] = BUILD_PRIOR_S[lever]
    if "compile" in settings:
        parts = [f"{lever}{settings[lever]!r}" for lever in COMPILED_WITH if lever in settings]
        keys[f"compile:{';'.join(parts)}"] = BUILD_PRIOR_S["compile"]
    return keys
