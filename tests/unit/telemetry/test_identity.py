"""What a device is, by a stand-in for the driver's library: it is no GPU, and none is claimed."""

from collections.abc import Mapping
from typing import Any

import pytest

from experiments.telemetry.driver import NO_DRIVER, Driver, NoDriver, open_driver
from experiments.telemetry.identity import DeviceIdentity, NoSuchDevice, card_uuid, identify
from tests.unit.telemetry.fake_nvml import HEALTHY, FakeNvml, NVMLError_LibraryNotFound, memory

GIB = 2**30
CARD: Mapping[str, Any] = {**HEALTHY, "CudaComputeCapability": (9, 0), "MemoryInfo": memory(GIB, 24 * GIB)}


class Versioned(FakeNvml):
    """Says versions too."""

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        return "580.10"

    def nvmlSystemGetCudaDriverVersion(self) -> int:  # noqa: N802
        return 13000


def identified(name: str, *devices: Mapping[str, Any] | None, visible: str | None = None) -> DeviceIdentity:
    library = Versioned(*devices)
    try:
        return identify(
            name,
            lambda: open_driver(lambda: library),
            {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible},
        )
    finally:
        assert library.opened == 0


def test_a_device_is_told_with_its_memory_capability_and_driver() -> None:
    found = identified("cuda:0", CARD)
    assert found == DeviceIdentity("NVIDIA Invented 9000", 24 * GIB, 23 * GIB, "9.0", "580.10", 13000)
    assert found.target_key == "cuda:NVIDIA Invented 9000:26 GB"


def test_it_is_the_device_that_a_process_would_get() -> None:
    other = {**CARD, "Name": "Another"}
    assert identified("cuda:0", CARD, other, visible="1").name == "Another"


def uuid_of(name: str, *devices: Mapping[str, Any] | None, visible: str) -> str | None:
    library = FakeNvml(*devices)
    try:
        return card_uuid(name, lambda: open_driver(lambda: library), {"CUDA_VISIBLE_DEVICES": visible})
    finally:
        assert library.opened == 0


def test_a_card_has_its_uuid_under_whichever_number_a_process_sees_it() -> None:
    one, other = {**CARD, "UUID": "GPU-1"}, {**CARD, "UUID": b"GPU-2"}
    assert (
        uuid_of("cuda:1", one, other, visible="0,1") == uuid_of("cuda:0", one, other, visible="1") == "GPU-2"
    )


def test_a_card_of_which_nobody_tells_a_uuid_has_none() -> None:
    def no_driver() -> Driver:
        raise NoDriver("none")

    assert uuid_of("cuda:0", CARD, visible="0") is None
    assert uuid_of("cuda:1", CARD, visible="0") is None
    assert card_uuid("cuda:0", no_driver) is None


def test_what_the_driver_does_not_say_stays_open() -> None:
    found = identified("cuda:0", {"MemoryInfo": memory(0, GIB)})
    assert (found.name, found.compute_capability) == ("NVIDIA GPU", None)


@pytest.mark.parametrize(
    ("devices", "visible", "words"),
    [
        ((), None, "shows no cuda:0"),
        ((None,), None, "shows no cuda:0"),
        ((CARD,), "", "see 0 devices, and no cuda:0"),
        (({**CARD, "MigMode": (1, 1)},), None, "is divided"),
        (({"Name": "mute"},), None, "does not say how much memory cuda:0 has"),
    ],
)
def test_a_device_that_cannot_be_measured_is_refused(
    devices: tuple[Mapping[str, Any] | None, ...], visible: str | None, words: str
) -> None:
    with pytest.raises(NoSuchDevice, match=words):
        identified("cuda:0", *devices, visible=visible)


def test_without_a_driver_there_is_no_device() -> None:
    class Library:
        def nvmlInit(self) -> None:  # noqa: N802
            raise NVMLError_LibraryNotFound

    def missing() -> Driver:
        return open_driver(Library)

    with pytest.raises(NoSuchDevice, match=NO_DRIVER):
        identify("cuda:0", missing, {})
