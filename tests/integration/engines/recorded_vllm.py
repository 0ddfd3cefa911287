"""Launches of the engine vllm on a recorded server, which stands where vLLM's Python is named."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from configs.asked_over import HTTP
from experiments.engines.vllm.engine import VllmEngine
from experiments.engines.vllm.environment import PYTHON_VARIABLE
from experiments.engines.vllm.launch import VllmLaunch
from experiments.job.block_samples import BlockSample
from experiments.measurement.evidence import Metric
from experiments.own_processes import children
from experiments.space.configuration import KnobValue
from tests.integration.engines.conformance import begun, wait_until_gone
from tests.recorded import vllm_requests, vllm_server
from tests.recorded.vllm_recording import (
    RECORDING,
    Names,
    Recording,
)

FAR_TOO_SHORT_S = 0.001
"""No process loads or answers within it."""

HUNG_S = 1.0
"""The limit of a request that is never answered."""

HTTP_HUNG_S = 10.0
"""The same where the client must first begin."""

RECORDED = Recording.read(RECORDING, Names({}))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a test works, with the recorded server in the place of vLLM's Python."""
    monkeypatch.setenv(PYTHON_VARIABLE, str(vllm_server.python_of(tmp_path, vllm_requests.names(tmp_path))))
    return tmp_path


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before = children()
    yield
    assert wait_until_gone(begun(before)) == []


@pytest.fixture
def launch(folder: Path) -> Iterator[VllmLaunch]:
    launch = vllm_requests.launched(folder, VllmEngine())
    assert isinstance(launch, VllmLaunch)
    yield launch
    launch.close()


def recorded_answer(op: str, launch: str = "served", **told: Any) -> Any:
    """What was recorded of the one request that has all that is told."""
    (found,) = [
        each.answer
        for each in RECORDED.exchanges
        if each.launch == launch and each.answer and {"op": op, **told}.items() <= each.asked.items()
    ]
    return found["ok"]


def of(samples: Sequence[BlockSample], item: str) -> dict[Metric, list[float]]:
    """The values of one request, by metric."""
    found: dict[Metric, list[float]] = {}
    for name, _, metric, value in samples:
        if name == item:
            found.setdefault(metric, []).append(value)
    return found


def over_http(folder: Path, engine: VllmEngine | None = None, **more: KnobValue) -> VllmLaunch:
    """A launch that is asked over HTTP."""
    launch = vllm_requests.launched(folder, (engine or VllmEngine()).asked_over(HTTP), **more)
    assert isinstance(launch, VllmLaunch)
    return launch
