"""Frozen streams of hypotheses: what a campaign might test on one machine, drawn from a stated mixture.

A stream is one machine: its launches vary by 0.5, 1 or 2 %, a third of the streams each. Of the usual mixture
two of five do nothing, as most ideas do; the others are gains too small to be worth having, gains just worth
having, large ones, harmful ones, fast ones that cost quality, and ones that do not run. The shares are a
judgement, and the results depend on them, so they are told by kind too. Two other mixtures are the hardest
for false discoveries: four of five gain exactly `min_effect`, or gain a lot and lose exactly the margin of
quality, and one of five gains a lot, so that the online control has discoveries to spend. A test holds the
digest of the streams, so that they stay what they are.
"""

from __future__ import annotations

import hashlib
import math
import random
from dataclasses import dataclass
from enum import StrEnum

from tests.simulation.experiment import COMPILED, DEFAULT_PLAN, PRUNED, Truth

LENGTH = 30
"""Hypotheses of a stream: what a campaign of a night tests."""

LAUNCH_SDS = (0.005, 0.01, 0.02)
"""Standard deviation between launches on the log scale; a stream has one of them."""

LOST_BITS_LOG = 0.03
"""How much worse the quality of those is that cost quality: three times the margin."""

MARGIN_BITS_LOG = math.log1p(DEFAULT_PLAN.margins.bits_per_byte) - Truth.bits_document_sd**2 / 2
"""The mean over documents at which the mean of their ratios is the margin exactly."""


class Kind(StrEnum):
    """What a hypothesis truly is."""

    NOTHING = "no effect"
    SMALL = "a gain below the smallest worth having (1 to 2.5 %)"
    MEDIUM = "a gain of 5 to 8 %"
    LARGE = "a gain of 10 to 40 %"
    HARMFUL = "2 to 20 % slower"
    LOSSY = "a gain of 10 to 40 % that costs quality"
    INFEASIBLE = "does not run"
    EDGE = "a gain of exactly min_effect (3 %)"
    AT_MARGIN = "a gain of 10 to 40 % that loses exactly the margin of quality (1 %)"


LOST_BITS = {Kind.LOSSY: LOST_BITS_LOG, Kind.AT_MARGIN: MARGIN_BITS_LOG}
"""What those kinds lose that cost quality, natural log of bits."""


class Mixture(StrEnum):
    """Which kinds a stream is drawn from."""

    USUAL = "usual"
    HARDEST = "hardest in time"
    AT_MARGIN = "hardest in quality"


USUAL = {
    Kind.NOTHING: 0.40,
    Kind.SMALL: 0.10,
    Kind.MEDIUM: 0.10,
    Kind.LARGE: 0.15,
    Kind.HARMFUL: 0.15,
    Kind.LOSSY: 0.05,
    Kind.INFEASIBLE: 0.05,
}
"""The share of each kind in a usual stream."""

SHARES = {
    Mixture.USUAL: USUAL,
    Mixture.HARDEST: {Kind.EDGE: 0.8, Kind.LARGE: 0.2},
    Mixture.AT_MARGIN: {Kind.AT_MARGIN: 0.8, Kind.LARGE: 0.2},
}
"""The share of each kind in a stream of each mixture."""

_GAINS = {
    Kind.NOTHING: (0.0, 0.0),
    Kind.SMALL: (0.01, 0.025),
    Kind.MEDIUM: (0.05, 0.08),
    Kind.LARGE: (0.10, 0.40),
    Kind.HARMFUL: (-0.20, -0.02),
    Kind.LOSSY: (0.10, 0.40),
    Kind.INFEASIBLE: (0.0, 0.0),
    Kind.EDGE: (0.03, 0.03),
    Kind.AT_MARGIN: (0.10, 0.40),
}


@dataclass(frozen=True)
class Hypothesis:
    """One hypothesis with its truth; `gain` is relative, 0.1 is 10 % less time."""

    kind: Kind
    gain: float
    truth: Truth

    def worth_having(self, min_effect: float) -> bool:
        """Whether it runs, keeps the quality, and gains more than `min_effect`."""
        return self.kind not in (*LOST_BITS, Kind.INFEASIBLE) and self.gain > min_effect


def stream(seed: int, length: int = LENGTH, mixture: Mixture = Mixture.USUAL) -> tuple[Hypothesis, ...]:
    """The stream of this seed and mixture; by Python's own generator, whose draws stay the same from version
    to version."""
    draw, shares = random.Random(seed), SHARES[mixture]
    launch_sd = LAUNCH_SDS[seed % len(LAUNCH_SDS)]
    found = []
    for _ in range(length):
        [kind] = draw.choices(list(shares), list(shares.values()))
        low, high = _GAINS[kind]
        gain = low + (high - low) * draw.random()
        truth = Truth(
            effect_log=math.log(1 - gain),
            launch_sd=launch_sd,
            changes=PRUNED if kind in LOST_BITS else COMPILED,
            bits_log=LOST_BITS.get(kind, 0.0),
        )
        found.append(Hypothesis(kind, gain, truth))
    return tuple(found)


def digest(seeds: range, length: int = LENGTH) -> str:
    """SHA-256 over kinds, gains (to 12 digits) and noise of these streams, of all mixtures."""
    told = hashlib.sha256()
    for seed in seeds:
        for each in (each for mixture in Mixture for each in stream(seed, length, mixture)):
            told.update(f"{each.kind.name} {each.gain:.12f} {each.truth.launch_sd:g}\n".encode())
    return told.hexdigest()
