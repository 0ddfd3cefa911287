"""The stopping plan: its levels, and the hash that seals it."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from experiments.measurement.plan import Prediction, StoppingPlan

PLAN = StoppingPlan(prediction=Prediction(log_ratio_mean=-0.1, log_ratio_sd=0.1))
CONTROL, CANDIDATE = "a" * 64, "b" * 64

STORED_BEFORE = json.dumps(
    {
        "metric": "tpot_ms",
        "prediction": {"log_ratio_mean": -0.1, "log_ratio_sd": 0.1},
        "min_effect": 0.03,
        "alpha": 0.05,
        "margins": {"bits_per_byte": 0.01, "task_points": 2.0},
        "workload": {
            "concurrency": 1,
            "prompt_tokens": 128,
            "new_tokens": 48,
            "prompts_per_block": 2,
            "warmup_requests": 1,
            "evaluation_documents": 32,
            "evaluation_tokens_per_document": 384,
            "evaluation_items": 300,
            "drafting_prompts": 8,
            "drafting_new_tokens": 64,
        },
        "quick_blocks": 4,
        "full_blocks": 6,
        "full_pairs": 4,
        "validation_pairs": 2,
    }
)
SEALED_BEFORE = "0c954c79c48c61ac55e27a70d35c78a92b0b27f156cde1983636f2820b15e3e0"
"""A plan and its hash as they were stored before plans had a level of support."""


def test_a_plan_stored_without_a_level_of_support_still_has_the_hash_that_sealed_it() -> None:
    plan = StoppingPlan.model_validate_json(STORED_BEFORE)
    assert plan.support_level == plan.alpha
    assert plan.digest(CONTROL, CANDIDATE) == SEALED_BEFORE


def test_a_level_of_support_is_sealed_and_comes_back_from_the_stored_plan() -> None:
    plan = StoppingPlan.model_validate({**PLAN.model_dump(), "support_alpha": 0.001})
    again = StoppingPlan.model_validate_json(plan.model_dump_json())
    assert again.support_level == 0.001
    assert again.digest(CONTROL, CANDIDATE) == plan.digest(CONTROL, CANDIDATE)
    other = StoppingPlan.model_validate({**PLAN.model_dump(), "support_alpha": 0.002})
    assert len({each.digest(CONTROL, CANDIDATE) for each in (PLAN, plan, other)}) == 3


@pytest.mark.parametrize("level", [0.0, -0.01, 0.06])
def test_support_is_never_called_at_a_laxer_level_than_the_interval(level: float) -> None:
    with pytest.raises(ValidationError, match="support_alpha"):
        StoppingPlan.model_validate({**PLAN.model_dump(), "support_alpha": level})


def test_a_margin_of_kl_is_sealed_and_a_plan_without_one_has_the_hash_of_before() -> None:
    assert StoppingPlan.model_validate_json(STORED_BEFORE).margins.kl_nats is None
    with_kl = PLAN.model_copy(update={"margins": PLAN.margins.model_copy(update={"kl_nats": 1.0})})
    again = StoppingPlan.model_validate_json(with_kl.model_dump_json())
    assert again.margins.kl_nats == 1.0
    assert again.digest(CONTROL, CANDIDATE) == with_kl.digest(CONTROL, CANDIDATE)
    assert with_kl.digest(CONTROL, CANDIDATE) != PLAN.digest(CONTROL, CANDIDATE)
