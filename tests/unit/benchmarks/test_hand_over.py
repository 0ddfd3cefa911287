"""By count a successor's coming a step later moves whole steps with prompts between TTFT and TPOT."""

from pathlib import Path

import pytest

from tests.benchmarks.hand_over import DECODE_MS, LAUNCH_MS, PROMPTS_MS, counted, table

PAGE = Path(__file__).parents[3] / "docs" / "results" / "h200-serving-comparison.md"


def test_one_alone_waits_for_its_prompt_and_then_a_step_a_token() -> None:
    alone = counted(1, later_ms=3.0)
    assert alone.ttft_ms == pytest.approx(3.0 + PROMPTS_MS + LAUNCH_MS), "the next step is launched first"
    assert alone.tpot_ms == pytest.approx(DECODE_MS, rel=0.01)


@pytest.mark.parametrize("concurrency", [16, 64])
def test_a_delay_within_a_step_changes_nothing_and_one_beyond_it_moves_a_prefill_into_the_waiting(
    concurrency: int,
) -> None:
    at_once, within, beyond = (counted(concurrency, later_ms) for later_ms in (0.3, 4.0, 8.0))
    assert (within.ttft_ms, within.tpot_ms) == pytest.approx((at_once.ttft_ms, at_once.tpot_ms))
    assert beyond.ttft_ms == pytest.approx(at_once.ttft_ms + PROMPTS_MS)
    assert beyond.tpot_ms < 0.98 * at_once.tpot_ms
    assert beyond.e2el_ms == pytest.approx(at_once.e2el_ms, rel=0.04)
    assert beyond.output_tokens_per_s == pytest.approx(at_once.output_tokens_per_s, rel=0.03)


def test_the_page_has_the_table() -> None:
    assert table() in PAGE.read_text(encoding="utf-8")
