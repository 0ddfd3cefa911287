"""What docker compose runs, run as processes against a real PostgreSQL: it works together, each service ends
by itself, and no secret that any of them was given is in anything that they wrote."""

import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from dashboard.app import PAGES
from experiments.executors.local import NOT_FOR_JOBS
from tests.integration.compose.composed import ROOT
from tests.integration.compose.processes import PATIENCE_S, Services
from tests.postgresql import PASSWORD, Server, programs, serving
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(1200)

TOKEN = "compose-token-0123456789abcdef"

PLANTED = {
    "HF_TOKEN": "hf_planted-0123456789",
    "MODAL_TOKEN_ID": "ak-planted-0123456789",
    "MODAL_TOKEN_SECRET": "as-planted-0123456789",
    "RUNPOD_API_KEY": "rp-planted-0123456789",
    "AWS_ACCESS_KEY_ID": "AKIAPLANTED0123456789",
    "AWS_SECRET_ACCESS_KEY": "aws-planted-0123456789",
    "OPENAI_API_KEY": "sk-planted-0123456789",
}
"""Secrets that stand in the environment of whoever uses a hub, a provider or an endpoint."""

SECRETS = {"the database's password": PASSWORD, "the dashboard's token": TOKEN, **PLANTED}


@dataclass(frozen=True)
class Ran:
    """What was seen while the services ran."""

    services: Services
    server: Server
    schema_code: int
    schema_again: int
    health: dict[str, "subprocess.CompletedProcess[str]"]
    refused: int
    pages: dict[str, str]
    codes: dict[str, int]
    events: list[tuple[str, str]]
    processes: list[tuple[str, str, bool]]
    """Command line and environment of every process, and whether it is one of a job."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    if programs() is None:
        pytest.skip("No PostgreSQL is on this machine; get one with: apt-get install postgresql")
    with serving() as started:
        started.execute("CREATE DATABASE autoinfer")
        yield started


@pytest.fixture(scope="module")
def ran(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    folder = tmp_path_factory.mktemp("compose")
    services = Services(
        folder, server, {"database_password": PASSWORD, "dashboard_token": f"{TOKEN}\n"}, PLANTED
    )
    try:
        schema_code = services.start("schema").wait(PATIENCE_S)
        schema_again = services.start("schema").wait(PATIENCE_S)
        for name in ("dashboard", "agent"):
            services.start(name)
        wait_for(lambda: services.healthy("dashboard").returncode == 0, PATIENCE_S)
        health = {name: services.healthy(name) for name in ("database", "dashboard", "agent")}
        services.start("worker")
        wait_for(lambda: "stage.started" in kinds(server), PATIENCE_S)
        health["worker"] = services.healthy("worker")  # beside a job, which takes all processors
        family = with_a_job(services)
        codes = {"worker": services.stop("worker")}  # first, for its job takes all processors from the pages
        refused = status(services, "/now.json", token="wrong")
        pages = {path: body(services, path) for path in addresses()}
        codes |= {name: services.stop(name) for name in ("agent", "dashboard")}
        seen = told(server)
        yield Ran(services, server, schema_code, schema_again, health, refused, pages, codes, seen, family)
    finally:
        services.end()


def with_a_job(services: Services) -> list[tuple[str, str, bool]]:
    """All processes at a moment at which one of a job is among them: there is none between two jobs."""
    looks: list[list[tuple[str, str, bool]]] = []

    def sees_a_job() -> bool:
        looks.append(processes(services))
        return any(of_a_job for _, _, of_a_job in looks[-1])

    wait_for(sees_a_job, PATIENCE_S)
    return looks[-1]


def processes(services: Services) -> list[tuple[str, str, bool]]:
    found = []
    for first in (each for each in services.running.values() if each.poll() is None):
        for each in (psutil.Process(first.pid), *psutil.Process(first.pid).children(recursive=True)):
            with suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
                folder = Path("/proc", str(each.pid))
                of_a_job = (folder / "fd" / "1").readlink().is_relative_to(services.data / "jobs")
                environment = (folder / "environ").read_bytes().decode(errors="replace")
                found.append((" ".join(each.cmdline()), environment, of_a_job))
    return found


def told(server: Server) -> list[tuple[str, str]]:
    rows = server.execute("SELECT kind, text FROM event ORDER BY id", "autoinfer")
    return [(str(kind), str(text)) for kind, text in rows]


def kinds(server: Server) -> set[str]:
    return {kind for kind, _ in told(server)}


def addresses() -> list[str]:
    """Every page that needs no label, as a page, its twin and its table, and what other programs ask for."""
    plain = [page.path for page in PAGES if "{" not in page.path]
    return [
        *plain,
        *(f"{each.rstrip('/') or '/now'}.json" for each in plain),
        "/metrics",
        "/docs",
        "/openapi.json",
    ]


def ask(services: Services, path: str, token: str) -> urllib.request.Request:
    address = f"http://127.0.0.1:{services.port}{path}"
    return urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"})


def status(services: Services, path: str, token: str) -> int:
    try:
        with urllib.request.urlopen(ask(services, path, token), timeout=PATIENCE_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def body(services: Services, path: str) -> str:
    try:
        with urllib.request.urlopen(ask(services, path, TOKEN), timeout=PATIENCE_S) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return f"{error.code}: {error.read().decode()}"


def test_the_schema_is_made_once_and_left_alone_after_that(ran: Ran) -> None:
    assert (ran.schema_code, ran.schema_again) == (0, 0)
    lines = ran.services.log("schema").read_text().splitlines()
    assert re.fullmatch(
        r"postgresql\S*://autoinfer@127.0.0.1:\d+/autoinfer was made \(revision \d+\)\.", lines[0]
    )
    assert "is already up to date" in lines[1]


def test_every_health_check_says_that_its_service_is_well(ran: Ran) -> None:
    assert {name: done.returncode for name, done in ran.health.items()} == {
        "database": 0,
        "dashboard": 0,
        "agent": 0,
        "worker": 0,
    }, ran.health


def test_the_campaign_of_the_agent_is_worked_on_by_the_worker(ran: Ran) -> None:
    seen = [kind for kind, _ in ran.events]
    for kind in ("campaign.started", "worker.started", "job.claimed", "experiment.started", "stage.started"):
        assert kind in seen
    assert seen.index("campaign.started") < seen.index("job.claimed")


def test_each_service_ends_by_itself_when_it_is_told_to(ran: Ran) -> None:
    # The server ends in good order and then by the signal, as its library has it; 143 in a container.
    assert ran.codes == {"worker": 0, "agent": 130, "dashboard": -signal.SIGTERM}, {
        name: ran.services.log(name).read_text()[-2000:] for name in ran.codes
    }
    assert "worker.stopped" in {kind for kind, _ in ran.events}
    assert "Traceback" not in "".join(ran.services.log(name).read_text() for name in ran.codes)


def test_the_dashboard_shows_the_campaign_to_who_has_the_token_and_to_nobody_else(ran: Ran) -> None:
    assert ran.refused == 401
    assert ">C-1<" in ran.pages["/campaigns"]
    assert json.loads(ran.pages["/campaigns.json"])["total"] == 1
    assert [path for path, text in ran.pages.items() if re.match(r"50\d", text)] == []


def test_a_health_check_fails_where_its_service_is_not_there(ran: Ran) -> None:
    gone = ran.services.healthy("dashboard")
    assert gone.returncode == 1
    assert re.fullmatch(r"The dashboard at http://127.0.0.1:\d+ does not answer: .+\n", gone.stderr)


def test_no_secret_is_in_anything_that_the_services_wrote(ran: Ran) -> None:
    assert ran.server.execute("SELECT count(*) FROM job", "autoinfer") != [(0,)]
    wrote = {f"page {path}": text.encode() for path, text in ran.pages.items()}
    given = {ran.services.folder / name for name in ("database_password", "dashboard_token", "pgpass")}
    files = [path for path in ran.services.folder.rglob("*") if path.is_file() and path not in given]
    wrote |= {str(path): path.read_bytes() for path in files}
    wrote |= {f"table {name}": dump.encode() for name, dump in tables(ran.server).items()}
    wrote |= {f"health of {name}": (done.stdout + done.stderr).encode() for name, done in ran.health.items()}
    assert any("spec.json" in name or "jobs" in name for name in wrote), "jobs left their folders"
    assert b"takes jobs from" in wrote[str(ran.services.log("worker"))], "logs are looked into"
    assert any(name == "table event" and b"campaign.started" in text for name, text in wrote.items())
    found = [
        (what, name)
        for what, secret in SECRETS.items()
        for name, text in wrote.items()
        if secret.encode() in text
    ]
    assert found == []


def tables(server: Server) -> dict[str, str]:
    """Every row of every table as text."""
    named = server.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'", "autoinfer")
    return {
        str(name): repr(server.execute(f'SELECT t::text FROM "{name}" t', "autoinfer")) for (name,) in named
    }


def test_no_process_has_a_secret_in_its_command_line_and_no_job_one_that_is_not_for_it(ran: Ran) -> None:
    assert len(ran.processes) > len(ran.codes)
    for command, _, _ in ran.processes:
        assert not [what for what, secret in SECRETS.items() if secret in command], command
    jobs = [environment for _, environment, of_a_job in ran.processes if of_a_job]
    assert jobs
    kept_from_jobs = [SECRETS["the database's password"], TOKEN]
    kept_from_jobs += [PLANTED[name] for name in PLANTED if name in NOT_FOR_JOBS]
    assert len(kept_from_jobs) == 5
    for environment in jobs:
        assert PLANTED["HF_TOKEN"] in environment, (
            "a hub's token is for jobs, so that this looks at the right place"
        )
        assert not [secret for secret in kept_from_jobs if secret in environment]


@pytest.mark.parametrize(
    "words",
    [("doctor",), ("config", "show"), ("config", "show", "--json"), ("log",), ("--debug", "show", "E-9999")],
)
def test_no_secret_is_in_what_a_command_says(ran: Ran, words: tuple[str, ...]) -> None:
    done = in_image(ran, "autoinfer", *words)
    assert "Traceback" not in done.stdout
    assert_silent(done)


def test_a_database_that_refuses_the_password_is_told_without_it(ran: Ran) -> None:
    url = f"postgresql+psycopg://autoinfer:{PLANTED['OPENAI_API_KEY']}@127.0.0.1:{ran.server.port}/autoinfer"
    for more in ({}, {"debug": "1"}):
        done = in_image(
            ran, "autoinfer", *(["--debug"] if more else []), "summary", AUTOINFER_DATABASE_URL=url
        )
        assert done.returncode == 1, done.stderr
        assert_silent(done)


def in_image(ran: Ran, *words: str, **more: str) -> "subprocess.CompletedProcess[str]":
    environment = ran.services.environment("worker") | more
    command = [str(ROOT / "deploy" / "entrypoint.sh"), *words]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, cwd=ran.services.data
    )


def assert_silent(done: "subprocess.CompletedProcess[str]") -> None:
    for what, secret in SECRETS.items():
        assert secret not in done.stdout + done.stderr, what


@pytest.mark.parametrize("password", ["plain", r"a:b\c", r"\:", "blank in it", "ümläut"])
def test_any_password_reaches_the_database_through_its_file(
    server: Server, tmp_path: Path, password: str
) -> None:
    server.execute("DO $$ BEGIN CREATE ROLE other LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
    quoted = password.replace("'", "''")
    server.execute(f"ALTER ROLE other PASSWORD '{quoted}'")
    (tmp_path / "secret").write_text(password + "\n")
    program = (
        "import psycopg, sys\n"
        f"psycopg.connect(host='127.0.0.1', port={server.port}, user='other', dbname='autoinfer').close()\n"
        "print('in', *sys.argv[1:])"
    )
    environment = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": ":".join(each for each in sys.path if each),
        "DATABASE_PASSWORD_FILE": str(tmp_path / "secret"),
        "PGPASSFILE": str(tmp_path / "pgpass"),
        "LANG": "C.UTF-8",
    }
    command = [str(ROOT / "deploy" / "entrypoint.sh"), sys.executable, "-c", program, "two words"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("in two words\n", 0), done.stderr
    assert (tmp_path / "pgpass").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [None, ""])
def test_without_its_password_no_service_begins(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "secret").write_text(content)
    environment = {"PATH": "/usr/bin:/bin", "DATABASE_PASSWORD_FILE": str(tmp_path / "secret")}
    command = [str(ROOT / "deploy" / "entrypoint.sh"), "echo", "begun"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "make compose-secrets" in done.stderr
