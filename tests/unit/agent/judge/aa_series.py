"""A/A series drawn from a stated model, for tests of what is read from them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agent.judge.aa_pairs import AaPair
from experiments.job.schedule import abba, seats
from experiments.measurement.evidence import Arm, LaunchRecord, Metric, Sample, Stage

PAIR_S = 15.0


@dataclass(frozen=True)
class AaTruth:
    """What a series is drawn from; standard deviations and shifts on the log scale."""

    launch_sd: float = 0.01
    block_sd: float = 0.0
    request_sd: float = 0.004
    prompt_sd: float = 0.0
    request_correlation: float = 0.0
    pair_correlation: float = 0.0
    second_seat: float = 0.0
    later_block: float = 0.0
    drift_an_hour: float = 0.0
    heavy: bool = False
    apart_shift: float = 0.0
    apart_launch_sd: float | None = None
    blocks: int = 4
    prompts: int = 2


def a_series(
    truth: AaTruth, pairs: int, rng: np.random.Generator, *, contrasted: bool = False
) -> list[AaPair]:
    """Pairs in their order, each as a job would have measured it."""
    found, carried = [], 0.0
    shape = (truth.blocks, truth.prompts)
    for number in range(pairs):
        if not contrasted or number % 2 == 0:  # neighbours that are compared get the same texts
            prompts = rng.normal(0, truth.prompt_sd, shape)
        differs = contrasted and number.bit_count() % 2 == 1
        sd = truth.apart_launch_sd if differs and truth.apart_launch_sd is not None else truth.launch_sd
        keep = math.sqrt(1 - truth.pair_correlation**2)
        carried = truth.pair_correlation * carried + keep * float(_draw(rng, truth)) * sd * math.sqrt(2)
        own = float(rng.normal(0, sd))
        first, second = seats(0, number)
        levels = {first: own, second: own + carried + truth.second_seat}
        common = truth.drift_an_hour * number * PAIR_S / 3600 + (truth.apart_shift if differs else 0.0)
        found.append(_pair(truth, number, differs, levels, common, prompts, rng))
    return found


def _draw(rng: np.random.Generator, truth: AaTruth) -> float:
    return float(rng.standard_t(2.2)) if truth.heavy else float(rng.normal())


def _pair(
    truth: AaTruth,
    number: int,
    differs: bool,
    levels: dict[Arm, float],
    common: float,
    prompts: NDArray[np.float64],
    rng: np.random.Generator,
) -> AaPair:
    samples: dict[Arm, list[Sample]] = {arm: [] for arm in Arm}
    carried = dict.fromkeys(Arm, 0.0)
    done = dict.fromkeys(Arm, 0)
    for position, arm in enumerate(abba(0, number, 0, truth.blocks)):
        block = done[arm]
        done[arm] += 1
        shift = float(rng.normal(0, truth.block_sd)) + truth.later_block * (position % 2)
        for prompt in range(truth.prompts):
            keep = math.sqrt(1 - truth.request_correlation**2)
            carried[arm] = truth.request_correlation * carried[arm]
            carried[arm] += keep * float(rng.normal(0, truth.request_sd))
            log = levels[arm] + common + shift + carried[arm] + float(prompts[block, prompt])
            samples[arm].append(
                Sample(
                    block,
                    position,
                    f"{number}.{block}.{prompt}",
                    len(samples[arm]),
                    Metric.TPOT_MS,
                    20 * math.exp(log),
                )
            )
    launches = [
        LaunchRecord(arm, 0, Stage.NOISE, "same", {"threads": 2}, {}, 4.0, tuple(samples[arm]))
        for arm in seats(0, number)
    ]
    return AaPair(number, number * PAIR_S, launches[0], launches[1], differs)
