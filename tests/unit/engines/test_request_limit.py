"""The limit of a request grows with the model and with what the request reads."""

from __future__ import annotations

from experiments.engines.port import GenerationRequest, ScoringDocument, ScoringTask
from experiments.engines.reference.engine import REQUEST_TIMEOUT_S
from experiments.engines.reference.request_limit import (
    checked_tokens,
    generated_tokens,
    limit_s,
    profiled_tokens,
    scored_tokens,
)

DOCUMENTS = [ScoringDocument(f"document {number}", tuple(range(384)), 1200) for number in range(64)]
ITEMS = [ScoringTask(f"item {number}", tuple(range(60)), tuple(range(20))) for number in range(600)]
REFERENCE_WEIGHTS, SMALLEST_QWEN_WEIGHTS = 3_400_000, 800_000_000
PREFILL_WEIGHTS_PER_S = 10e9
"""What two slow cores are taken to do in float32: 20 GFLOP/s."""


def test_scoring_counts_every_document_and_every_item_with_its_answer() -> None:
    assert scored_tokens(DOCUMENTS, ITEMS) == 64 * 384 + 600 * 80
    assert scored_tokens([], []) == 0


def test_a_model_of_0_8_billion_weights_may_take_the_time_that_its_evaluation_needs_on_two_cores() -> None:
    tokens = scored_tokens(DOCUMENTS, ITEMS)
    needed_s = SMALLEST_QWEN_WEIGHTS * tokens / PREFILL_WEIGHTS_PER_S
    assert needed_s > REQUEST_TIMEOUT_S  # which a fixed limit would have called hung
    assert limit_s(REQUEST_TIMEOUT_S, SMALLEST_QWEN_WEIGHTS, tokens) > 3 * needed_s


def test_a_small_model_that_hangs_is_still_ended_soon() -> None:
    limit = limit_s(REQUEST_TIMEOUT_S, REFERENCE_WEIGHTS, scored_tokens(DOCUMENTS, ITEMS))
    assert REQUEST_TIMEOUT_S < limit < 1.2 * REQUEST_TIMEOUT_S


def test_a_limit_grows_with_weights_and_with_tokens() -> None:
    assert limit_s(10.0, 0, 1000) == limit_s(10.0, 1000, 0) == 10.0
    assert limit_s(10.0, 4_000_000_000, 100) == 10.0 + 200.0


def test_a_step_that_verifies_drafts_may_keep_one_token_of_them() -> None:
    request = GenerationRequest("prompt", tuple(range(100)), 50)
    assert generated_tokens(request, 0) == 150
    assert generated_tokens(request, 3) == 300
    assert checked_tokens([request, request], 3) == 4 * 600
    assert profiled_tokens(request, 0) == 4 * 150
