"""How long a job may take at most decides what it may cost at most."""

import pytest

from experiments.job.context import DEFAULT_STAGE_LIMITS_S
from experiments.job.longest import BUILDS, OF_BASELINES, OF_TESTS, longest_s, stages_of
from experiments.job.spec import BaselineJob, Knobs
from experiments.measurement.evidence import Stage
from tests.simulated.specs import a_test_job


def a_baseline(**knobs: object) -> BaselineJob:
    test = a_test_job()
    swept: Knobs = {**test.control, **knobs}  # type: ignore[dict-item]
    return BaselineJob(
        campaign_id=1,
        experiment_id=1,
        engine="simulated",
        model="reference",
        model_fingerprint="f",
        device="cpu",
        seed=1,
        sweep=(swept,),
        naive=swept,
    )


def test_a_baseline_comes_to_no_stage_of_a_test_and_builds_nothing() -> None:
    assert stages_of(a_baseline()) == frozenset(Stage) - BUILDS - OF_TESTS - {Stage.KERNELS, Stage.FURTHER}


def test_a_baseline_times_kernels_where_it_is_asked_to() -> None:
    timed = a_baseline().model_copy(update={"kernels": ({"serving.linear_backend": "auto"},)})
    assert stages_of(timed) - stages_of(a_baseline()) == {Stage.KERNELS}


def test_a_test_comes_to_no_sweep() -> None:
    assert stages_of(a_test_job()) == frozenset(Stage) - BUILDS - OF_BASELINES - {
        Stage.KERNELS,
        Stage.FURTHER,
    }


@pytest.mark.parametrize("knob", ["pruning.method", "quantization.method", "drafting.method"])
def test_what_changes_weights_or_drafts_may_build(knob: str) -> None:
    assert stages_of(a_baseline(**{knob: "something"})) >= BUILDS
    assert not BUILDS & stages_of(a_baseline(**{knob: "none"}))


def test_the_longest_is_the_sum_of_the_limits_of_its_stages() -> None:
    job = a_test_job()
    limits = DEFAULT_STAGE_LIMITS_S
    assert longest_s(job, limits) == sum(limits[each] for each in stages_of(job) if each in limits)
    assert longest_s(job, {Stage.STATIC: 7.0}) == 7.0
