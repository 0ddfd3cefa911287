"""The runner with real processes of the simulated engine."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import psutil
import pytest

from agent.judge.launch_interval import LaunchIntervalJudge
from configs.errors import AutoinferError, DiskFull
from experiments.artifacts.store import ArtifactStore
from experiments.engines.port import Infeasible
from experiments.job.context import JobContext
from experiments.job.drafting import arms_to_check
from experiments.job.journal import read_records
from experiments.job.limits import StageLimits
from experiments.job.records import Records
from experiments.job.result import Failure, JobResult
from experiments.job.run import run_job
from experiments.job.spec import BaselineJob, TestJob
from experiments.measurement.evidence import (
    Arm,
    Evidence,
    Json,
    LaunchRecord,
    Metric,
    NoiseProfile,
    Stage,
)
from experiments.measurement.judging import (
    Evaluate,
    Judge,
    JudgeVerdict,
    MeasureMore,
    MeasurePair,
    Outcome,
    Screen,
    Step,
)
from experiments.measurement.plan import StoppingPlan
from experiments.space.configuration import Configuration
from tests.simulated.engine import SimulatedEngine
from tests.simulated.judges import StepsJudge
from tests.simulated.material import SimulatedMaterial, SimulatedPruning
from tests.simulated.specs import CONTROL, FASTER, PLAN, WORKLOAD, a_baseline_job, a_test_job

Run = Callable[..., JobResult]

ONE_PAIR: Sequence[Step] = [MeasurePair(Stage.QUICK, 2)]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Runs a spec in a folder of its own; afterwards no process may be left."""
    (tmp_path / "cache").mkdir()
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    runs = 0

    def run(
        spec: BaselineJob | TestJob, judge: Judge | Sequence[Step] = ONE_PAIR, **context: object
    ) -> JobResult:
        nonlocal runs
        folder = tmp_path / str(runs)
        folder.mkdir()
        runs += 1
        steering = StepsJudge(judge) if isinstance(judge, Sequence) else judge
        with ArtifactStore(tmp_path / "artifacts") as store, Records(folder / "records.jsonl") as records:
            place = JobContext(
                folder,
                Path("simulated"),
                store,
                tmp_path / "cache",
                2,
                SimulatedMaterial(),
                (SimulatedPruning(),),
            )
            result = run_job(spec, replace(place, **context), SimulatedEngine(), steering, records)  # type: ignore[arg-type]
        assert read_records(folder / "records.jsonl") == result
        return result

    yield run
    left = {child.pid for child in psutil.Process().children(recursive=True)} - before
    assert not left


def test_a_pair_is_timed_in_blocks_on_the_same_prompts(run: Run):
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


def test_the_reference_is_evaluated_once_and_then_reused(run: Run):
    spec = a_test_job(FASTER | {"simulated.bits": 1100.0})
    first = run(spec, [MeasurePair(Stage.QUICK, 2), Evaluate()])
    second = run(spec, [Evaluate()])
    for result in (first, second):
        control, candidate = (launch for launch in result.launches if launch.stage is Stage.EVALUATE)
        assert control.values(Metric.NLL_BITS)[0] == 1000
        assert candidate.values(Metric.NLL_BITS)[0] == 1100
        assert candidate.values(Metric.KL_NATS) == pytest.approx([0.1] * WORKLOAD.evaluation_documents)
        assert [s.item for s in control.samples if s.metric is Metric.TASK_CORRECT] == [
            s.item for s in candidate.samples if s.metric is Metric.TASK_CORRECT
        ]
    assert [artifact.kind for artifact in first.artifacts] == ["evaluation"]
    assert first.artifacts[0].build_s > 0
    assert second.artifacts[0].build_s == 0
    assert second.artifacts[0].digest == first.artifacts[0].digest


def test_quality_is_compared_with_the_reference_that_the_spec_names(run: Run):
    spec = a_test_job(FASTER, reference=CONTROL | {"simulated.bits": 900.0})
    result = run(spec, [Evaluate()])
    control, _ = result.launches
    assert control.configuration_digest == Configuration.of(CONTROL | {"simulated.bits": 900.0}).digest
    assert control.values(Metric.NLL_BITS)[0] == 900


