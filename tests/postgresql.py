"""A real PostgreSQL on loopback for tests, of the machine's own programs, in a folder that goes with it.

Debian has them in the package `postgresql`; `PG_BINDIR` names another folder with `initdb` and `postgres`.
"""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from random import SystemRandom

import psycopg

from db.session import open_database
from tests.outliving import not_outliving
from tests.waiting import PATIENCE_S

USER = "autoinfer"
PASSWORD = "not-to-be-shown"
PORTS = range(20_000, 32_768)
"""Linux gives any free port from 32768 on (ip_local_port_range of its documentation, ip-sysctl)."""
MISSING = "No PostgreSQL is on this machine; get one with: apt-get install postgresql, or set PG_BINDIR"


def programs() -> Path | None:
    """The folder with PostgreSQL's programs, the newest where there are several."""
    if given := os.environ.get("PG_BINDIR"):
        return Path(given)
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda each: int(each.parts[-3].split(".")[0])
    )
    if found:
        return found[-1].parent
    here = shutil.which("initdb")
    return Path(here).parent if here else None


def free_port() -> int:
    """A port that nobody listens at, and that nobody is given meanwhile who asks for any free one, as each
    connection does for its own end: those are above `PORTS`."""
    while True:
        port = SystemRandom().choice(PORTS)
        with socket.socket() as asked, suppress(OSError):
            asked.bind(("127.0.0.1", port))
            return port


class Server:
    """A cluster of databases; `start` and `stop` as often as a test likes, on the same port."""

    def __init__(self, folder: Path, bindir: Path, *, synced: bool, address: str = "127.0.0.1") -> None:
        self.folder, self._bindir, self._synced, self.address = folder, bindir, synced, address
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "password").write_text(PASSWORD)
        if self._as:
            for path in (folder, folder / "password"):
                shutil.chown(path, self._as)
        self._run(
            "initdb",
            *("--pgdata", str(folder / "data"), "--username", USER, "--pwfile", str(folder / "password")),
            *("--auth", "scram-sha-256", "--no-sync", "--encoding", "UTF8", "--locale", "C.UTF-8"),
        )
        with (folder / "data" / "pg_hba.conf").open("a") as rules:
            rules.write("host all all all scram-sha-256\n")

    @cached_property
    def _as(self) -> str | None:
        """Whom it runs as: PostgreSQL refuses root."""
        if os.getuid() != 0:
            return None
        known = {each.pw_name for each in pwd.getpwall()}
        return "postgres" if "postgres" in known else "nobody"

    def _run(self, program: str, *words: str) -> None:
        subprocess.run(
            [str(self._bindir / program), *words], user=self._as, cwd="/", check=True, capture_output=True
        )

    def start(self) -> None:
        words = ["-D", str(self.folder / "data"), "-p", str(self.port), "-k", str(self.folder)]
        for setting in (
            f"listen_addresses={self.address}",
            f"fsync={'on' if self._synced else 'off'}",
            "max_connections=200",
            "shared_buffers=32MB",
        ):
            words += ["-c", setting]
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                not_outliving([str(self._bindir / "postgres"), *words], "INT"),
                user=self._as,
                cwd="/",
                stdout=log,
                stderr=log,
            )
        wait = ["--timeout", str(int(PATIENCE_S)), "--host", self.address, "--port", str(self.port)]
        while subprocess.run([str(self._bindir / "pg_isready"), *wait], capture_output=True).returncode:
            assert self._process.poll() is None, (self.folder / "server.log").read_text()

    def stop(self, number: int = signal.SIGINT) -> None:
        """SIGINT ends it in good order, whoever is connected; SIGQUIT at once, as a crash does."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(PATIENCE_S)
            self._process = None

    def connect(self, database: str) -> "psycopg.Connection[tuple[object, ...]]":
        """A connection of the test's own, beside those that are tested."""
        return psycopg.connect(
            host=self.address, port=self.port, user=USER, password=PASSWORD, dbname=database, autocommit=True
        )

    def url(self, database: str, *, port: int | None = None, password: bool = True) -> str:
        secret = f":{PASSWORD}" if password else ""
        return f"postgresql://{USER}{secret}@{self.address}:{port or self.port}/{database}"

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        with self.connect(database) as connection:
            done = connection.execute(statement)
            return done.fetchall() if done.description else []

    @cached_property
    def template(self) -> str:
        """A database that was migrated once."""
        self.execute("CREATE DATABASE migrated")
        open_database(self.url("migrated"), create=True).close()
        return "migrated"

    def new_database(self) -> str:
        """A new database with the schema; returns its name."""
        name = f"test_{uuid.uuid4().hex[:12]}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {self.template}")
        return name

    def empty_database(self) -> str:
        name = f"test_{uuid.uuid4().hex[:12]}"
        self.execute(f"CREATE DATABASE {name}")
        return name


@contextmanager
def serving(*, synced: bool = False, address: str = "127.0.0.1") -> Iterator[Server]:
    """A server that runs until the block ends; `synced` commits reach the disk, as they do by default."""
    bindir = programs()
    assert bindir is not None, MISSING
    folder = Path(tempfile.mkdtemp(prefix="autoinfer-pg-", dir=tempfile.gettempdir()))
    server = None
    try:
        server = Server(folder, bindir, synced=synced, address=address)
        server.start()
        yield server
    finally:
        if server is not None:
            server.stop(signal.SIGQUIT)
        shutil.rmtree(folder, ignore_errors=True)
