"""What is free of a device is what the driver says, of the device that a process would get."""

from collections.abc import Mapping
from typing import Any

import pytest

from experiments.telemetry.driver import NO_DRIVER, Driver, open_driver
from experiments.telemetry.free_memory import DeviceMemory, MemoryUnknown, device_memory
from tests.unit.telemetry.fake_nvml import HEALTHY, FakeNvml, NVMLError, NVMLError_LibraryNotFound, memory

GIB = 2**30


class Named(FakeNvml):
    """Devices that have an identifier too: `GPU-` and their place."""

    def nvmlDeviceGetHandleByUUID(self, name: str) -> Mapping[str, Any]:  # noqa: N802
        number = name.removeprefix("GPU-")
        if not number.isdigit():
            raise NVMLError("Not Found")
        return self.nvmlDeviceGetHandleByIndex(int(number))


def device(total: int, **more: Any) -> Mapping[str, Any]:
    return {**HEALTHY, "MemoryInfo": memory(GIB, total * GIB), **more}


def looked_at(name: str, *devices: Mapping[str, Any] | None, visible: str | None = None) -> DeviceMemory:
    library = Named(*devices)
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    try:
        return device_memory(name, lambda: open_driver(lambda: library), environment)
    finally:
        assert library.opened == 0


@pytest.mark.parametrize(
    ("name", "visible", "total"),
    [
        ("cuda", None, 10),
        ("cuda:0", None, 10),
        ("cuda:2", None, 30),
        ("cuda:0", "2,0", 30),
        ("cuda:1", " 2, GPU-1 ", 20),
    ],
)
def test_it_is_that_of_the_device_which_a_process_calls_so(
    name: str, visible: str | None, total: int
) -> None:
    found = looked_at(name, device(10), device(20), device(30), visible=visible)
    assert found == DeviceMemory((total - 1) * GIB, total * GIB)


@pytest.mark.parametrize(
    ("name", "visible", "words"),
    [
        ("cuda:3", None, "shows no cuda:3"),
        ("cuda:1", "0", "see 1 devices, and no cuda:1"),
        ("cuda:0", "", "see 0 devices"),
        ("cuda:0", "GPU-of-another", "shows no cuda:0"),
    ],
)
def test_a_device_that_is_not_there_is_told(name: str, visible: str | None, words: str) -> None:
    with pytest.raises(MemoryUnknown, match=words):
        looked_at(name, device(10), visible=visible)


def test_what_the_driver_does_not_say_is_not_guessed() -> None:
    with pytest.raises(MemoryUnknown, match="does not say how much memory of cuda:0 is free"):
        looked_at("cuda:0", {"Name": "mute"})
    with pytest.raises(MemoryUnknown, match="shows no cuda:0"):
        looked_at("cuda:0", None)
    with pytest.raises(MemoryUnknown, match="divided"):
        looked_at("cuda:0", device(10, MigMode=(1, 1)))


def test_without_a_driver_it_says_that_it_could_not_look() -> None:
    def missing() -> Driver:
        class Library:
            def nvmlInit(self) -> None:  # noqa: N802
                raise NVMLError_LibraryNotFound

        return open_driver(Library)

    with pytest.raises(MemoryUnknown, match=NO_DRIVER):
        device_memory("cuda:0", missing, {})
