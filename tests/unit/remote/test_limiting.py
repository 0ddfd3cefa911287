"""The limit of a whole job bounds its price by what it is expected to need, and grows if it was too short."""

from hypothesis import given
from hypothesis import strategies as st

from experiments.job.context import DEFAULT_STAGE_LIMITS_S
from experiments.job.longest import builds_s, longest_s, whole_limit_s
from experiments.measurement.evidence import Stage
from experiments.remote.limiting import FACTOR, FEWEST_RUNS, GROWTH, LEAST_LIMIT_S, limit_s
from tests.simulated.specs import a_test_job

SECONDS = st.floats(1, 1e5)
MAYBE = st.none() | SECONDS


def test_a_job_of_which_nothing_is_known_has_the_limits_of_its_stages_alone():
    assert limit_s(None, [100.0] * (FEWEST_RUNS - 1), None, 0.0) is None
    job = a_test_job()
    assert whole_limit_s(job, DEFAULT_STAGE_LIMITS_S, None) == longest_s(job, DEFAULT_STAGE_LIMITS_S)


def test_a_short_job_gets_the_shortest_limit_and_a_long_one_a_multiple_of_what_it_is_expected_to_take():
    assert limit_s(60.0, [], None, 0.0) == LEAST_LIMIT_S
    assert limit_s(4000.0, [], None, 0.0) == FACTOR * 4000.0
    assert limit_s(60.0, [4000.0] * FEWEST_RUNS, None, 0.0) == FACTOR * 4000.0, "what ran there counts"


def test_a_build_adds_its_stage_s_limit():
    quantizes = a_test_job({"quantization.method": "awq"})
    assert builds_s(a_test_job(), DEFAULT_STAGE_LIMITS_S) == 0
    assert builds_s(quantizes, DEFAULT_STAGE_LIMITS_S) == DEFAULT_STAGE_LIMITS_S[Stage.QUANTIZE]


@given(SECONDS, st.lists(SECONDS, max_size=20), MAYBE, st.floats(0, 1e4))
def test_the_limit_is_never_below_what_is_expected_nor_below_twice_the_one_that_was_reached(
    planned_s: float, took_s: list[float], reached_s: float | None, building_s: float
):
    found = limit_s(planned_s, took_s, reached_s, building_s)
    assert found is not None
    assert found >= max(LEAST_LIMIT_S, FACTOR * planned_s) + building_s
    assert found >= GROWTH * (reached_s or 0.0)
    assert whole_limit_s(a_test_job(), DEFAULT_STAGE_LIMITS_S, found) <= longest_s(
        a_test_job(), DEFAULT_STAGE_LIMITS_S
    ), "and what the stages allow bounds it all the same"
