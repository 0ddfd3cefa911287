"""Whether an engine that times kernels lets drivers begin beside the lanes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.engines.kernel_timings import KernelTimings
from experiments.engines.vllm import engine
from experiments.engines.vllm.environment import VllmEnvironment
from experiments.reference_model.load import reference_model_path
from tests.recorded.kernel_timings import recorded


class Timer:
    """Stands for the lanes: one has begun as soon as it is asked."""

    def __init__(self, *given: Any, begun: Callable[[], None]) -> None:
        self._begun = begun

    def time(self, *given: Any) -> KernelTimings:
        self._begun()
        return recorded()


@pytest.mark.parametrize(("cores", "expected"), [(8, 0), (16, 1)])
def test_drivers_begin_beside_lanes_where_these_have_their_cores(
    cores: int, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "KernelTimer", Timer)
    monkeypatch.setattr(engine, "usable_cores", lambda: cores)
    found = VllmEnvironment(Path("python"), "0.33.0", for_cpu=False)
    monkeypatch.setattr(engine, "needed_environment", lambda device: found)
    begun: list[int] = []
    engine.VllmEngine().time_kernels(
        (), reference_model_path(), "cuda:0", 1, tmp_path / "log", tmp_path, begun=lambda: begun.append(1)
    )
    assert len(begun) == expected