def test_changed_weights_are_screened_in_the_launch_that_is_ready_soonest(run: Run):
    spec = a_test_job(FASTER | {"simulated.bits": 1100.0, "simulated.load_s": 0.01})
    result = run(spec, [Screen(), MeasurePair(Stage.QUICK, 2)])
    plain = Configuration.of(FASTER | {"simulated.bits": 1100.0})
    control, candidate = (launch for launch in result.launches if launch.stage is Stage.SCREEN)
    assert candidate.configuration_digest == plain.digest
    assert candidate.values(Metric.NLL_BITS)[0] == 1100
    assert control.values(Metric.NLL_BITS)[0] == 1000
    assert [launch.stage for launch in result.launches[2:]] == [Stage.QUICK, Stage.QUICK]


def test_a_screen_of_the_candidate_as_it_is_served_counts_as_its_evaluation(run: Run):
    result = run(a_test_job(FASTER | {"simulated.bits": 1100.0}), [Screen()])
    assert [launch.stage for launch in result.launches] == [Stage.EVALUATE, Stage.EVALUATE]
    assert (
        result.launches[1].configuration_digest
        == Configuration.of(FASTER | {"simulated.bits": 1100.0}).digest
    )


class RefutesByBits(StepsJudge):
    """Refutes a candidate that needs more bits than the reference."""

    name = "refutes-by-bits"

    def verdict(self, plan: StoppingPlan, evidence: Evidence) -> JudgeVerdict:
        bits = {
            arm: fmean(v for each in evidence.of(arm, Stage.EVALUATE) for v in each.values(Metric.NLL_BITS))
            for arm in Arm
        }
        verdict = super().verdict(plan, evidence)
        worse = bits[Arm.CANDIDATE] > bits[Arm.CONTROL]
        return replace(verdict, outcome=Outcome.REFUTED) if worse else verdict


@pytest.mark.parametrize(("bits", "asked"), [(1100.0, False), (900.0, True)])
def test_what_its_bits_refute_is_asked_no_items(run: Run, bits: float, asked: bool):
    result = run(a_test_job(FASTER | {"simulated.bits": bits}), RefutesByBits([Screen()]))
    control, candidate = result.launches
    assert bool(items(candidate, Metric.TASK_CORRECT)) is asked
    assert items(candidate, Metric.NLL_BITS) == items(control, Metric.NLL_BITS)
    assert len({sample.seq for sample in candidate.samples}) == len(candidate.samples)


def of_metric(metric: Metric, **more: object) -> dict[str, object]:
    """The plan of a spec whose claim is on another metric."""
    return {"plan": PLAN.model_copy(update={"metric": metric, **more})}


def items(launch: LaunchRecord, metric: Metric) -> set[str]:
    return {sample.item for sample in launch.samples if sample.metric is metric}


def test_a_second_part_is_scored_by_fresh_processes_on_further_documents_and_items(run: Run):
    result = run(a_test_job(FASTER | {"simulated.bits": 900.0}), [Evaluate(), Evaluate(part=1)])
    assert [(each.arm, each.stage, each.index) for each in result.launches] == [
        (arm, stage, index)
        for stage, index in ((Stage.EVALUATE, 0), (Stage.VALIDATION, 1))
        for arm in (Arm.CONTROL, Arm.CANDIDATE)
    ]
    for metric, count in (
        (Metric.NLL_BITS, WORKLOAD.evaluation_documents),
        (Metric.TASK_CORRECT, WORKLOAD.evaluation_items),
    ):
        first, further = (items(result.launches[place], metric) for place in (1, 3))
        assert len(first) == len(further) == count
        assert not first & further
        assert further == items(result.launches[2], metric)
    assert len({artifact.digest for artifact in result.artifacts}) == 2


def test_a_claim_on_quality_is_compared_with_its_control_and_not_with_the_baseline(run: Run):
    baseline = CONTROL | {"simulated.bits": 900.0}
    result = run(a_test_job(FASTER, reference=baseline, **of_metric(Metric.NLL_BITS)), [Evaluate()])
    assert result.launches[0].configuration_digest == Configuration.of(CONTROL).digest
    assert result.launches[0].values(Metric.NLL_BITS)[0] == 1000


