"""The process that serves beside a campaign: when it starts, how it stands back, how it ends."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner, Result

from agent.campaign.loop import CampaignLoop
from agent.campaign.resources.worker_process import WorkerProcess
from cli.console.failures import INTERRUPTED
from cli.main import app
from cli.running.run_dashboard import RunDashboard
from configs.priority import NICENESS
from dashboard.listening import Listening, listen
from tests.waiting import PATIENCE_S

SERVES = "import socket, sys; socket.socket(fileno=int(sys.argv[1])).accept()[0].sendall(b'served')"
FAILS = "print('The reason.'); raise SystemExit(1)"


@pytest.fixture
def listening() -> Iterator[Listening]:
    found = listen(port=0)
    yield found
    found.socket.close()


def running(listening: Listening, folder: Path, code: str) -> RunDashboard:
    return RunDashboard(
        listening, lambda number: [sys.executable, "-c", code, str(number)], folder / "logs" / "dashboard.log"
    )


def test_nothing_runs_before_it_is_kept_and_then_it_serves_behind_all_others(
    listening: Listening, tmp_path: Path
) -> None:
    host, port = listening.socket.getsockname()
    with running(listening, tmp_path, SERVES) as dashboard:
        assert dashboard.pid is None
        assert dashboard.keep() is None
        assert dashboard.keep() is None
        assert dashboard.pid is not None
        process = psutil.Process(dashboard.pid)
        assert process.nice() == NICENESS
        assert os.getsid(dashboard.pid) == dashboard.pid
        assert dashboard.address == f"http://{host}:{port}"
        with socket.create_connection((host, port), timeout=PATIENCE_S) as asked:
            assert asked.recv(10) == b"served"


def test_it_is_ended_at_the_end(listening: Listening, tmp_path: Path) -> None:
    with running(listening, tmp_path, "import time; time.sleep(600)") as dashboard:
        dashboard.keep()
        assert dashboard.pid is not None
        process = psutil.Process(dashboard.pid)
    assert not process.is_running()
    assert dashboard.keep() is None, "it is not started again"
    assert dashboard.pid is None


def test_one_that_ends_by_itself_is_told_of_once_with_its_reason(
    listening: Listening, tmp_path: Path
) -> None:
    with running(listening, tmp_path, FAILS) as dashboard:
        dashboard.keep()
        assert dashboard.pid is not None
        os.waitid(os.P_PID, dashboard.pid, os.WEXITED | os.WNOWAIT)
        told = dashboard.keep()
        assert told is not None
        assert "The reason." in told
        assert "autoinfer dashboard" in told
        assert dashboard.keep() is None
        dashboard.stay()  # at once


def test_ctrl_c_ends_the_stay_though_it_reaches_another_thread(
    listening: Listening, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = threading.Event()

    def interrupt() -> None:
        assert said.wait(PATIENCE_S)
        time.sleep(0.5)  # so that it waits by then
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    monkeypatch.setattr("cli.running.run_dashboard.say", lambda *_: said.set())
    other = threading.Thread(target=interrupt)
    with running(listening, tmp_path, "import time; time.sleep(600)") as dashboard:
        dashboard.keep()
        other.start()
        dashboard.stay()
        other.join()
        assert dashboard.pid is not None, "it is ended by the block, not by the stay"


def test_one_that_can_t_be_started_is_told_of_once(listening: Listening, tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file in the way")
    with running(listening, tmp_path, SERVES) as dashboard:
        told = dashboard.keep()
        assert told is not None
        assert "The campaign goes on without it" in told
        assert dashboard.keep() is None


class Stub:
    """What `run` asks of a dashboard, written down."""

    address = "http://127.0.0.1:8420"

    def __init__(self) -> None:
        self.asked: list[str] = []

    @contextmanager
    def beside(self, *_: object, **__: object) -> Iterator[Stub]:
        self.asked.append("begun")
        try:
            yield self
        finally:
            self.asked.append("ended")

    def keep(self) -> str | None:
        self.asked.append("kept")
        return "It is gone."

    def stay(self) -> None:
        self.asked.append("stayed")


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Stub:
    made = Stub()
    monkeypatch.setattr("cli.running.run_dashboard.dashboard_beside", made.beside)
    return made


def ran(folder: Path, *words: str) -> Result:
    command = ["--data-dir", str(folder), "run", "--no-worker", *words]
    return CliRunner().invoke(app, command)


@pytest.mark.parametrize(
    ("words", "served"),
    [((), True), (("--no-dashboard",), False), (("--json",), False), (("--json", "--dashboard"), True)],
)
def test_a_campaign_serves_it_where_its_address_can_be_told_or_it_was_asked_for(
    words: tuple[str, ...], served: bool, stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CampaignLoop, "run", lambda loop: loop._announce())
    done = ran(tmp_path, *words)
    assert done.exit_code == 0, done.output
    assert stub.asked == (["begun", "kept", "ended"] if served else []), "and it does not stay"
    assert ("It is gone." in done.output) is (words == ())
    assert (f"the dashboard is at {stub.address}" in done.output) is (words == ())


def test_it_is_started_once_the_baseline_is_dispatched(
    stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dispatched: list[int] = []

    def keep() -> None:
        with closing(sqlite3.connect(tmp_path / "autoinfer.db")) as database:
            dispatched.append(database.execute("SELECT count(*) FROM job").fetchone()[0])

    monkeypatch.setattr(stub, "keep", keep)
    assert ran(tmp_path, "--budget", "5s").exit_code == 0  # a busy machine dispatches nothing within one
    assert dispatched[0] == 1


def test_ctrl_c_ends_the_campaign_first_and_then_the_dashboard(
    stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(loop: CampaignLoop) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(CampaignLoop, "run", interrupted)
    monkeypatch.setattr(WorkerProcess, "stop", lambda _: stub.asked.append("worker ended"))
    done = ran(tmp_path)
    assert done.exit_code == INTERRUPTED
    assert stub.asked == ["begun", "worker ended", "ended"]
