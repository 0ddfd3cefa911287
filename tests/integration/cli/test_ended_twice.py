"""A command that is asked to end once more while its workers end still tells what may cost money."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer

from cli.running import driving
from cli.running.driving import Begun, Beside, drive
from configs.campaign import load_campaign
from configs.settings import Settings
from tests.history.campaign_history import History, a_full_history

STILL = "J-1 may still run on cloud:L4 and cost money."


class EndedAtOnce(Exception):
    """Stands for the end of the process."""


@pytest.fixture
def ends_at_once() -> Iterator[None]:
    """SIGTERM as it is without a handler, but for what this process is needed for afterwards."""

    def end(*_: object) -> None:
        raise EndedAtOnce

    before = signal.signal(signal.SIGTERM, end)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    made = a_full_history(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("asked_before", [True, False], ids=["once more", "as it ends by itself"])
def test_what_still_costs_is_told_though_a_service_manager_asks_while_workers_end(
    history: History,
    tmp_path: Path,
    ends_at_once: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    asked_before: bool,
) -> None:
    stopped: list[str] = []

    class Slow:
        def __init__(self, *_: object) -> None: ...

        def stop(self) -> None:
            signal.raise_signal(signal.SIGTERM)
            stopped.append("all")

    class Loop:
        def __init__(self, *_: object, **__: object) -> None: ...

        def run(self) -> None:
            if asked_before:
                signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr("agent.campaign.resources.worker_process.Workers", Slow)
    monkeypatch.setattr("agent.campaign.loop.CampaignLoop", Loop)
    monkeypatch.setattr(driving, "_workers", lambda *_: {})
    monkeypatch.setattr(driving, "_still_paid", lambda *_: [STILL])
    begun = Begun(load_campaign("default"), history.campaign_id)
    beside = Beside(worker=False, dashboard=False)
    ctx: typer.Context = SimpleNamespace()  # type: ignore[assignment]  # nobody asks it without workers
    with pytest.raises(KeyboardInterrupt):
        drive(ctx, history.database, Settings(data_dir=tmp_path), begun, beside, as_json=False)
    told = capsys.readouterr()
    assert (stopped, told.err) == (["all"], f"{STILL}\n")
    assert ("Interrupted; what was measured is kept." in told.out) is asked_before
    with pytest.raises(EndedAtOnce):
        signal.raise_signal(signal.SIGTERM)
