"""What a decision reads of a step has no more time outside kernels than served tokens leave."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from agent.campaign.decision.desk import Desk
from agent.proposers.port import Trial
from agent.surrogate.kernel_parts import OUTSIDE
from experiments.engines.port import PartTime
from experiments.measurement.judging import Outcome
from experiments.space.configuration import Configuration
from tests.recorded.vllm_kernels import recorded_parts
from tests.unit.agent.gpu_desk import BASELINE, SPACE, gpu_desk

QUANTIZED = SPACE.with_change(BASELINE, {"quantization.method": "awq"})
DRAFTING = SPACE.with_change(BASELINE, {"drafting.method": "mtp", "drafting.draft_tokens": 1})
KERNELS = tuple(part for part in recorded_parts("marlin") if part.kind != OUTSIDE)
KERNELS_MS = math.fsum(part.time_ms for part in KERNELS)
PROFILED = (*KERNELS, PartTime(OUTSIDE, OUTSIDE, 1.0, 0))
"""A step that had a millisecond outside kernels as it was profiled."""


def desk(
    best: Configuration = QUANTIZED,
    token_ms: float = KERNELS_MS + 0.1,
    metric: str = "tpot_ms",
    at_once: int = 1,
) -> Desk:
    """After one supported test, whose candidate took `token_ms` a token and was profiled."""
    found = Trial(
        1, 2, BASELINE, best, "any", Outcome.SUPPORTED, math.log(token_ms / 9.0), 0.01, None, None, 300.0
    )
    return gpu_desk(
        9.0,
        60.0,
        workload={"concurrency": at_once, "prompts_per_block": 4 * at_once},
        metric=metric,
        trials=(found,),
        profiles={2: PROFILED},
    )


def outside_ms(profile: tuple[PartTime, ...]) -> float:
    [found] = [part.time_ms for part in profile if part.kind == OUTSIDE]
    return found


def test_the_best_so_far_has_what_its_tokens_left_beside_kernels() -> None:
    found = desk()
    assert outside_ms(found.incumbent_profile) == pytest.approx(0.1)
    assert found.view.incumbent_profile == found.incumbent_profile
    assert found.learnt_from.physics.incumbent_profile == found.incumbent_profile
    assert outside_ms(desk(token_ms=KERNELS_MS + 2).incumbent_profile) == 1.0


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(desk(DRAFTING), id="a step gives several tokens"),
        pytest.param(desk(metric="e2el_ms"), id="what was found is of whole requests"),
        pytest.param(desk(at_once=4), id="others' prompts are read in between"),
    ],
)
def test_where_a_token_is_not_a_step_the_profile_stays_as_it_was(found: Desk) -> None:
    assert found.incumbent_profile == PROFILED


def slow_baseline(found: Desk) -> Desk:
    """With a baseline that took 0.3 ms more than its kernels, and a millisecond as it was profiled."""
    slow = replace(found.baseline, profile=PROFILED, tpot_ms={BASELINE.digest: KERNELS_MS + 0.3})
    return replace(found, baseline=slow)


def test_the_baseline_s_own_step_is_told_so_too() -> None:
    found = slow_baseline(desk())
    assert outside_ms(found.view.profile) == pytest.approx(0.3)
    assert found.learnt_from.physics.profile == found.view.profile
    assert replace(found, baseline=replace(found.baseline, profile=())).profile == ()


@pytest.mark.parametrize("asked", [{"metric": "e2el_ms"}, {"metric": "ttft_ms"}, {"at_once": 4}])
def test_where_the_best_stays_as_it_was_profiled_so_does_the_baseline(asked: dict[str, Any]) -> None:
    assert slow_baseline(desk(**asked)).profile == PROFILED


def test_a_token_for_which_its_kernels_are_too_long_leaves_nothing_outside_and_them_as_they_are() -> None:
    found = desk(token_ms=KERNELS_MS * 0.99).incumbent_profile
    assert outside_ms(found) == 0
    assert tuple(part for part in found if part.kind != OUTSIDE) == KERNELS


def test_what_was_not_profiled_has_no_step() -> None:
    assert gpu_desk(5.0, 60.0, workload={"concurrency": 1}).incumbent_profile == ()
    found = desk()
    assert replace(found, facts=replace(found.facts, profiles={})).incumbent_profile == ()
