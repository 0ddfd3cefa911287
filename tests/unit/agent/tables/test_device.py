"""A table's lines tell its GPU by name and memory, by which the listed bandwidth of its floors is found."""

from pathlib import Path
from typing import Any

import pytest

from agent.ground.target import find_target
from agent.tables import device as tables_device
from agent.tables.device import find_device
from agent.tables.floor import listed_bandwidth
from configs.hardware import load_hardware_profile
from experiments.engines.vllm.environment import VllmEnvironment
from experiments.telemetry.identity import DeviceIdentity

MIB = 2**20
TEN, TWELVE = 10_240 * MIB, 12_288 * MIB
CARD = "NVIDIA GeForce RTX 3080"
LISTED = load_hardware_profile("rtx-3080").bandwidth_bytes_per_s


def line(name: str = CARD, **more: Any) -> dict[str, Any]:
    return {"kind": "cell", "identity": {"name": name, "engine_version": "0.33.0", **more}}


def test_a_gpu_s_lines_tell_its_memory_and_uuid_and_those_of_a_processor_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = DeviceIdentity(CARD, TWELVE, driver="580.1")
    monkeypatch.setattr(
        tables_device, "find_target", lambda device: find_target(device, identity=lambda _: found)
    )
    vllm = VllmEnvironment(Path("python"), "0.33.0", for_cpu=False)
    monkeypatch.setattr(tables_device, "needed_environment", lambda device: vllm)
    monkeypatch.setattr(tables_device, "card_uuid", {"cuda:0": "GPU-1"}.get)
    identity = find_device("cuda:0").identity()
    assert (identity["name"], identity["memory_bytes"], identity["driver"]) == (CARD, TWELVE, "580.1")
    assert identity["uuid"] == "GPU-1"
    processor = find_device("cpu").identity()
    assert (processor["memory_bytes"], processor["uuid"]) == (None, None)


@pytest.mark.parametrize(
    ("lines", "bandwidth"),
    [
        pytest.param([line(memory_bytes=TEN)], LISTED, id="the-listed-one"),
        pytest.param([line(memory_bytes=TWELVE)], None, id="its-namesake"),
        pytest.param([line(memory_bytes=TEN), line(memory_bytes=TEN - MIB)], LISTED, id="two-drivers"),
        pytest.param([line(memory_bytes=TEN), line(memory_bytes=TWELVE)], None, id="both"),
        pytest.param([line()], LISTED, id="an-old-journal"),
        pytest.param([line(memory_bytes=None)], LISTED, id="not-known"),
        pytest.param([line(), line(memory_bytes=TWELVE)], None, id="an-old-one-gone-on-with"),
        pytest.param([line("NVIDIA H200"), line("NVIDIA H100 80GB HBM3")], None, id="two-kinds"),
        pytest.param([line("some processor, 2 cores", memory_bytes=None)], None, id="a-processor"),
        pytest.param([], None, id="no-line"),
    ],
)
def test_cards_of_one_name_are_told_apart_by_the_memory_that_lines_tell(
    lines: list[dict[str, Any]], bandwidth: float | None
) -> None:
    assert listed_bandwidth(lines) == bandwidth
