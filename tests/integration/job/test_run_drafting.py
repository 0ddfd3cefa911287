"""When a job checks drafting, in which arm, and what becomes of drafting that does not do its work."""

from pathlib import Path

import pytest

from agent.judge.launch_interval import LaunchIntervalJudge
from experiments.job.drafting import arms_to_check
from experiments.measurement.evidence import (
    Arm,
    Metric,
    Stage,
)
from experiments.measurement.judging import (
    Evaluate,
    MeasurePair,
)
from experiments.space.configuration import Configuration
from tests.integration.job.running import Run, items, run
from tests.simulated.specs import CONTROL, FASTER, PLAN, WORKLOAD, a_test_job

__all__ = ["run"]


DRAFTING = {"drafting.method": "mtp", "drafting.draft_tokens": 2}


def test_drafting_that_changed_is_checked_on_every_class_of_content_in_the_evaluation(run: Run):
    spec = a_test_job(FASTER | DRAFTING | {"simulated.step_tokens": 3, "simulated.divergences": 1})
    result = run(spec, [MeasurePair(Stage.QUICK, 2), Evaluate()])
    control, candidate = (each for each in result.launches if each.stage is Stage.EVALUATE)
    assert not control.values(Metric.STEP_TOKENS)
    checked = items(candidate, Metric.DIVERGENCES)
    assert {item.partition(":")[0] for item in checked} == {"code", "prose", "instruct"}
    assert len(checked) == 3 * WORKLOAD.drafting_prompts
    assert items(candidate, Metric.STEP_TOKENS) == checked
    steps = -(-(WORKLOAD.drafting_new_tokens - 1) // 3)
    assert candidate.values(Metric.STEP_TOKENS) == [3.0] * steps * len(checked)
    assert candidate.values(Metric.DIVERGENCES) == [1.0] * len(checked)
    assert candidate.values(Metric.CHECKED_TOKENS) == [WORKLOAD.drafting_new_tokens - 1.0] * len(checked)
    timed = [each for each in result.launches if each.stage is Stage.QUICK]
    requests = 2 * WORKLOAD.prompts_per_block
    assert [len(each.values(Metric.STEP_TOKENS)) for each in timed] == [0, requests]
    gaps = [len(each.values(Metric.ITL_MS)) for each in timed]
    assert gaps == [requests * (WORKLOAD.new_tokens - 1), requests], "tokens of one step come together"
    assert all(gap > 0 for each in timed for gap in each.values(Metric.ITL_MS))


@pytest.mark.parametrize(
    ("control", "candidate", "due"),
    [
        ({}, DRAFTING, {Arm.CANDIDATE}),
        (DRAFTING, {}, {Arm.CONTROL}),
        (DRAFTING, DRAFTING | {"drafting.draft_tokens": 3}, set(Arm)),
        (DRAFTING, DRAFTING, set()),
        (DRAFTING, DRAFTING | {"quantization.method": "rtn"}, set(Arm)),
        (DRAFTING, DRAFTING | {"pruning.layers_removed": 1}, set(Arm)),
        (DRAFTING, DRAFTING | {"serving.dtype": "bfloat16"}, set(Arm)),
        (DRAFTING, DRAFTING | {"serving.compile": "default"}, set(Arm)),
        (DRAFTING, DRAFTING | {"serving.threads": 2}, set()),
        ({}, {"quantization.method": "rtn"}, set()),
        ({}, {"drafting.method": "none"}, set()),
    ],
)
def test_drafting_is_checked_again_in_each_arm_that_drafts_after_a_change_that_alters_it(
    control: dict, candidate: dict, due: set[Arm]
):
    assert arms_to_check(Configuration.of(CONTROL | control), Configuration.of(CONTROL | candidate)) == due


def test_the_text_that_drafting_changed_is_refuted_by_the_real_judge(run: Run):
    plan = PLAN.model_copy(update={"margins": PLAN.margins.model_copy(update={"task_points": 10.0})})
    noise = {"target_key": "desk/cpu", "launches": 12, "degrees_of_freedom": 10, "launch_sd_log": 0.003}
    spec = a_test_job(FASTER | DRAFTING | {"simulated.divergences": 1}, plan=plan, noise=noise)
    result = run(spec, LaunchIntervalJudge())
    assert result.stop_reason is not None
    assert "drafting changes the text" in result.stop_reason


def test_a_control_that_drafts_is_checked_too_and_its_check_is_made_once(run: Run):
    more = DRAFTING | {"drafting.draft_tokens": 3}
    spec = a_test_job(FASTER | more, CONTROL | DRAFTING)
    first, second = (run(spec, [MeasurePair(Stage.QUICK, 2), Evaluate()]) for _ in range(2))
    for result in (first, second):
        checked = [each for each in result.launches if each.values(Metric.DIVERGENCES)]
        assert [each.arm for each in checked] == [Arm.CONTROL, Arm.CANDIDATE]
        assert [each.configuration_digest for each in checked] == [
            Configuration.of(CONTROL | DRAFTING).digest,
            Configuration.of(FASTER | more).digest,
        ]
        assert items(checked[0], Metric.DIVERGENCES) == items(checked[1], Metric.DIVERGENCES)
    built = [
        [each.build_s > 0 for each in result.artifacts if each.kind == "drafting-check"]
        for result in (first, second)
    ]
    assert built == [[True], [False]]


def test_what_is_kept_of_a_control_is_made_anew_where_its_drafter_was_trained_again_in_place(
    run: Run, tmp_path: Path
):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "config.json").write_text("{}")
    external = {"drafting.method": "dflash", "drafting.draft_tokens": 2, "drafting.drafter": str(mine)}
    spec = a_test_job(FASTER | external | {"drafting.draft_tokens": 3}, CONTROL | external)
    built = []
    for weights in (b"one", b"one", b"other"):
        (mine / "model.safetensors").write_bytes(weights)
        kept = {each.kind: each.build_s > 0 for each in run(spec, [Evaluate()]).artifacts}
        built.append((kept["drafting-check"], kept["evaluation"]))
    assert built == [(True, True), (False, False), (True, True)]


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ({"simulated.divergences": 1}, "drafting changes the text"),
        ({"simulated.step_tokens": 1}, "hardly ever"),
    ],
)
def test_a_control_whose_drafting_does_not_do_its_work_ends_the_job_as_one_whose_control_did_not_run(
    run: Run, fault: dict, told: str
):
    plan = PLAN.model_copy(update={"margins": PLAN.margins.model_copy(update={"task_points": 10.0})})
    noise = {"target_key": "desk/cpu", "launches": 12, "degrees_of_freedom": 10, "launch_sd_log": 0.003}
    candidate = FASTER | DRAFTING | {"drafting.draft_tokens": 3}
    result = run(
        a_test_job(candidate, CONTROL | DRAFTING | fault, plan=plan, noise=noise), LaunchIntervalJudge()
    )
    assert result.failure is not None
    assert result.failure.kind == "control"
    assert told in result.failure.cause
