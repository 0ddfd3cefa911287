"""Tests of a candidate against its control, with real processes of the simulated engine."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from agent.judge.launch_interval import LaunchIntervalJudge
from configs.errors import AutoinferError, DiskFull
from experiments.job.journal import read_records
from experiments.job.result import Failure
from experiments.measurement.evidence import (
    Arm,
    Evidence,
    Json,
    Metric,
    NoiseProfile,
    Stage,
)
from experiments.measurement.judging import (
    MeasureMore,
    MeasurePair,
    Outcome,
)
from experiments.space.configuration import Configuration
from experiments.stages.quantize.stage import WeightQuantization
from tests.integration.job.running import Run, run
from tests.simulated.judges import StepsJudge
from tests.simulated.material import SimulatedMaterial, SimulatedPruning
from tests.simulated.specs import CONTROL, FASTER, PLAN, WORKLOAD, a_test_job

__all__ = ["run"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("nowhere.txt", None, "nowhere.txt"),
        ("empty.txt", b" \n", "is empty: give a file with text in it."),
        ("image.txt", b"\x89PNG\0", "is not text"),
        ("latin.txt", b"caf\xe9", "is not text in UTF-8"),
    ],
)
def test_a_corpus_that_is_no_text_is_a_failed_stage_with_its_cause(
    run: Run, tmp_path: Path, name: str, content: bytes | None, said: str
):
    """Whether there is something to quantize with or not."""
    if content is not None:
        (tmp_path / name).write_bytes(content)
    knobs = {"quantization.method": "awq", "quantization.corpus": f"user:{tmp_path / name}"}
    result = run(a_test_job(FASTER | knobs), checkpoint_stages=(WeightQuantization(),))
    last = result.stages[-1]
    assert (last.stage, last.outcome) == (Stage.QUANTIZE, "failed")
    assert said in str(last.detail["cause"])
    assert result.failure == Failure("illegal", str(last.detail["cause"]))


def test_a_pair_is_timed_in_blocks_on_the_same_prompts(run: Run, tmp_path: Path):
    result = run(a_test_job(), [MeasurePair(Stage.QUICK, 3)])
    control, candidate = result.launches
    assert (control.arm, candidate.arm) == (Arm.CONTROL, Arm.CANDIDATE)
    per_block = {
        arm.arm: [(s.block, s.item) for s in arm.samples if s.metric is Metric.TPOT_MS]
        for arm in result.launches
    }
    assert per_block[Arm.CONTROL] == per_block[Arm.CANDIDATE]
    positions = {(s.position, launch.arm) for launch in result.launches for s in launch.samples}
    order = [arm.value for _, arm in sorted(positions)]
    assert order == ["control", "candidate", "candidate", "control", "candidate", "control"]
    lines = [json.loads(each) for each in (tmp_path / "0" / "records.jsonl").read_text().splitlines()]
    told = {
        line["done"]: line["arm"]
        for line in lines
        if line["record"] == "progress" and line["stage"] == "quick" and "arm" in line
    }
    assert [told[done] for done in range(len(order))] == order, "before each block, its arm is told"
    assert all(
        c / d > 0.6
        for c, d in zip(control.values(Metric.TPOT_MS), candidate.values(Metric.TPOT_MS), strict=True)
    )


def test_every_raw_sample_is_kept_and_warm_up_is_not(run: Run):
    result = run(a_test_job())
    for launch in result.launches:
        requests = 2 * WORKLOAD.prompts_per_block
        assert len(launch.values(Metric.TTFT_MS)) == len(launch.values(Metric.E2EL_MS)) == requests
        assert len(launch.values(Metric.TPOT_MS)) == len(launch.values(Metric.TOKENS_PER_S)) == requests
        assert len(launch.values(Metric.ITL_MS)) == requests * (WORKLOAD.new_tokens - 1)
        assert "warm-up" not in {sample.item for sample in launch.samples}
        assert [sample.seq for sample in launch.samples] == list(range(len(launch.samples)))
        blocks = launch.environment["blocks"]
        assert isinstance(blocks, list)
        assert len(blocks) == 2
        assert all(set(block) == {"block", "position", "before", "after"} for block in blocks)
        assert launch.resolved == {"engine": "simulated"}


def test_measuring_more_continues_the_running_pair(run: Run):
    result = run(a_test_job(), [MeasurePair(Stage.QUICK, 2), MeasureMore(Stage.FULL, 3)])
    assert [launch.index for launch in result.launches] == [0, 0]
    assert {s.block for s in result.launches[0].samples} == {0, 1, 2, 3, 4}
    assert [(stage.stage, stage.outcome) for stage in result.stages[1:]] == [
        (Stage.QUICK, "done"),
        (Stage.FULL, "done"),
    ]


def test_the_judge_is_told_how_long_measuring_took_by_the_clock(run: Run):
    judge = StepsJudge([MeasurePair(Stage.QUICK, 2), MeasurePair(Stage.FULL, 2)])
    result = run(a_test_job(), judge)
    static, *pairs = (stage.wall_s for stage in result.stages)
    assert [each.measured_s for each in judge.seen] == [None, pairs[0], sum(pairs)]
    assert static > 0
    assert [each.in_turn for each in judge.seen] == [False] * 3
    in_turn = StepsJudge([])
    run(a_test_job(at_once=1), in_turn)
    assert in_turn.seen[0].in_turn


def test_each_pair_is_of_fresh_processes_and_numbered_over_the_stages(run: Run):
    result = run(
        a_test_job(),
        [MeasurePair(Stage.QUICK, 2), MeasurePair(Stage.FULL, 2), MeasurePair(Stage.VALIDATION, 2)],
    )
    assert [(launch.stage, launch.index) for launch in result.launches[::2]] == [
        (Stage.QUICK, 0), (Stage.FULL, 1), (Stage.VALIDATION, 2),
    ]  # fmt: skip
    firsts = [
        min(launches, key=lambda each: each.samples[0].position).arm
        for launches in zip(result.launches[::2], result.launches[1::2], strict=True)
    ]
    assert firsts == [Arm.CONTROL, Arm.CANDIDATE, Arm.CONTROL]
    assert [launch.arm for launch in result.launches[::2]] == firsts, "the first seat changes with every pair"


def test_a_job_that_is_run_again_opens_its_pairs_in_the_same_order(run: Run):
    steps = [MeasurePair(Stage.QUICK, 2), MeasureMore(Stage.FULL, 2), MeasurePair(Stage.FULL, 2)]
    spec = a_test_job()
    orders = [[(launch.arm, launch.index) for launch in run(spec, steps).launches] for _ in range(2)]
    assert orders[0] == orders[1]
    assert [index for _, index in orders[0]] == [0, 0, 1, 1]


def test_where_both_arms_do_not_run_the_control_is_named_whichever_has_the_first_seat(run: Run):
    fails = {"simulated.fails": "load"}
    for seed in (0, 1):
        spec = a_test_job(FASTER | fails, control=CONTROL | fails, seed=seed)
        result = run(spec, [MeasurePair(Stage.QUICK, 2)])
        assert result.failure is not None
        assert result.failure.kind == "control"


def test_pruning_goes_through_the_store_once(run: Run):
    spec = a_test_job(FASTER | {"simulated.layers": 3})
    first, second = run(spec), run(spec)
    prune = [
        [stage.outcome for stage in result.stages if stage.stage is Stage.PRUNE] for result in (first, second)
    ]
    assert prune == [["done"], ["reused"]]
    assert first.artifacts[0].digest == second.artifacts[0].digest


@pytest.mark.parametrize(
    ("knobs", "kind", "stage"),
    [
        ({"simulated.fails": "check"}, "illegal", Stage.STATIC),
        ({"simulated.fails": "load"}, "crashed", Stage.QUICK),
        ({"simulated.fails": "generate", "simulated.fails_after": 3}, "crashed", Stage.QUICK),
        ({"simulated.layers": 0}, "build_failed", Stage.PRUNE),
    ],
)
def test_a_candidate_that_can_t_run_is_a_result_with_its_cause(
    run: Run, knobs: dict, kind: str, stage: Stage
):
    result = run(a_test_job(FASTER | knobs))
    assert result.failure is not None
    assert result.failure.kind == kind
    assert result.failure.cause.endswith(".")
    assert (result.stages[-1].stage, result.stages[-1].outcome) == (stage, "failed")


def test_samples_before_a_crash_are_kept(run: Run):
    result = run(
        a_test_job(FASTER | {"simulated.fails": "generate", "simulated.fails_after": 6}),
        [MeasurePair(Stage.QUICK, 9)],
    )
    assert result.failure is not None
    assert result.launches[0].values(Metric.TPOT_MS)


def test_a_control_that_does_not_run_is_not_the_candidate_s_fault(run: Run):
    result = run(a_test_job(control=CONTROL | {"simulated.fails": "load"}))
    assert result.failure == Failure(
        "control",
        "The control did not run: The simulated process ended: simulated: no memory for the weights.",
    )


def test_a_candidate_s_failure_is_told_with_the_setting_that_the_engine_puts_it_down_to(run: Run):
    blamed = {"simulated.fails": "load", "simulated.blames": "simulated.fails"}
    assert run(a_test_job(FASTER | blamed)).failure == Failure(
        "crashed",
        "The simulated process ended: simulated: no memory for the weights; "
        "put down to simulated.fails=load.",
        {"simulated.fails": None},
    )
    of_control = run(a_test_job(control=CONTROL | blamed)).failure
    assert of_control is not None
    assert (of_control.kind, of_control.blames) == ("control", {})
    assert "put down" not in of_control.cause


def test_a_clear_gain_is_supported_by_the_real_judge(run: Run):
    plan = PLAN.model_copy(update={"margins": PLAN.margins.model_copy(update={"task_points": 10.0})})
    noise = {"target_key": "desk/cpu", "launches": 12, "degrees_of_freedom": 10, "launch_sd_log": 0.003}
    spec = a_test_job(judge="launch-interval", plan=plan, noise=noise)
    result = run(spec, LaunchIntervalJudge())
    profile = NoiseProfile("desk/cpu", Metric.TPOT_MS, 12, 10, 0.003)
    changes = Configuration.of(CONTROL).changes_to(Configuration.of(FASTER))
    verdict = LaunchIntervalJudge().verdict(plan, Evidence(result.launches, profile, changes))
    assert verdict.outcome is Outcome.SUPPORTED, verdict.reason
    assert {launch.stage for launch in result.launches} >= {Stage.QUICK, Stage.EVALUATE, Stage.VALIDATION}


def test_a_job_that_is_not_the_one_that_was_sealed_measures_nothing(run: Run, tmp_path: Path):
    altered = a_test_job().model_copy(update={"plan": PLAN.model_copy(update={"min_effect": 0.001})})
    with pytest.raises(AutoinferError, match="not what was preregistered: its job was sealed as"):
        run(altered)
    assert '"launch"' not in (tmp_path / "0" / "records.jsonl").read_text()


def test_another_version_of_the_judge_than_the_sealed_one_measures_nothing(run: Run, tmp_path: Path):
    with pytest.raises(AutoinferError, match="in version 7, and version 1 is installed"):
        run(a_test_job(judge_version="7"))
    assert '"launch"' not in (tmp_path / "0" / "records.jsonl").read_text()
    assert run(a_test_job(judge_version=StepsJudge.version)).failure is None


def test_a_judge_that_never_stops_is_an_error(run: Run):
    with pytest.raises(AutoinferError, match="did not stop after 100 steps"):
        run(a_test_job(), [MeasurePair(Stage.QUICK, 2), *[MeasureMore(Stage.FULL, 1)] * 200])


def test_a_full_disk_is_an_error_and_no_verdict_on_the_candidate(run: Run, tmp_path: Path):
    class Full(SimulatedPruning):
        def build(
            self,
            configuration: Configuration,
            checkpoint: Path,
            folder: Path,
            beside: Path | None = None,
            tell: object = None,
        ) -> Mapping[str, Json]:
            Path("/dev/full").write_text("weights")
            return {}

    with pytest.raises(DiskFull, match="No space is left for artifacts"):
        run(a_test_job(FASTER | {"simulated.layers": 3}), checkpoint_stages=(Full(),))
    path = tmp_path / "0" / "records.jsonl"
    assert read_records(path).failure is None
    told = [json.loads(each) for each in path.read_text().splitlines()]
    (error,) = [each for each in told if each["record"] == "error"]
    assert error["kind"] == "disk_full", "so that nothing is tried again on it"


def test_other_texts_than_the_sealed_ones_measure_nothing(run: Run, tmp_path: Path):
    with pytest.raises(AutoinferError, match="would be cut from other texts than the baseline's"):
        run(a_test_job(judge_version=StepsJudge.version, texts="those of another Python"))
    assert not read_records(tmp_path / "0" / "records.jsonl").launches
    own = a_test_job(judge_version=StepsJudge.version, texts=SimulatedMaterial().texts())
    assert run(own).failure is None


def test_an_engine_that_tells_nothing_of_what_it_runs_is_refused(run: Run, tmp_path: Path):
    with pytest.raises(AutoinferError, match="The engine simulated tells nothing of what it runs"):
        run(a_test_job(FASTER | {"simulated.silent": True}))
    assert not read_records(tmp_path / "0" / "records.jsonl").launches
