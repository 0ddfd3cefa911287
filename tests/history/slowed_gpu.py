"""Environments of launches whose blocks were timed on a GPU, calm or held down, as a timed block stores them.

The readings are made up, and what is stored of them is what `gpu_during` makes of them: no GPU was that hot
here.
"""

from __future__ import annotations

from experiments.measurement.evidence import Json
from experiments.measurement.gpu_block import gpu_during
from experiments.telemetry.watching import GpuReading

POWER_CAP, SLOWDOWN, BY_DRIVER, BY_HARDWARE, BRAKE = 0x4, 0x8, 0x20, 0x40, 0x80
"""NVML's bits of what holds clocks down; two of them are heat, told by the driver and by the hardware."""


def a_block(bits: int, *clocks: int, hottest_c: int = 87) -> dict[str, Json]:
    """What is stored of a block at whose readings these reasons stood, once a second."""
    readings = [
        GpuReading(float(at), mhz, None, 215.0, hottest_c, None, bits) for at, mhz in enumerate(clocks)
    ]
    return {**gpu_during(readings, 100), "repeated": []}


CALM = a_block(0, 1980, 1980, 1980, hottest_c=61)
HOT = a_block(BY_DRIVER, 1980, 360, 360)
CAPPED = a_block(POWER_CAP, 1980, 1400, 1400, hottest_c=90)
COOLED = {**CALM, "repeated": [HOT]}
"""One that was run again after a pause, and then undisturbed."""


def blocks_with(*gpus: Json) -> list[Json]:
    """The blocks of a launch as they are stored."""
    return [{"block": at, "before": {}, "after": {}, "during": {"gpu": gpu}} for at, gpu in enumerate(gpus)]


def environment(*gpus: Json) -> dict[str, object]:
    """An environment as a launch stores it."""
    return {
        "machine": {"gpu": {"name": "a made-up GPU", "max_sm_mhz": 1980}},
        "blocks": blocks_with(*gpus),
    }