def test_every_evaluated_launch_tells_the_bytes_that_a_step_reads_where_the_engine_does(run: Run):
    heavy = CONTROL | {"simulated.step_weight_bytes": 8000}
    result = run(a_test_job(FASTER | {"simulated.step_weight_bytes": 3000}, heavy), [Evaluate()])
    assert [launch.values(Metric.STEP_WEIGHT_BYTES) for launch in result.launches] == [[8000.0], [3000.0]]
    silent = run(a_test_job(), [Evaluate()])
    assert not any(launch.values(Metric.STEP_WEIGHT_BYTES) for launch in silent.launches)


def test_bytes_are_those_of_the_control_where_another_configuration_lends_the_quality(run: Run):
    control = CONTROL | {"simulated.step_weight_bytes": 5000}
    baseline = CONTROL | {"simulated.step_weight_bytes": 8000}
    candidate = FASTER | {"simulated.step_weight_bytes": 3000}
    spec = a_test_job(candidate, control, reference=baseline, **of_metric(Metric.STEP_WEIGHT_BYTES))
    result = run(spec, [Evaluate()])
    told = {
        each.configuration_digest: each.values(Metric.STEP_WEIGHT_BYTES)
        for each in result.launches
        if each.values(Metric.STEP_WEIGHT_BYTES)
    }
    assert told == {
        Configuration.of(control).digest: [5000.0],
        Configuration.of(candidate).digest: [3000.0],
    }


SCORED = [
    (
        {"simulated.bits": 980.0},
        {"metric": Metric.NLL_BITS, "min_effect": 0.005},
        "Bits per byte −2.0 %",
    ),
    (
        {"simulated.unsolved": 0},
        {"metric": Metric.TASK_CORRECT, "min_effect": 0.02},
        "Tasks +30.0 points",
    ),
    (
        {"simulated.step_weight_bytes": 4000},
        {"metric": Metric.STEP_WEIGHT_BYTES, "min_effect": 0.05},
        "Bytes a step −50.0 %",
    ),
]


@pytest.mark.parametrize(("knobs", "claim", "told"), SCORED)
def test_a_claim_that_is_scored_is_supported_by_the_real_judge_and_nothing_is_timed(
    run: Run, knobs: dict, claim: dict, told: str
):
    margins = PLAN.margins.model_copy(update={"task_points": 10.0})
    plan = PLAN.model_copy(update={"margins": margins, **claim})
    before = {
        "simulated.bits": 1000.0,
        "simulated.unsolved": 15 if claim["metric"] is Metric.TASK_CORRECT else 0,
        "simulated.step_weight_bytes": 8000,
    }
    spec = a_test_job(FASTER | before | knobs, CONTROL | before, plan=plan)
    result = run(spec, LaunchIntervalJudge())
    assert [stage.stage for stage in result.stages] == [Stage.STATIC, Stage.EVALUATE, Stage.VALIDATION]
    assert not any(launch.values(Metric.TPOT_MS) for launch in result.launches)
    changes = Configuration.of(spec.control).changes_to(Configuration.of(spec.candidate))
    noise = NoiseProfile("desk/cpu", plan.metric, 0, 0, None)
    verdict = LaunchIntervalJudge().verdict(plan, Evidence(result.launches, noise, changes))
    assert verdict.outcome is Outcome.SUPPORTED, verdict.reason
    assert told in verdict.reason


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


def test_a_screened_configuration_that_the_spec_does_not_name_is_told_with_its_knobs(run: Run):
    result = run(a_test_job(FASTER | {"simulated.load_s": 0.01}), [Screen()])
    plain = Configuration.of(FASTER)
    assert dict(result.configurations) == {plain.digest: dict(plain)}
    assert run(a_test_job(), [Screen()]).configurations == {}


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


