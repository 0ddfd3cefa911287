"""The runner with real processes of the simulated engine."""

import json
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from agent.judge.launch_interval import LaunchIntervalJudge
from configs.errors import AutoinferError, DiskFull
from experiments.engines.port import GenerationTrace, Infeasible
from experiments.engines.server_process import end_process_tree
from experiments.job import loads_told
from experiments.job.journal import read_records
from experiments.job.limits import StageLimits
from experiments.job.result import Failure
from experiments.job.versions_here import OWN_PACKAGES
from experiments.measurement.evidence import (
    Arm,
    Evidence,
    Json,
    Metric,
    NoiseProfile,
    Stage,
)
from experiments.measurement.judging import (
    Evaluate,
    MeasureMore,
    MeasurePair,
    Outcome,
)
from experiments.space.configuration import Configuration
from experiments.stages.quantize.stage import WeightQuantization
from tests.integration.job.running import Run, run
from tests.simulated.engine import SimulatedEngine, SimulatedLaunch
from tests.simulated.judges import StepsJudge
from tests.simulated.material import SimulatedMaterial, SimulatedPruning
from tests.simulated.specs import CONTROL, FASTER, PLAN, WORKLOAD, a_baseline_job, a_test_job

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


def test_what_the_sweep_drops_is_kept_with_its_configuration_and_its_cause(run: Run):
    blamed = {**CONTROL, "simulated.fails": "generate", "simulated.blames": "simulated.fails"}
    at_load = {**CONTROL, "simulated.fails": "load"}
    result = run(a_baseline_job((blamed, CONTROL, at_load)))
    (sweep,) = (each for each in result.stages if each.stage is Stage.SWEEP)
    told = sweep.detail["failed"]
    assert isinstance(told, list)
    found = {
        each["configuration"]["simulated.fails"]: each["blames"] for each in told if isinstance(each, dict)
    }
    assert found == {"generate": {"simulated.fails": None}, "load": {}}
    assert len(told) == 2


class GivesUp(SimulatedEngine):
    """Ends a launch that gives no answer in a while, and tells that as its own limit of a request."""

    def launch(self, configuration: Configuration, *args: Any, **more: Any) -> SimulatedLaunch:
        launch = super().launch(configuration, *args, **more)
        if configuration.get("simulated.hangs"):
            launch.serve = partial(gives_up, launch, launch.serve)  # type: ignore[method-assign]
        return launch


def gives_up(
    launch: SimulatedLaunch, serve: Callable[..., list[GenerationTrace]], *args: Any
) -> list[GenerationTrace]:
    late = threading.Timer(0.2, launch.process.kill)
    late.start()
    try:
        return serve(*args)
    except Infeasible:
        raise Infeasible("timed_out", "The engine did not serve them within 0.2 s; it was ended.") from None
    finally:
        late.cancel()


@pytest.mark.parametrize("dies", ["load", "score"])
def test_versions_are_asked_for_where_no_launch_measured_anything_and_so_tells_them(
    run: Run, monkeypatch: pytest.MonkeyPatch, dies: str
):
    asked: list[tuple[object, ...]] = []

    def here(*told: object) -> Mapping[str, str]:
        asked.append(told)
        return {"torch": "2.14.0"}

    monkeypatch.setattr("experiments.job.run.versions_here", here)
    spec = a_baseline_job(({**CONTROL, "simulated.fails": dies},))
    failure = run(spec).failure
    assert failure is not None
    measured = dies == "score"
    assert failure.versions == ({} if measured else {"torch": "2.14.0"})
    assert asked == ([] if measured else [(spec.engine, spec.device, OWN_PACKAGES)])


