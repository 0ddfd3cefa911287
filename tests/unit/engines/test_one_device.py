"""A process sees the one device that it is for, by the number that the driver counts by."""

import pytest

from experiments.engines.one_device import one_device, seen_as, visible_device
from experiments.engines.port import Infeasible


@pytest.mark.parametrize(
    ("device", "visible", "expected"),
    [("cuda:1", None, "1"), ("cuda", None, "0"), ("cuda:1", "4, 7", "7"), ("cuda:0", "GPU-12ab", "GPU-12ab")],
)
def test_a_device_is_counted_among_those_that_are_visible(
    device: str, visible: str | None, expected: str
) -> None:
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert visible_device(device, environment) == expected
    assert one_device(device, environment) == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": expected,
    }
    assert seen_as(device) == "cuda:0"


def test_an_order_that_the_user_set_stays() -> None:
    assert (
        one_device("cuda:1", {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"})["CUDA_DEVICE_ORDER"] == "FASTEST_FIRST"
    )


def test_a_process_for_the_processor_sees_no_gpu() -> None:
    assert one_device("cpu", {"CUDA_VISIBLE_DEVICES": "0,1"}) == {"CUDA_VISIBLE_DEVICES": ""}
    assert seen_as("cpu") == "cpu"


@pytest.mark.parametrize(("device", "visible", "shown"), [("cuda:1", "3", 1), ("cuda:0", "", 0)])
def test_a_device_that_is_not_visible_is_refused(device: str, visible: str, shown: int) -> None:
    with pytest.raises(Infeasible, match=f"shows {shown} of them"):
        one_device(device, {"CUDA_VISIBLE_DEVICES": visible})
