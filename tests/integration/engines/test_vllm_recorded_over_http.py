"""The engine vllm asked over HTTP, against a recorded server."""

import os
import re
import signal
from itertools import pairwise
from pathlib import Path

import pytest

from configs.asked_over import HTTP
from experiments.engines.port import Infeasible
from experiments.engines.vllm.engine import VllmEngine
from experiments.engines.vllm.environment import PYTHON_VARIABLE
from experiments.engines.vllm.silence import SILENT
from experiments.job.block_samples import block_samples
from experiments.measurement.evidence import Metric
from experiments.own_processes import children
from tests.integration.engines.conformance import at_once, begun, wait_until_gone
from tests.integration.engines.recorded_vllm import (
    HTTP_HUNG_S,
    RECORDED,
    folder,
    launch,
    nothing_is_left,
    of,
    over_http,
)
from tests.recorded import vllm_requests

__all__ = ["folder", "launch", "nothing_is_left"]


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
            raise Infeasible("timed_out", f"{SILENT} for 3 min")

        assert launch._client is not None
        monkeypatch.setattr(launch._client, "ask", silent)
        with pytest.raises(Infeasible, match=f"^{SILENT} for 3 min; it was ended: ") as told:
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