@pytest.mark.parametrize("after", [0, 4])
@pytest.mark.parametrize("at_once", [None, 1])
def test_a_launch_of_the_sweep_that_hangs_is_told_and_the_others_are_timed(
    run: Run, after: int, at_once: int | None
):
    """While it warms up or later, with the others up beside it or one launch up at a time."""
    hangs = {**CONTROL, "simulated.hangs": "generate", "simulated.hangs_after": after}
    other = CONTROL | {"simulated.tpot_ms": 30.0}
    result = run(a_baseline_job((hangs, CONTROL, other), at_once=at_once), engine=GivesUp())
    assert result.failure is None
    assert result.chosen == CONTROL
    (sweep,) = (each for each in result.stages if each.stage is Stage.SWEEP)
    assert sweep.outcome == "done"
    assert sweep.detail["failed"] == [
        {
            "configuration": hangs,
            "kind": "timed_out",
            "cause": "The engine did not serve them within 0.2 s; it was ended.",
            "blames": {},
        }
    ]
    timed = {each.index for each in result.launches if each.stage is Stage.SWEEP and each.samples}
    assert timed >= {1, 2}


def records_of(folder: Path) -> list[dict[str, Any]]:
    """Every record of the runs of a folder, in their order."""
    files = sorted(folder.glob("*/records.jsonl"))
    return [json.loads(line) for each in files for line in each.read_text().splitlines()]


def test_while_launches_load_the_job_tells_what_they_do_and_for_how_long(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(loads_told, "TELL_EVERY_S", 0.05)

    class TellsItsLoad(SimulatedEngine):
        def load_phase(self, log: str) -> str:
            return "warming up (1 of 2)" if "ready" in log else "loading weights"

    slow = CONTROL | {"simulated.load_s": 0.5}
    result = run(a_baseline_job((slow, CONTROL)), engine=TellsItsLoad())
    assert result.failure is None
    told = [each["text"] for each in records_of(tmp_path) if each["record"] == "loading"]
    assert any(
        each.startswith("loading, for ") and "loading weights for " in each for each in told if each
    ), told
    assert told[-1] is None
    sweep = [each for each in records_of(tmp_path) if each["record"] in ("loading", "block")]
    first_block = next(place for place, each in enumerate(sweep) if each["record"] == "block")
    assert sweep[first_block - 1] == {**sweep[first_block - 1], "record": "loading", "text": None}


def test_an_engine_that_does_not_tell_how_a_load_gets_on_is_waited_for_in_silence(run: Run, tmp_path: Path):
    run(a_baseline_job((CONTROL | {"simulated.load_s": 0.3},)))
    assert not [each for each in records_of(tmp_path) if each["record"] == "loading"]


def test_a_sweep_in_which_nothing_answers_ends_at_its_limit(run: Run):
    hangs = {**CONTROL, "simulated.hangs": "generate"}
    result = run(a_baseline_job((CONTROL, hangs)), limits_s={Stage.SWEEP: 1.0})
    assert result.failure == Failure("timed_out", "The stage sweep took longer than its limit of 1 s.")


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


def test_what_a_process_from_before_starts_is_left_alone():
    """As a database server does that runs beside: it is not the job's, and killing it would be felt."""
    shell = ["sh", "-c", "read line; sleep 60 & echo $!; wait"]
    other = subprocess.Popen(shell, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdin is not None
    assert other.stdout is not None
    limits = StageLimits({Stage.PRUNE: 0.2})
    try:
        with limits.of(Stage.PRUNE):
            own = subprocess.Popen(["sleep", "60"])
            other.stdin.write("now\n")
            other.stdin.flush()
            of_other = psutil.Process(int(other.stdout.readline()))
            assert own.wait(10) == -signal.SIGKILL
        assert of_other.is_running()
        assert of_other.status() != psutil.STATUS_ZOMBIE
        assert other.poll() is None
    finally:
        end_process_tree(other)
        other.stdin.close()
        other.stdout.close()


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


def test_what_no_configuration_is_to_blame_for_ends_a_sweep_at_its_first_launch(run: Run):
    class Full(SimulatedEngine):
        asked = 0

        def launch(self, *_: object, **__: object) -> SimulatedLaunch:
            Full.asked += 1
            raise DiskFull("A disk is full.", "Free some.")

    with pytest.raises(DiskFull, match="A disk is full"):
        run(a_baseline_job((CONTROL, FASTER)), engine=Full(), cores=1)
    assert Full.asked == 1


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
