"""The seal of a test: it holds everything that decides a verdict, and survives being stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from experiments.job.seal import broken_seal, other_judge, other_texts, seal_of, sealed
from experiments.job.spec import NoiseState, TestJob, job_data, parse_job
from experiments.measurement.plan import Margins, Prediction, StoppingPlan
from tests.simulated.judges import OnePairJudge
from tests.simulated.specs import PLAN, a_test_job

RECORDED = Path(__file__).parents[2] / "recorded/job_sealed_before_latency_only.json"
"""A job as the version before `latency_only` sealed and stored it."""

SPEC = a_test_job(
    judge_version="3",
    pinned_keys=("linear_kernel",),
    reference={"simulated.tpot_ms": 12.0},
    texts="those of this Python",
)


def plan(**changes: Any) -> StoppingPlan:
    return StoppingPlan.model_validate({**PLAN.model_dump(), **changes})


@pytest.mark.parametrize(
    "change",
    [
        {"control": {"simulated.tpot_ms": 11.0}},
        {"candidate": {"simulated.tpot_ms": 7}},
        {"reference": None},
        {"plan": plan(min_effect=0.01)},
        {"plan": plan(margins=Margins(bits_per_byte=0.2))},
        {"plan": plan(prediction=Prediction(log_ratio_mean=-0.3, log_ratio_sd=0.1))},
        {"plan": plan(support_alpha=0.001)},
        {"plan": plan(metric="ttft_ms")},
        {"plan": plan(full_pairs=9)},
        {"judge": "another"},
        {"judge_version": "4"},
        {"engine": "another"},
        {"model_fingerprint": "another"},
        {"device": "cuda:0"},
        {"seed": 5},
        {"noise": NoiseState(target_key="desk/cpu", launches=9, degrees_of_freedom=8, launch_sd_log=0.5)},
        {"pinned_keys": ("linear_kernel", "threads")},
        {"texts": "those of another Python"},
        {"texts": None},
        {"within_s": 300.0},
    ],
    ids=lambda change: next(iter(change)),
)
def test_whatever_decides_a_verdict_breaks_the_seal_when_it_changes(change: dict[str, Any]) -> None:
    altered = SPEC.model_copy(update=change)
    assert seal_of(altered) != SPEC.preregistration_digest
    assert "was sealed as" in str(broken_seal(altered))


def test_what_names_the_experiment_is_not_sealed() -> None:
    assert broken_seal(SPEC.model_copy(update={"experiment_id": 9, "campaign_id": 3})) is None


def test_a_sealed_job_holds_after_it_was_stored_and_read() -> None:
    again = parse_job(json.loads(json.dumps(SPEC.model_dump(mode="json"))))
    assert isinstance(again, TestJob)
    assert broken_seal(again) is None


def test_a_job_from_before_judges_were_sealed_is_held_to_the_hash_of_plan_and_arms() -> None:
    old = a_test_job()
    assert old.judge_version is None
    assert broken_seal(old) is None
    assert broken_seal(old.model_copy(update={"plan": plan(min_effect=0.01)})) is not None
    assert other_judge(old, OnePairJudge()) is None


def test_a_job_from_before_texts_were_sealed_is_held_to_the_rest() -> None:
    old = sealed(SPEC.model_copy(update={"texts": None}))
    assert broken_seal(old) is None
    assert other_texts(old, "those of any Python") is None
    assert broken_seal(old.model_copy(update={"seed": 5})) is not None


def test_only_the_texts_that_were_sealed_may_be_measured_with() -> None:
    assert other_texts(SPEC, "those of this Python") is None
    assert "other texts than the baseline's (those of ano, not those of thi)" in str(
        other_texts(SPEC, "those of another Python")
    )


def test_the_judge_that_was_sealed_is_the_one_that_may_judge() -> None:
    judge = OnePairJudge()
    assert other_judge(sealed(SPEC.model_copy(update={"judge_version": judge.version})), judge) is None
    assert "in version 3, and version 1 is installed" in str(other_judge(SPEC, judge))


def older(**plan: Any) -> TestJob:
    """The recorded job with other fields in its plan; None takes one away."""
    data = json.loads(RECORDED.read_text())
    fields = {name: value for name, value in (data["plan"] | plan).items() if value is not None}
    spec = parse_job(data | {"plan": fields})
    assert isinstance(spec, TestJob)
    return spec


def test_a_job_from_before_a_field_is_held_to_the_fields_that_it_has() -> None:
    assert "latency_only" not in json.loads(RECORDED.read_text())["plan"]
    assert broken_seal(older()) is None
    assert broken_seal(older(latency_only=True)) is not None


def test_a_job_from_before_a_field_is_handed_to_its_process_as_it_was_sealed() -> None:
    there = parse_job(json.loads(json.dumps(job_data(older()))))
    assert isinstance(there, TestJob)
    assert broken_seal(there) is None
    assert job_data(SPEC) == SPEC.model_dump(mode="json")


@pytest.mark.parametrize("name", ["alpha", "min_effect", "margins", "workload", "validation_pairs"])
def test_a_field_that_was_taken_away_is_missed_though_this_version_would_fill_it_in(name: str) -> None:
    assert broken_seal(older(**{name: None})) is not None
