"""What a GPU did during a block, from its readings; those of a real H200 come from the packaged recording."""

from pathlib import Path

import pytest

from experiments.measurement.gpu_block import CLOCKS_FELL, POWER_CAP, gpu_during, throttled
from experiments.telemetry.reading import DeviceKind
from experiments.telemetry.trace import named_recording, read_trace
from experiments.telemetry.watching import GpuReading

MINUTE = slice(0, 60)
"""Of the recording, at 1 Hz."""


def of_the_recording(part: slice) -> list[GpuReading]:
    """Readings of the recorded GPU; it has neither a memory clock nor a count of energy."""
    samples = read_trace(named_recording(Path("h200"))).samples[part]
    first = samples[0].at
    gpus = [next(each for each in one.devices if each.kind is DeviceKind.GPU) for one in samples]
    return [
        GpuReading((one.at - first).total_seconds(), gpu.clock_mhz, None, gpu.power_w, gpu.temperature_c)
        for one, gpu in zip(samples, gpus, strict=True)
    ]


def readings(*told: tuple[float, int], power_w: float = 300.0) -> list[GpuReading]:
    """One a second of clock and reasons."""
    return [GpuReading(float(at), mhz, 3201, power_w, 60, None, bits) for at, (mhz, bits) in enumerate(told)]


def test_the_readings_of_a_real_gpu_become_means_and_energy() -> None:
    found = of_the_recording(MINUTE)
    told = gpu_during(found, output_tokens=1000)
    powers = [each.power_w for each in found if each.power_w is not None]
    assert told["readings"] == len(found)
    assert isinstance(told["power_w"], float)
    assert min(powers) <= told["power_w"] <= max(powers)
    assert told["energy_j"] == pytest.approx(told["power_w"] * found[-1].at_s)
    assert told["energy_by"] == "power"
    assert told["energy_j_per_output_token"] == pytest.approx(told["power_w"] * found[-1].at_s / 1000)
    assert told["temperature_c"] == max(each.temperature_c or 0 for each in found)
    assert told["memory_mhz"] is told["throttle"] is told["throttled"] is None


def test_energy_is_by_the_drivers_count_where_there_is_one_and_it_goes_up() -> None:
    def over(before: float | None, after: float | None) -> tuple[object, object]:
        ends = [
            GpuReading(at, power_w=100.0, energy_j=energy) for at, energy in ((0.0, before), (2.0, after))
        ]
        told = gpu_during(ends, 10)
        return told["energy_j"], told["energy_by"]

    assert over(1000.0, 1250.0) == (250.0, "counter")
    assert over(None, None) == over(1000.0, 3.0) == over(None, 5.0) == (200.0, "power")


def test_a_gpu_that_tells_nothing_has_no_figures_and_none_is_made_up() -> None:
    told = gpu_during([GpuReading(0.0), GpuReading(1.0)], 10)
    assert {name for name, value in told.items() if value is not None} == {"readings", "wall_s"}


@pytest.mark.parametrize(
    ("bit", "words"),
    [
        (0x8, "hardware slowdown"),
        (0x20, "heat, by the driver"),
        (0x40, "heat, by the hardware"),
        (0x80, "power brake of the host"),
    ],
)
def test_hardware_heat_and_the_power_brake_count_even_once(bit: int, words: str) -> None:
    found = readings((1980, 0), (1980, bit), (1980, 0), (1980, 0))
    assert throttled(found) == words
    assert gpu_during(found, 1)["throttle"] == {words: 0.25}


def test_the_power_cap_counts_only_when_clocks_fell() -> None:
    steady = readings((1700, POWER_CAP), (1700, POWER_CAP), (1695, POWER_CAP))
    assert throttled(steady) is None
    assert gpu_during(steady, 1)["throttle"] == {"power cap": 1.0}
    at_the_edge = (1 - CLOCKS_FELL) * 2000
    assert throttled(readings((2000, 0), (round(at_the_edge), POWER_CAP))) is None
    assert throttled(readings((2000, 0), (1800, POWER_CAP))) == "power cap: 2000 to 1800 MHz"
    assert throttled(readings((2000, POWER_CAP), (1200, 0))) is None


def test_an_idle_gpu_and_clocks_that_somebody_set_are_no_throttling() -> None:
    assert throttled(readings((1980, 0x1), (345, 0x1))) is None
    assert throttled(readings((1200, 0x2), (1200, 0x2))) is None
