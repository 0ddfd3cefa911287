"""The pairs of an A/A series and the numbers that are taken from each. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from agent.judge.once import once
from agent.judge.pairs import PairEffect, pair_effects, paired_blocks
from experiments.measurement.evidence import Arm, Evidence, LaunchRecord, Metric, NoiseProfile, Stage
from experiments.measurement.noise import NoiseRow, launch_noise, noise_profile


@dataclass(frozen=True)
class AaPair:
    """Two launches of one configuration, as they were opened: `first` had the first seat.

    The control has it in every second pair, as in a test.

    `at_s` is when it began, seconds from the first pair's beginning; `differs`: it was measured under the
    condition that the series asks about, and not as tests are.
    """

    number: int
    at_s: float
    first: LaunchRecord
    second: LaunchRecord
    differs: bool = False

    @property
    def launches(self) -> tuple[LaunchRecord, LaunchRecord]:
        """Both launches, by seat."""
        return self.first, self.second

    def staged(self, stage: Stage, index: int) -> tuple[LaunchRecord, LaunchRecord]:
        """Both launches as pair `index` of a test, in one of its stages, by seat."""
        first, second = (replace(each, stage=stage, index=index) for each in self.launches)
        return first, second


def effects(pairs: Sequence[AaPair], metric: Metric) -> tuple[PairEffect, ...]:
    """The effect of each pair as the judge takes it: second seat over first."""
    launches = [
        replace(launch, arm=seat)
        for place, pair in enumerate(pairs)
        for seat, launch in zip(Arm, pair.staged(Stage.QUICK, place), strict=True)
    ]
    nothing = NoiseProfile("", metric, 0, 0, None)
    return pair_effects(Evidence(tuple(launches), nothing, ()), metric)


def centres(pair: AaPair, metric: Metric) -> tuple[float, float]:
    """The log centre of each launch, as the noise profile takes it."""
    first, second = (_log_centre(each, metric) for each in pair.launches)
    return first, second


@once
def _log_centre(launch: LaunchRecord, metric: Metric) -> float:
    found = launch_noise(launch, metric)
    assert found is not None
    return found.log_centre


def level(pair: AaPair, metric: Metric) -> float:
    """The mean log centre of its two launches."""
    return fmean(centres(pair, metric))


def profile(pairs: Sequence[AaPair], metric: Metric) -> NoiseProfile:
    """The noise profile that these pairs alone make, a window each."""
    rows = [
        NoiseRow(str(pair.number), centre)
        for pair in pairs
        if not pair.differs
        for centre in centres(pair, metric)
    ]
    return noise_profile("", metric, rows)


def requests_of(pair: AaPair, metric: Metric, order: float = 0.0) -> list[list[float]]:
    """The log of every request of each launch, as they were sent, freed of what the order does: `order` is
    how much slower a later block is than its neighbour."""
    return [
        [
            math.log(sample.value) - order * (0.5 if sample.position % 2 else -0.5)
            for sample in sorted(launch.samples, key=lambda each: each.seq)
            if sample.metric is metric
        ]
        for launch in pair.launches
    ]


def differences(pair: AaPair, metric: Metric, order: float = 0.0) -> list[list[float]]:
    """Second seat less first, log by log of the same prompt: one list a block, freed of the `order`."""
    signs = _signs(pair)
    return [
        [after[item] - before[item] - order * signs[block] for item in before if item in after]
        for block, before, after in paired_blocks([pair.first], [pair.second], metric)
    ]


def _signs(pair: AaPair) -> dict[int, int]:
    """For each block 1 where the second seat's came later, else −1."""
    first, second = ({s.block: s.position for s in launch.samples} for launch in pair.launches)
    return {block: 1 if first[block] < second[block] else -1 for block in first if block in second}


def follower(pair: AaPair, metric: Metric) -> float:
    """How much slower the later block of two neighbours is than the earlier, in the mean over the pair.

    As often as the second seat's block is the later one counts the first seat's, so that a difference between
    the seats is no part of it.
    """
    signs = _signs(pair)
    found: dict[int, list[float]] = {1: [], -1: []}
    for block, before, after in paired_blocks([pair.first], [pair.second], metric):
        found[signs[block]].append(fmean(after[item] - before[item] for item in before if item in after))
    return fmean(sign * fmean(values) for sign, values in found.items() if values)