@pytest.mark.parametrize("hangs", ["generate", "score"])
def test_a_stage_that_hangs_is_ended_at_its_limit(run: Run, hangs: str):
    stage = Stage.QUICK if hangs == "generate" else Stage.EVALUATE
    result = run(
        a_test_job(FASTER | {"simulated.hangs": hangs}),
        [MeasurePair(Stage.QUICK, 2), Evaluate()],
        limits_s={stage: 0.3},
    )
    assert result.failure == Failure(
        "timed_out", f"The stage {stage.value} took longer than its limit of 0.3 s."
    )
    assert (result.stages[-1].stage, result.stages[-1].outcome) == (stage, "timed_out")


def test_a_launch_that_is_not_ready_within_the_load_limit_is_infeasible(run: Run):
    """The limit of loading is a setting of its own: the stage's is far away."""
    result = run(a_test_job(FASTER | {"simulated.load_s": 60}), load_limit_s=0.5)
    assert result.failure == Failure("timed_out", "The simulated process was not ready within 0.5 s.")


def test_a_stage_that_computes_in_the_job_itself_is_given_up():
    given_up = threading.Event()
    limits = StageLimits({Stage.PRUNE: 0.05}, lambda reason: given_up.set(), stuck_after_s=0.05)

    def compute() -> None:
        with limits.of(Stage.PRUNE):
            given_up.wait(10)
            limits.check()

    with pytest.raises(Infeasible, match="longer than its limit"):
        compute()
    assert given_up.is_set()


def test_the_baseline_chooses_the_fastest_that_runs(run: Run):
    broken = {"simulated.tpot_ms": 5.0, "simulated.fails": "generate", "simulated.fails_after": 4}
    illegal = {"simulated.tpot_ms": 1.0, "simulated.fails": "check"}
    slow, fast = {"simulated.tpot_ms": 10.0}, {"simulated.tpot_ms": 8.0}
    result = run(a_baseline_job((slow, illegal, broken, fast)))
    assert result.chosen == fast
    assert result.failure is None
    assert [stage.stage for stage in result.stages] == [
        Stage.STATIC, Stage.SWEEP, Stage.NOISE, Stage.EVALUATE, Stage.PROFILE,
    ]  # fmt: skip
    assert result.stages[0].detail["refused"] == ["The simulated configuration is illegal."]
    noise = [launch for launch in result.launches if launch.stage is Stage.NOISE]
    assert [launch.index for launch in noise] == [0, 1, 2]
    assert {launch.configuration_digest for launch in noise} == {Configuration.of(fast).digest}
    assert [part.part for part in result.profile] == ["layers", "rest"]
    evaluated = [launch for launch in result.launches if launch.stage is Stage.EVALUATE]
    assert evaluated[0].values(Metric.NLL_BITS)


def test_a_sweep_interleaves_its_launches(run: Run):
    sweep = tuple({"simulated.tpot_ms": 10.0 + n} for n in range(3))
    result = run(a_baseline_job(sweep, sweep_blocks=4))
    places = {
        launch.index: [s.position for s in launch.samples if s.metric is Metric.TTFT_MS]
        for launch in result.launches
        if launch.stage is Stage.SWEEP
    }
    assert len({sum(positions) for positions in places.values()}) == 1
    assert len({min(positions) for positions in places.values()}) == 3


def test_a_baseline_that_can_t_run_at_all_says_why(run: Run):
    result = run(a_baseline_job(({"simulated.tpot_ms": 1.0, "simulated.fails": "load"},)))
    assert result.failure == Failure(
        "crashed", "The simulated process ended: simulated: no memory for the weights."
    )
    assert result.chosen is None


def test_the_baseline_s_evaluation_serves_the_tests_that_follow(run: Run):
    run(a_baseline_job((CONTROL,)))
    result = run(a_test_job(), [Evaluate()])
    assert [artifact.build_s for artifact in result.artifacts] == [0.0]


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
            self, configuration: Configuration, checkpoint: Path, folder: Path, beside: Path | None = None
        ) -> Mapping[str, Json]:
            Path("/dev/full").write_text("weights")
            return {}

    with pytest.raises(DiskFull, match="No space is left for artifacts"):
        run(a_test_job(FASTER | {"simulated.layers": 3}), checkpoint_stages=(Full(),))
    assert read_records(tmp_path / "0" / "records.jsonl").failure is None
