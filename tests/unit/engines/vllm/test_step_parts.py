"""The parts of a profiled step sum to the step."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.engines.vllm.profile import parts_of

SECONDS = st.floats(0, 1e-2)


@given(
    st.lists(st.tuples(SECONDS, SECONDS, SECONDS, SECONDS), min_size=1), st.floats(1e-5, 1e-1), st.booleans()
)
def test_parts_are_never_negative_and_sum_to_the_step(
    told: list[tuple[float, float, float, float]], total_s: float, drafting: bool
) -> None:
    steps = [dict(zip(("step", "sample", "head", "draft"), each, strict=True)) for each in told]
    parts = parts_of(steps, total_s, drafting=drafting)
    assert all(part.time_ms >= 0 for part in parts)
    assert sum(part.time_ms for part in parts) == pytest.approx(1e3 * total_s)
    assert ("draft" in {part.kind for part in parts}) == drafting


def test_the_head_is_taken_out_of_the_forward_pass_and_drafts_out_of_sampling() -> None:
    steps = [{"step": 4e-3, "head": 1e-3, "sample": 3e-3, "draft": 2e-3}]
    times = {part.part: part.time_ms for part in parts_of(steps, 8e-3, drafting=True)}
    assert times == pytest.approx({"verify": 3, "lm_head": 1, "draft": 2, "sampling": 1, "rest": 1})
