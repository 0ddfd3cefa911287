"""A table leaves a GPU whose memory a load that hung still holds, and no other; with the simulated engine."""

import threading
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from agent.tables.device import TableDevice
from agent.tables.run import measure
from experiments.engines.port import Infeasible
from experiments.space.configuration import Configuration
from experiments.telemetry.occupants import DeviceUse, Occupant
from tests.integration.tables.tables import DEVICE, grid_in, lines_of, run_in
from tests.simulated.engine import SimulatedEngine, SimulatedLaunch


@pytest.mark.parametrize("room", [False, True], ids=["known", "found-out-by-the-engine"])
def test_what_a_hung_load_still_holds_is_named_and_no_later_load_is_put_down_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: bool
) -> None:
    """Its process hangs in the driver, so that killing it does not give its memory back."""
    monkeypatch.setattr("agent.tables.measure.FREED_S", 0.2)
    hung = threading.Event()

    class Held(TableDevice):
        def has_room(self, needed_bytes: int) -> bool:
            return room or not hung.is_set()

        def held_by(self, *_: object) -> str | None:
            return "process 4242 (VLLM::EngineCore) holds 30.1 GB" if hung.is_set() else None

    class HangsFirst(SimulatedEngine):
        def launch(self, configuration: Configuration, *args: Any, **more: Any) -> SimulatedLaunch:
            if hung.is_set():
                raise Infeasible("out_of_memory", "There is no room for the weights.")
            hung.set()
            raise Infeasible("timed_out", "It was not ready within 900 s.")

    grid = replace(grid_in(tmp_path), same=None)
    devices = (Held(**asdict(replace(DEVICE, device="cuda:0"))),)
    run = run_in(tmp_path, grid, devices=devices, loads_ahead=0)
    said: list[str] = []
    ended = measure(replace(run, sources=replace(run.sources, engine=HangsFirst)), said.append)
    first, second = (grid.digest(each) for each in grid.loads[:2])
    failed = [(line["load"], line["failure"]["kind"]) for line in lines_of(tmp_path) if "failure" in line]
    assert failed == [(first, "timed_out")]
    assert ended.loads_left == len(grid.loads)
    assert ended.reason == (
        f"cuda:0 has no room for {second}, because something else holds its memory: process 4242 "
        f"(VLLM::EngineCore) holds 30.1 GB; before it {first} failed (timed_out): It was not ready within "
        "900 s; end it, or reset the GPU where it can't be ended (`nvidia-smi --gpu-reset`), and give the "
        "same command again"
    )
    assert said[-1] == f"{ended.reason}."
    assert lines_of(tmp_path)[-1]["reason"] == ended.reason


def test_who_holds_memory_of_a_gpu_is_told_by_number_and_amount() -> None:
    engine = Occupant(4242, "VLLM::EngineCore", 30_100_000_000)
    device = replace(DEVICE, device="cuda:0")
    held = DeviceUse(30_600_000_000, 80_000_000_000, (engine,))
    assert device.held_by(look=lambda _: held) == "process 4242 (VLLM::EngineCore) holds 30.1 GB"
    assert device.held_by(look=lambda _: replace(held, used_bytes=500_000_000, computing=())) is None
    hidden = device.held_by(look=lambda _: replace(held, computing=()))
    assert hidden is not None
    assert hidden.startswith("30.6 GB are held, and the driver names no process that computes")
    assert DEVICE.held_by(look=lambda _: held) is None  # a processor


def test_a_desktop_or_a_gpu_too_small_for_a_load_keeps_it_from_being_tried_no_more_than_before() -> None:
    device = replace(DEVICE, device="cuda:0")
    desktop = DeviceUse(1_200_000_000, 24_000_000_000, (Occupant(7, "Xorg", 1_100_000_000),))
    assert device.held_by(look=lambda _: desktop) is None
    hung = DeviceUse(10_000_000_000, 24_000_000_000, (Occupant(7, "VLLM::EngineCore", 9_900_000_000),))
    assert device.held_by(12 * 10**9, look=lambda _: hung) is not None
    assert device.held_by(20 * 10**9, look=lambda _: hung) is None  # no room on the empty GPU either
