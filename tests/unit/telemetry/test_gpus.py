"""Readings through the wrapper: what the driver does not give is None, and nothing it does raises."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from experiments.telemetry.driver import NO_DRIVER, NO_PACKAGE, Driver, NoDriver, as_number, open_driver
from experiments.telemetry.gpus import read_gpus, throttle_words
from experiments.telemetry.reading import DeviceKind, DeviceReading, ProcessReading
from tests.unit.telemetry.fake_nvml import (
    HEALTHY,
    FakeNvml,
    NVMLError,
    NVMLError_LibraryNotFound,
    memory,
    process,
)


def read(*devices: Any) -> tuple[DeviceReading, ...]:
    return read_gpus(Driver(FakeNvml(*devices)), {41: "/usr/bin/python3.11", 42: "vllm"}.get)


def test_a_healthy_gpu_tells_everything_with_its_units() -> None:
    (found,) = read(HEALTHY)
    assert found == DeviceReading(
        name="cuda:0",
        kind=DeviceKind.GPU,
        model="NVIDIA Invented 9000",
        utilization_percent=97,
        memory_used_bytes=20 * 2**30,
        memory_total_bytes=140 * 2**30,
        power_w=432.1,
        power_limit_w=700,
        temperature_c=54,
        clock_mhz=1980,
        clock_max_mhz=1980,
        throttle=(),
        processes=(ProcessReading(42, "vllm", 19 * 2**30), ProcessReading(41, "python3.11", 2**30)),
    )


def test_a_gpu_that_supports_nothing_has_a_place_and_no_readings() -> None:
    (found,) = read({})
    assert found == DeviceReading(name="cuda:0", kind=DeviceKind.GPU, model="NVIDIA GPU")


def test_a_gpu_that_fell_off_the_bus_leaves_the_others_alone() -> None:
    lost, well = read(None, HEALTHY)
    assert lost == DeviceReading("cuda:0", DeviceKind.GPU, "GPU that does not answer")
    assert (well.name, well.power_w) == ("cuda:1", 432.1)


@pytest.mark.parametrize(
    ("question", "answer", "reading"),
    [
        ("UtilizationRates", SimpleNamespace(gpu=2**32 - 1), "utilization_percent"),
        ("UtilizationRates", SimpleNamespace(gpu=4_000), "utilization_percent"),
        ("UtilizationRates", None, "utilization_percent"),
        ("MemoryInfo", memory(0, 0), "memory_total_bytes"),
        ("MemoryInfo", memory(2**64 - 1, 2**35), "memory_used_bytes"),
        ("PowerUsage", 0, "power_w"),
        ("PowerUsage", 2**32 - 1, "power_w"),
        ("EnforcedPowerLimit", "[N/A]", "power_limit_w"),
        ("Temperature", 0, "temperature_c"),
        ("Temperature", 65_535, "temperature_c"),
        ("ClockInfo", 2**32 - 1, "clock_mhz"),
        ("CurrentClocksEventReasons", 2**64 - 1, "throttle"),
    ],
)
def test_a_value_that_can_t_be_meant_is_not_available(question: str, answer: Any, reading: str) -> None:
    (found,) = read({**HEALTHY, question: answer})
    assert getattr(found, reading) is None
    assert found.model == "NVIDIA Invented 9000"


def test_an_older_library_knows_throttle_reasons_by_another_name() -> None:
    old = {key: value for key, value in HEALTHY.items() if key != "CurrentClocksEventReasons"}
    assert read(old)[0].throttle is None
    assert read({**old, "CurrentClocksThrottleReasons": 0x4 | 0x20})[0].throttle == (
        "power cap",
        "heat, by the driver",
    )


def test_throttle_reasons_are_told_in_words_an_unknown_one_by_its_number() -> None:
    assert throttle_words(0x0) == throttle_words(0x1) == ()
    assert throttle_words(0x1 | 0x80 | 0x400) == ("power brake of the host", "reason 0x400")


def test_a_process_whose_memory_or_name_is_hidden_is_there_all_the_same() -> None:
    (found,) = read({**HEALTHY, "ComputeRunningProcesses": [process(7, None), process(8, 2**64 - 1)]})
    assert found.processes == (ProcessReading(7, None, None), ProcessReading(8, None, None))


def test_instances_of_a_divided_gpu_follow_it() -> None:
    instance = {"Name": "NVIDIA Invented 9000 MIG 3g.71gb", "MemoryInfo": memory(2**30, 71 * 2**30)}
    divided = {**HEALTHY, "MigMode": [1, 1], "MaxMigDeviceCount": 3, "instances": [instance, None, instance]}
    names = [(each.name, each.kind, each.memory_used_bytes) for each in read(divided, HEALTHY)]
    assert names == [
        ("cuda:0", DeviceKind.GPU, 20 * 2**30),
        ("cuda:0/mig:0", DeviceKind.MIG, 2**30),
        ("cuda:0/mig:2", DeviceKind.MIG, 2**30),
        ("cuda:1", DeviceKind.GPU, 20 * 2**30),
    ]
    assert read(divided)[1].utilization_percent is None


def test_a_gpu_that_could_be_divided_and_is_not_stands_alone() -> None:
    assert len(read({**HEALTHY, "MigMode": [0, 1], "MaxMigDeviceCount": 7})) == 1


def test_a_library_that_can_t_count_gives_no_device() -> None:
    assert read_gpus(Driver(SimpleNamespace())) == ()


def test_a_missing_package_and_a_missing_driver_are_told_apart() -> None:
    def without_package() -> Any:
        raise ModuleNotFoundError("No module named 'pynvml'")

    def refusing(error: Exception) -> Any:
        def init() -> None:
            raise error

        return lambda: SimpleNamespace(nvmlInit=init)

    with pytest.raises(NoDriver, match=NO_PACKAGE):
        open_driver(without_package)
    with pytest.raises(NoDriver, match=NO_DRIVER):
        open_driver(refusing(NVMLError_LibraryNotFound("NVML Shared Library Not Found")))
    with pytest.raises(NoDriver, match=r"refuses to answer: Driver/library version mismatch\."):
        open_driver(refusing(NVMLError("Driver/library version mismatch")))


@pytest.mark.parametrize("value", [None, True, "12", 1.5, -1, 2**32 - 1, 2**64 - 1])
def test_what_is_no_number_is_none(value: object) -> None:
    assert as_number(value) is None
