"""The sampler over a driver that comes, goes and comes back."""

from __future__ import annotations

from typing import Any

from experiments.telemetry.collect import REOPEN_S, Sampler
from experiments.telemetry.driver import NO_DRIVER, Driver, NoDriver
from tests.unit.telemetry.fake_nvml import HEALTHY, FakeNvml, NVMLError


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_without_a_driver_there_is_the_host_and_a_sentence() -> None:
    def missing() -> Driver:
        raise NoDriver(NO_DRIVER)

    found = Sampler(open=missing).sample()
    assert [each.name for each in found.devices] == ["cpu"]
    assert found.note == NO_DRIVER
    assert found.devices[0].memory_total_bytes


def test_a_driver_without_a_gpu_says_so() -> None:
    found = Sampler(open=lambda: Driver(FakeNvml())).sample()
    assert [each.name for each in found.devices] == ["cpu"]
    assert found.note == "The NVIDIA driver knows no GPU."


def test_a_driver_that_is_lost_is_told_closed_and_opened_again_after_a_while() -> None:
    clock, nvml = Clock(), FakeNvml(HEALTHY)
    opened: list[Any] = []

    def opening() -> Driver:
        opened.append(clock.now)
        return Driver(nvml)

    sampler = Sampler(open=opening, clock=clock)
    assert [each.name for each in sampler.sample().devices] == ["cuda:0", "cpu"]
    nvml.nvmlDeviceGetCount = _lost  # type: ignore[method-assign]
    found = sampler.sample()
    assert found.note == "The NVIDIA driver stopped answering."
    assert [each.name for each in found.devices] == ["cpu"]
    clock.now = REOPEN_S / 2
    assert sampler.sample().note == "The NVIDIA driver stopped answering."
    assert opened == [0.0]
    del nvml.nvmlDeviceGetCount
    clock.now = REOPEN_S
    found = sampler.sample()
    assert (found.note, found.devices[0].name) == (None, "cuda:0")
    assert opened == [0.0, REOPEN_S]


def _lost() -> int:
    raise NVMLError("Uninitialized")
