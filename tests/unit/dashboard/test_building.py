"""Checkpoints that are built while the baseline is measured, on the Now page and on that of devices."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dashboard.page import Request
from dashboard.pages.gpus import PAGE as GPUS
from dashboard.pages.gpus import GpusFilters, gpus_view
from dashboard.pages.now import PAGE as NOW
from dashboard.pages.now import NowFilters
from dashboard.rendering.figures import instant
from db import queue
from db.labels import Noun, format_label
from experiments.job.spec import BUILD
from knowledge.queries.devices import on_devices
from knowledge.queries.present.now import now_view
from tests.history.campaign_history import History
from tests.unit.dashboard.test_gpus import devices_with
from tests.unit.telemetry.synthetic import gpu

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
ALIVE_S, GONE_S = 60.0, -60.0
FINER = {
    "serving.threads": 2,
    "pruning.method": "none",
    "quantization.method": "rtn",
    "quantization.bits": 4,
    "quantization.group_size": 32,
}


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    found = History(tmp_path)
    yield found
    found.close()


def build(history: History, device: str, purpose: str | None, left_s: float = ALIVE_S) -> None:
    """A worker has taken the job to build a checkpoint on that device."""
    told = {} if purpose is None else {"purpose": purpose}
    with history.database.write() as session:
        job = queue.enqueue(session, BUILD, {"configuration": FINER, **told}, campaign_id=history.campaign_id)
        assert queue.claim_one(session, job, f"{device}#7", device, left_s) is not None


def now_html(history: History) -> str:
    request = Request({}, NowFilters())
    with history.database.read() as session:
        return NOW.live(NOW.read(session, request, None), request)  # type: ignore[arg-type]


def gpus_html(history: History, host: str) -> str:
    devices = devices_with(gpu(1))
    devices.host = host
    with history.database.read() as session:
        view = gpus_view(devices, on_devices(session), datetime.now(UTC), 10)
    return GPUS.live(view, Request({}, GpusFilters()))


def test_now_lists_what_is_built_on_which_device_for_what_and_since_when(history: History) -> None:
    label = format_label(Noun.HYPOTHESIS, history.propose({"serving.threads": 1}))
    build(history, "desk/cuda:2", label)
    build(history, "desk/cuda:1", "the question g32_bits")
    with history.database.read() as session:
        first, second = now_view(session, None, None, LONG_AGO).builds
    assert (first.device, second.device) == ("desk/cuda:1", "desk/cuda:2")
    assert first.started_at is not None
    html = now_html(history)
    section = html.partition('id="builds"')[2].partition("</section>")[0]
    assert section.count("Quantizing to 4 bits by rtn in groups of 32") == 2
    assert "for the question g32_bits" in section
    assert f'for <a class="nb" href="/hypotheses/{label}">{label}</a>' in section
    assert section.count('on <a href="/gpus">desk/cuda:') == 2
    assert f'since <time datetime="{instant(first.started_at)}">' in section
    assert "serving.threads" not in section, "what no checkpoint is made of"


def test_what_is_built_no_more_and_what_another_campaign_builds_is_not_listed(history: History) -> None:
    assert 'id="builds"' not in now_html(history)
    build(history, "desk/cuda:1", "H-001", GONE_S)
    assert 'id="builds"' not in now_html(history)
    build(history, "desk/cuda:2", "H-001")
    history.start("another", "e" * 64)
    assert 'id="builds"' not in now_html(history)


@pytest.mark.parametrize(
    ("purpose", "told"),
    [
        ("the question g32_bits", "for the question g32_bits"),
        (None, "for a test to come"),
    ],
)
def test_a_gpu_says_what_it_builds_and_for_what(history: History, purpose: str | None, told: str) -> None:
    build(history, "desk/cuda:1", purpose)
    html = gpus_html(history, "desk")
    assert f"Builds a checkpoint {told}" in html
    assert "Quantizing to 4 bits by rtn in groups of 32" in html
    assert "since <time" in html
