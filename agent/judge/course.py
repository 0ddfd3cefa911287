"""The course of an experiment: the interval as it stood after each pair, from what its verdict kept. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from agent.judge.interval import Interval, interval, pair_noises
from agent.judge.pairs import PairEffect
from experiments.measurement.evidence import NoiseProfile


def course(pairs: Sequence[PairEffect], profile: NoiseProfile, alpha: float) -> tuple[Interval | None, ...]:
    """The confidence sequence at level 1 − `alpha` after each of the pairs, in their order.

    None while no degree of freedom tells the noise. The last is the interval of the verdict; the earlier ones
    take a pair as it was in the end, so that one whose blocks were added to later is drawn with all of them.
    """
    found: list[Interval | None] = []
    for count in range(1, len(pairs) + 1):
        noises = pair_noises(pairs[:count], profile)
        found.append(interval(pairs[:count], noises, alpha) if noises else None)
    return tuple(found)
