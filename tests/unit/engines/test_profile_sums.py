import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.engines.reference.profile import fit_to_total

TIMES = st.dictionaries(
    st.text(min_size=1).filter(lambda part: part != "rest"), st.floats(0, 1e3), max_size=20
)


@given(TIMES, st.floats(1e-3, 1e4))
def test_parts_and_rest_sum_to_the_step_and_none_is_negative(
    times_ms: dict[str, float], total_ms: float
) -> None:
    fitted = fit_to_total(times_ms, total_ms)
    assert math.fsum(fitted.values()) == pytest.approx(total_ms)
    assert min(fitted.values()) >= 0


@given(TIMES, st.floats(1e-3, 1e4))
def test_parts_are_left_alone_where_they_fit(times_ms: dict[str, float], total_ms: float) -> None:
    if sum(times_ms.values()) <= total_ms:
        fitted = fit_to_total(times_ms, total_ms)
        assert {part: time_ms for part, time_ms in fitted.items() if part != "rest"} == times_ms
