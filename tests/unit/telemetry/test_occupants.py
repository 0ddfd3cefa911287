"""Who holds memory of a device is what the driver says, and a lost device is told apart from a mute one."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from experiments.telemetry.driver import open_driver
from experiments.telemetry.free_memory import MemoryUnknown
from experiments.telemetry.kernel_log import device_xids, xids_of
from experiments.telemetry.occupants import DeviceGone, DeviceUse, Occupant, device_use
from tests.unit.telemetry.fake_nvml import HEALTHY, FakeNvml, NVMLError, memory, process

GIB = 2**30


class Numbered(NVMLError):
    def __init__(self, value: int) -> None:
        super().__init__(f"error {value}")
        self.value = value


class Failing(FakeNvml):
    """Every question about a device ends with the error of this number, as NVML's do."""

    value = 15

    def __getattr__(self, name: str) -> Any:
        def answer(*_: object) -> Any:
            raise Numbered(self.value)

        return answer if name.startswith("nvmlDeviceGet") else super().__getattr__(name)


def looked_at(library: FakeNvml, names: Mapping[int, str] | None = None) -> DeviceUse:
    try:
        return device_use("cuda:0", lambda: open_driver(lambda: library), {}, (names or {}).get)
    finally:
        assert library.opened == 0


def test_processes_that_compute_are_named_and_those_that_draw_only_counted() -> None:
    drawing = [process(7, GIB), process(42, 2 * GIB)]
    found = looked_at(FakeNvml({**HEALTHY, "GraphicsRunningProcesses": drawing}), {41: "python3"})
    assert found == DeviceUse(20 * GIB, 140 * GIB, (Occupant(41, "python3", GIB),), 3 * GIB)
    assert str(Occupant(41, None, None)) == "process 41 (its name is hidden) holds an unknown amount"
    assert str(Occupant(41, "python3", 3 * 10**9)) == "process 41 (python3) holds 3.0 GB"


def test_what_the_driver_keeps_for_itself_is_left_out_where_it_tells_it_apart() -> None:
    class Second(FakeNvml):
        nvmlMemory_v2 = 2  # noqa: N815 - as the library names it

        def nvmlDeviceGetMemoryInfo(self, handle: object, version: int | None = None) -> Any:  # noqa: N802
            return memory((1 if version == 2 else 5) * GIB, 140 * GIB)

    assert looked_at(Second(HEALTHY)).used_bytes == GIB


def test_a_driver_that_lists_no_processes_is_no_empty_device() -> None:
    mute = {name: answer for name, answer in HEALTHY.items() if name != "ComputeRunningProcesses"}
    assert looked_at(FakeNvml(mute)).computing is None


@pytest.mark.parametrize(("value", "words"), [(15, "GPU is lost"), (16, "requires a reset")])
def test_a_lost_device_is_told_in_the_driver_s_words(value: int, words: str) -> None:
    class Lost(Failing):
        def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:  # noqa: N802
            raise Numbered(value)

    class LostLater(Failing):
        def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:  # noqa: N802
            return HEALTHY

    for library in (Lost(HEALTHY), LostLater(HEALTHY)):
        library.value = value
        with pytest.raises(DeviceGone, match=words):
            looked_at(library)


def test_another_error_is_no_lost_device() -> None:
    class Denied(Failing):
        value = 4

        def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:  # noqa: N802
            return HEALTHY

    with pytest.raises(MemoryUnknown):
        looked_at(Denied(HEALTHY))


KERNEL_LINES = [
    "4,1,10,-;NVRM: Xid (PCI:0000:3b:00): 31, pid=9, name=python3, Ch 00000008, intr 00000000.",
    "4,2,11,-;NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', GPU has fallen off the bus.",
    "4,3,12,-;NVRM: Xid (PCI:0000:86:00): 48, pid=9, DBE (double bit error).",
    "6,4,13,-;something else",
]


def test_only_faults_of_the_device_itself_count_and_only_its_own() -> None:
    assert device_xids(KERNEL_LINES, "00000000:3B:00.0") == (79,)
    assert device_xids(KERNEL_LINES, "00000000:86:00.0") == (48,)
    assert device_xids(KERNEL_LINES, "00000000:01:00.0") == ()


def test_the_device_s_place_is_asked_of_the_driver() -> None:
    def library() -> Any:
        return open_driver(
            lambda: FakeNvml({**HEALTHY, "PciInfo": SimpleNamespace(busId=b"00000000:3B:00.0")})
        )

    assert xids_of("cuda:0", lambda: KERNEL_LINES, library, {}) == (79,)
    assert xids_of("cuda:0", lambda: None, library, {}) == ()
    assert xids_of("cuda:5", lambda: KERNEL_LINES, library, {}) == ()
