"""What graphs of a prompt's step are expected to do to the first token, and where nothing is expected."""

from __future__ import annotations

import math
from typing import Any

import pytest

from agent.campaign.decision.counted_launches import prompt_launches
from agent.surrogate.lone_prompt import LonePrompt
from agent.surrogate.prompt_launches import LEAST_SD_LOG, PromptLaunches
from configs.campaign import load_campaign
from configs.campaign_plan import PlanSpec
from configs.hardware import load_hardware_profile
from configs.models import load_model_profile
from experiments.space.configuration import KnobValue
from experiments.space.loading import load_space

H200, SHAPE, SPACE = load_hardware_profile("h200"), load_model_profile("qwen3.5-9b"), load_space("vllm")
MEASURED_MS = 73.5
"""A lone request's first token after 512 tokens (docs/results/h200-serving-comparison.md)."""


def plan(metric: str = "ttft_ms", **workload: int) -> PlanSpec:
    found = load_campaign("shape").plan
    asked = {"concurrency": 1, "prompt_tokens": 512, "new_tokens": 16} | workload
    return found.model_copy(update={"metric": metric, "workload": found.workload.model_copy(update=asked)})


def launches(**other: Any) -> PromptLaunches | None:
    asked: dict[str, Any] = {
        "plan": plan(),
        "hardware": H200,
        "shape": SHAPE,
        "baseline": SPACE.configuration({}),
        "ttft_ms": MEASURED_MS,
    }
    return prompt_launches(**{**asked, **other})


def test_half_of_what_is_no_arithmetic_is_expected_to_go() -> None:
    """Two operations a weight of the layers at 0.4 of the listed rate: 17.9 of the 73.5 ms."""
    found = launches()
    assert found is not None
    assert found.arithmetic_ms == pytest.approx(17.9, abs=0.1)
    mean, sd = found.effect(512)
    assert math.exp(mean) == pytest.approx((17.9 + (73.5 - 17.9) / 2) / 73.5, abs=0.002)
    assert sd == pytest.approx(0.5 * (1 - 17.9 / 73.5), abs=0.002)
    assert found.effect(1024) == (mean, sd)
    assert round(100 * math.expm1(mean)) == -38, "as docs/ranking.md says"
    assert found.told(512).startswith(
        "The baseline's first token takes 73.5 ms, and the arithmetic of the prompt's 512 tokens 17.9 ms"
    )


@pytest.mark.parametrize("tokens", ["auto", 256])
def test_steps_that_the_prompt_is_not_among_change_nothing(tokens: KnobValue) -> None:
    found = launches()
    assert found is not None
    assert found.effect(tokens) == (0.0, LEAST_SD_LOG)
    assert found.told(tokens) == ""


def test_a_first_token_as_fast_as_its_arithmetic_has_nothing_to_lose() -> None:
    found = launches(ttft_ms=15.0)
    assert found is not None
    assert (found.beyond, found.effect(512), found.told(512)) == (0, (0.0, LEAST_SD_LOG), "")


@pytest.mark.parametrize(
    "other",
    [
        {"plan": plan("tpot_ms")},
        {"plan": plan("itl_ms")},
        {"plan": plan(concurrency=4)},
        {"plan": plan(prompt_tokens=3840)},
        {"hardware": None},
        {"shape": None},
        {"ttft_ms": None},
        {"captured": 512},
        {"baseline": SPACE.configuration({"serving.graph_mode": "full_decode_only"})},
        {"baseline": SPACE.configuration({"serving.max_graph_tokens": 1024})},
    ],
)
def test_nothing_is_expected_where_it_can_not_be_counted(other: dict[str, Any]) -> None:
    assert launches(**other) is None


def test_what_is_captured_by_itself_may_be_known_and_too_small() -> None:
    assert launches(captured=32) == launches() == launches(plan=plan("e2el_ms"))


def test_where_a_lone_prompt_was_profiled_half_of_what_no_kernel_ran_for_is_expected_to_go() -> None:
    found = launches(profiled=LonePrompt(first_token_ms=60.0, outside_ms=30.0, products_ms=20.0))
    assert found is not None
    mean, sd = found.effect(512)
    assert math.exp(mean) == pytest.approx((73.5 - 30.0 / 2) / 73.5)
    assert sd == pytest.approx(0.5 * 30.0 / 73.5)
    assert found.told(512) == (
        "By the profile no kernel runs in 30.0 of the 60.0 ms to the first token of a lone prompt of 512 "
        "tokens; a graph of steps of up to 512 tokens launches those kernels at once that lie between the "
        "layers that keep states."
    )


def test_a_prompt_that_waits_for_nothing_has_nothing_to_lose() -> None:
    found = launches(profiled=LonePrompt(60.0, 0.0, 50.0))
    assert found is not None
    assert (found.effect(512), found.told(512)) == ((0.0, LEAST_SD_LOG), "")


def test_a_profile_that_took_longer_than_what_was_timed_is_the_whole_at_most() -> None:
    found = launches(profiled=LonePrompt(200.0, 150.0, 20.0))
    assert found is not None
    assert found.beyond == 0.75
