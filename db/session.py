"""Opening a database and talking to it: reading on a snapshot, writing in transactions that are durable.

`Database.read()` gives a session that cannot write; `Database.write()` one whose transaction takes the
database's write lock at its start, so that what it reads is still true when it commits: SQLite's own (`BEGIN
IMMEDIATE`), and on PostgreSQL an advisory one (`db.server`). So there is one writer at a time on both, no two
transactions ever wait for each other, and what holds on one holds on the other. Keep both short: load, close,
work, then write. Sessions do not expire what they hold, so rows stay readable after the block.

SQLite runs with a write-ahead log and `synchronous=FULL`: a commit is on the disk when it returns, so that a
finished job survives a killed process and a power cut alike. That costs one fsync a commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from sqlite3 import Connection as SQLiteConnection

from sqlalchemy import Connection, Engine, NullPool, create_engine, event
from sqlalchemy.orm import Session

from configs.errors import (
    DatabaseMissing,
    DatabaseTooNew,
    DatabaseTooOld,
    DiskFull,
    NotADatabase,
    UsageError,
)
from db import faults, server
from db.address import Address, Lying, look_at, make_folder, parse_address
from db.full_disk import connect_without_files_beside
from db.json_text import encode
from db.schema import SchemaState, migrate, schema_state
from db.standing import Standing

BUSY_TIMEOUT_S = 15.0
"""How long to wait for another writer before the database counts as locked, in seconds."""


class Database:
    """An open database; shared by threads, not across a fork. Made by `open_database`."""

    def __init__(self, address: Address, busy_timeout_s: float) -> None:
        self._address = address
        if address.path is not None:
            self.engine = _sqlite_engine(address, busy_timeout_s, begin="BEGIN IMMEDIATE")
            self._reader = _sqlite_engine(address, busy_timeout_s, begin="BEGIN", pragmas=("query_only=ON",))
        else:
            self.engine = create_engine(
                address.url,
                json_serializer=encode,
                pool_pre_ping=True,
                connect_args=server.connect_arguments(address.url, busy_timeout_s),
            )
            self._reader = self.engine.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )
        self._standing = Standing(self._reader)
        self.found_full: str | None = None
        """What to say where it is read though its disk is full, in a sentence; None where it is not."""

    @property
    def shown(self) -> str:
        """The path or URL of the database as it may be shown to a user, without its password."""
        return self._address.shown

    @property
    def is_file(self) -> bool:
        """Whether it is a file of this machine, where a look at its standing waits for nobody."""
        return self._address.path is not None

    def standing(self) -> str | None:
        """A word that is another one after every commit, None where it can't be told; see `db.standing`."""
        return None if self.found_full else self._standing.now()

    @contextmanager
    def read(self) -> Iterator[Session]:
        """Open a session on a snapshot of the database; a write in it raises SQLAlchemy's `DBAPIError`.

        Raises `DatabaseError` and its kin for what the user can cure, as `write` does.
        """
        with (
            faults.in_words(self._address, reading=True),
            Session(self._reader, expire_on_commit=False, autoflush=False) as session,
        ):
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """Open a write transaction: committed at the end of the block, rolled back by any exception.

        Raises `DatabaseLocked` after `busy_timeout_s`, `DatabaseReadOnly`, `DiskFull`, `PermissionRefused`,
        `DatabaseDamaged`, `DatabaseMissing` or `DatabaseUnreachable`; a broken constraint raises SQLAlchemy's
        `IntegrityError`.
        """
        faults.check_there(self._address)
        with (
            faults.in_words(self._address),
            Session(self.engine, expire_on_commit=False) as session,
            session.begin(),
        ):
            connection = session.connection()  # take the write lock now, before the caller reads anything
            if not self.is_file:
                connection.execute(server.WRITE_LOCK)
            yield session

    def read_without_files_beside(self, full: DiskFull, busy_timeout_s: float) -> None:
        """Read from now on though the disk is `full`; raises it where there is no file to read."""
        path = self._address.path
        if path is None:
            raise full
        self._reader.dispose()
        connect = connect_without_files_beside(path, busy_timeout_s)
        self._reader = _prepared(
            create_engine(self._address.url, json_serializer=encode, poolclass=NullPool, creator=connect),
            begin="BEGIN",
            pragmas=("query_only=ON",),
        )
        self.found_full = full.message

    def close(self) -> None:
        """Close all connections; sessions still open go on until they end."""
        self._standing.close()
        self._reader.dispose()
        self.engine.dispose()


