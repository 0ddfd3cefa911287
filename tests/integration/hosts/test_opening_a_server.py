"""A server as the command line and the pages meet it: made, missing, refusing, gone, frozen; and no password
in sight."""

import os
import signal
from pathlib import Path

import psutil
import pytest
import typer
from fastapi.testclient import TestClient
from sqlalchemy import select, text
from typer.core import TyperCommand

from cli.console.opening import same_settings
from configs.errors import DatabaseLocked, DatabaseUnreachable
from configs.settings import Settings
from dashboard.app import create_app
from db import events
from db.event_kinds import EventKind
from db.models import Worker
from db.session import Database, open_database
from db.states import WorkerState
from tests.integration.cli.command import Autoinfer
from tests.postgresql import PASSWORD, USER, Server, free_port
from tests.waiting import PATIENCE_S, wait_for

VARIABLE = "AUTOINFER_DATABASE_URL"


@pytest.fixture
def autoinfer(tmp_path: Path) -> Autoinfer:
    return Autoinfer(tmp_path / "data")


def without_password(server: Server, name: str) -> str:
    return server.url(name, password=False)


def test_a_password_comes_from_the_environment_or_from_libpq_s_file(
    autoinfer: Autoinfer, server: Server, name: str, tmp_path: Path
) -> None:
    url = without_password(server, name)
    assert autoinfer(f"log --db {url} --json", PGPASSWORD=PASSWORD).code == 0
    file = tmp_path / "pgpass"
    file.write_text(f"127.0.0.1:*:*:{USER}:{PASSWORD}\n")
    file.chmod(0o600)
    assert autoinfer(f"log --db {url} --json", PGPASSFILE=str(file)).code == 0
    assert autoinfer("log --json", AUTOINFER_DATABASE_URL=server.url(name)).code == 0


def test_a_password_on_the_command_line_is_refused_and_not_repeated(
    autoinfer: Autoinfer, server: Server, name: str
) -> None:
    done = autoinfer(f"log --db {server.url(name)}")
    assert done.code == 2
    assert "carries a password" in done.err
    assert PASSWORD not in done.err


@pytest.mark.parametrize(
    "url", [f"postgresql://me:{PASSWORD}@host:port/x", f"postgresql://h/x?password={PASSWORD}"]
)
def test_a_url_that_is_none_is_refused_without_its_password(autoinfer: Autoinfer, url: str) -> None:
    done = autoinfer("log", AUTOINFER_DATABASE_URL=url)
    assert done.code == 2
    assert PASSWORD not in done.err
    assert "Traceback" not in done.err


def test_a_server_that_refuses_lacks_the_database_or_is_not_there_is_told_in_a_sentence(
    autoinfer: Autoinfer, server: Server, name: str
) -> None:
    url = without_password(server, name)
    for given, password, said in (
        (url, "wrong-" + PASSWORD, "refuses this user"),
        (url, "", "refuses this user"),
        (url + "_not_there", PASSWORD, "There is no database postgresql://"),
        (url.replace(str(server.port), str(free_port())), PASSWORD, "does not answer"),
        (without_password(server, server.empty_database()), PASSWORD, "There is no database at"),
    ):
        done = autoinfer("log", AUTOINFER_DATABASE_URL=given, PGPASSWORD=password)
        assert (done.code, done.out) == (1, "")
        assert said in done.err
        assert len(done.err.splitlines()) == 2, done.err
        assert PASSWORD not in done.err


def test_a_worker_s_password_is_in_no_command_line_and_not_in_what_it_says(
    autoinfer: Autoinfer, server: Server, name: str, database: Database
) -> None:
    process = autoinfer.start("worker", **{VARIABLE: server.url(name)})
    try:
        wait_for(lambda: present(database) == [WorkerState.IDLE])
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        assert all(PASSWORD not in " ".join(each.cmdline()) for each in family)
    finally:
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert PASSWORD not in out + err
    assert "***" in out
    assert present(database) == [WorkerState.STOPPED]


def present(database: Database) -> list[WorkerState]:
    with database.read() as session:
        return list(session.scalars(select(Worker.state)))


def test_what_a_process_started_beside_is_given_holds_no_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    url = f"postgresql://me:{PASSWORD}@host/x"
    context = typer.Context(TyperCommand("worker"))
    words = same_settings(context, Settings(data_dir=tmp_path, database_url=url))
    assert PASSWORD not in " ".join(words)
    assert os.environ.pop(VARIABLE) == url


def test_the_dashboard_says_that_the_server_is_gone_and_goes_on_when_it_is_back(
    server: Server, url: str, database: Database, tmp_path: Path
) -> None:
    client = TestClient(create_app(Settings(data_dir=tmp_path, database_url=url), database))
    client.base_url = "http://127.0.0.1"  # type: ignore[assignment]
    assert client.get("/log").status_code == 200
    server.stop(signal.SIGQUIT)
    try:
        gone = client.get("/log.json")
        assert gone.status_code == 503
        assert "does not answer" in gone.json()["error"]
        assert PASSWORD not in gone.text
    finally:
        server.start()
    assert client.get("/log").status_code == 200
    assert PASSWORD not in client.get("/settings").text


def test_one_writer_at_a_time_and_readers_wait_for_none(url: str, database: Database) -> None:
    impatient = open_database(url, busy_timeout_s=0.05)
    with database.write() as session:
        events.append(session, EventKind.WORKER_STARTED, "first")
        with pytest.raises(DatabaseLocked), impatient.write():
            pytest.fail("two write at once")
        with impatient.read() as reading:
            assert events.last_id(reading) == 0
    with impatient.write() as session:
        assert events.last_id(session) == 1
    impatient.close()


def test_a_writer_that_stands_still_loses_its_transaction_and_holds_nobody_up(
    url: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("db.server.IDLE_IN_TRANSACTION_S", 0.5)
    frozen = open_database(url)

    def stand_still() -> None:
        with frozen.write() as session:
            events.append(session, EventKind.WORKER_STARTED, "never seen")
            with database.write() as other:  # waits until the server has ended the one that stands still
                events.append(other, EventKind.WORKER_STARTED, "seen")
            session.execute(text("SELECT 1"))

    with pytest.raises(DatabaseUnreachable):
        stand_still()
    with database.read() as reading:
        assert [event.text for event in events.read(reading)] == ["seen"]
    frozen.close()