def open_database(
    url: str,
    *,
    create: bool = False,
    upgrade: bool = False,
    busy_timeout_s: float = BUSY_TIMEOUT_S,
    reads_when_full: bool = False,
) -> Database:
    """Open the database at `url`, such as `sqlite:////home/me/autoinfer.db`.

    With `create` a missing one is made, its folder too; with `upgrade` an older one is brought up to date.
    With `reads_when_full` a file on a full disk is read all the same (`Database.found_full`), as far as it
    can be; whatever is written raises `DiskFull` then.
    Raises `UsageError`, `DatabaseMissing`, `NotADatabase`, `DatabaseTooOld`, `DatabaseTooNew`,
    `DatabaseLocked`, `DatabaseReadOnly`, `DiskFull`, `PermissionRefused`, `DatabaseUnreachable`; nothing
    stored is changed then.
    """
    address = parse_address(url)
    try:
        if address.path is not None and look_at(address.path) is Lying.NOTHING:
            if not create:
                raise _missing(address)
            make_folder(address.path)
    except OSError as error:
        raise faults.of_operating_system(error, address) from error
    try:
        database = Database(address, busy_timeout_s)
    except ModuleNotFoundError as error:
        raise UsageError(
            f"{address.shown} needs the Python package {error.name!r}, which is not installed.",
            "Install it, or use the default database: pip install 'autoinfer[postgresql]'",
        ) from error
    try:
        try:
            _check_schema(database, address, busy_timeout_s, create=create, upgrade=upgrade)
        except DiskFull as full:
            if not reads_when_full:
                raise
            database.read_without_files_beside(full, busy_timeout_s)
            _check_schema(database, address, busy_timeout_s, create=False, upgrade=False)
    except BaseException:
        database.close()
        raise
    return database


def _check_schema(
    database: Database, address: Address, busy_timeout_s: float, *, create: bool, upgrade: bool
) -> None:
    with database.read() as session:
        state = schema_state(session.connection())
    match state:
        case SchemaState.CURRENT:
            return
        case SchemaState.EMPTY if not create:
            raise _missing(address)
        case SchemaState.OLDER if not upgrade:
            raise DatabaseTooOld(
                f"The database {address.shown} was written by an older version of autoinfer.",
                "Bring it up to date with: autoinfer db upgrade",
            )
        case SchemaState.FOREIGN:
            raise NotADatabase(
                f"{address.shown} is a database, but not one of autoinfer.",
                "Nothing was changed in it. Name another with --db.",
            )
        case SchemaState.NEWER:
            raise DatabaseTooNew(
                f"The database {address.shown} was written by a newer version of autoinfer.",
                "Install that version, or name another database with --db. Nothing was changed in it.",
            )
    with faults.in_words(address), _migrating(address, busy_timeout_s) as connection:
        # Another process may have been quicker; migrating what is up to date changes nothing.
        migrate(connection)


@contextmanager
def _migrating(address: Address, busy_timeout_s: float) -> Iterator[Connection]:
    if address.path is None:
        arguments = server.connect_arguments(address.url, busy_timeout_s)
        engine = create_engine(address.url, poolclass=NullPool, connect_args=arguments)
    else:
        engine = _sqlite_engine(
            address, busy_timeout_s, begin="BEGIN IMMEDIATE", pragmas=("foreign_keys=OFF", "journal_mode=WAL")
        )
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def _sqlite_engine(
    address: Address, busy_timeout_s: float, *, begin: str, pragmas: tuple[str, ...] = ()
) -> Engine:
    engine = create_engine(address.url, json_serializer=encode, connect_args={"timeout": busy_timeout_s})
    return _prepared(engine, begin=begin, pragmas=pragmas)


def _prepared(engine: Engine, *, begin: str, pragmas: tuple[str, ...]) -> Engine:
    """The same, whose connections begin so and are set so."""

    @event.listens_for(engine, "connect")
    def _prepare(connection: SQLiteConnection, record: object) -> None:
        connection.isolation_level = None  # the driver leaves BEGIN to us
        for pragma in ("foreign_keys=ON", "synchronous=FULL", *pragmas):
            connection.execute(f"PRAGMA {pragma}").close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        driver = connection.connection.driver_connection
        assert isinstance(driver, SQLiteConnection)
        driver.execute(begin).close()  # SQLAlchemy's own way takes as long again as a small transaction

    return engine


def _missing(address: Address) -> DatabaseMissing:
    return DatabaseMissing(
        f"There is no database at {address.shown}.",
        "Start a campaign to make one (autoinfer run), or name another with --db.",
    )
