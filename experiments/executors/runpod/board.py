"""The board: three tables in a PostgreSQL that this machine and the pods reach, and all that they say there.

    autoinfer_pod_run     one row a key: what is asked, who took it, how it ended
    autoinfer_pod         the pods that were made for a key
    autoinfer_pod_piece   what a job told: pieces of its files, each at its place

A pod's user may read a run, take it, end it and add pieces, and nothing else: not the queue, not a budget,
and no other table. All times are the board's own clock, seconds since the epoch, so that wrong clocks harm
nothing. The tables are made where they are missing; the user `autoinfer_pod` gets its rights then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

from pydantic import BaseModel, ConfigDict
from sqlalchemy import (
    ARRAY,
    Double,
    String,
    any_,
    bindparam,
    cast,
    create_engine,
    func,
    insert,
    make_url,
    select,
    text,
    update,
)
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError, ProgrammingError, SQLAlchemyError

from configs.errors import AutoinferError, ProviderUnreachable, UsageError
from experiments.executors.runpod.board_tables import (
    BEYOND,
    HAS_BEGUN,
    MAY_TRY,
    NOW_S,
    OVERDUE,
    PIECE,
    POD,
    POD_USER,
    RIGHTS,
    RUN,
    TABLES,
)
from experiments.job.result import BROKE
from experiments.measurement.evidence import Stage

CANCELLED = "cancelled"
"""Stands where a pod would, where the run was cancelled before any had taken it."""

CONNECT_S = 10
"""How long a connection may take."""

_GRANTING, _TRYING = 7_051_999, 7_051_998
"""Locks of PostgreSQL, by numbers of our own."""

_ROWS = select(
    RUN.c.key,
    RUN.c.tried_at_s,
    RUN.c.owner,
    RUN.c.told_at_s,
    RUN.c.ended,
    RUN.c.ended_at_s,
    RUN.c.gone_at_s,
    cast(NOW_S, Double),
).where(RUN.c.key == any_(bindparam("keys", type_=ARRAY(String))))
"""All of runs but what is asked, which is long."""


class BoardUnreachable(ProviderUnreachable):
    """The board did not answer; what was written there may or may not be."""


class _Told(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Asked(_Told):
    """One job: `image` is that of its pod, `gpu` the type asked for (None: no GPU), `spec` a job's spec,
    `usd_per_hr` what the pod may cost at most. `shape` are the files of a checkpoint that has no weights,
    `shared_artifacts` is the address of the store that hosts share, where pods reach it."""

    version: int
    gpu: str | None
    spec: dict[str, object]
    limits_s: dict[Stage, float]
    load_limit_s: float
    usd_per_hr: float
    run_generated_code: bool = False
    limit_s: float | None = None
    """The most seconds of the whole job; None in runs from before there was one."""
    image: str = ""
    shape: dict[str, str] = {}
    shared_artifacts: str | None = None


def limit_of(asked: Asked) -> float:
    """After how many seconds a pod ends its job."""
    return float(sum(asked.limits_s.values())) if asked.limit_s is None else asked.limit_s


class Outcome(StrEnum):
    """How a run ended."""

    DONE = "done"
    """The records came to their end; they may tell an infeasible configuration."""
    FAILED = "failed"
    LOST = "lost"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed-out"
    """The job was ended at the limit of the whole of it."""
    OTHER_GPU = "other-gpu"
    """The pod has another GPU than was asked for; nothing was measured."""


class Ended(_Told):
    """The end of a run; `sentence` says why it is not done, `failure_kind` of what kind that is, `got_gpu`
    what the driver called the GPU."""

    outcome: Outcome
    sentence: str = ""
    failure_kind: str = BROKE
    got_gpu: str | None = None


@dataclass(frozen=True)
class Row:
    """A run as the board has it; `now_s` is the board's clock when it was read."""

    key: str
    tried_at_s: float | None
    owner: str | None
    told_at_s: float | None
    ended: Ended | None
    ended_at_s: float | None
    gone_at_s: float | None
    now_s: float


class Board:
    """The board at an address of PostgreSQL; its password is given, in the address, or libpq's own matter."""

    def __init__(self, url: str, password: str | None = None) -> None:
        try:
            parsed = make_url(url)
        except SQLAlchemyError:
            raise UsageError("The address of the board is no address.", "Write postgresql://…") from None
        if not parsed.drivername.startswith("postgresql"):
            raise UsageError("The board is not in a PostgreSQL.", "Write postgresql://…")
        if password is not None:
            parsed = parsed.set(password=password)
        parsed = parsed.set(drivername="postgresql+psycopg")
        connect = {"connect_timeout": CONNECT_S, "keepalives_idle": 30, "tcp_user_timeout": 30_000}
        self._engine = create_engine(parsed, connect_args=connect)
        # Looks at runs are many, each one statement that needs no transaction, and so nothing to put back.
        self._for_reading = create_engine(
            parsed, connect_args=connect, isolation_level="AUTOCOMMIT", pool_reset_on_return=None
        )
        self._made = False

    def close(self) -> None:
        """Let its connections go."""
        self._engine.dispose()
        self._for_reading.dispose()

    def prepare(self) -> None:
        """Make the tables where they are missing, with the rights of the pods' user, once."""
        if self._made:
            return
        with self._in_words():
            try:
                TABLES.create_all(self._engine)
            except (ProgrammingError, IntegrityError):  # another process made them meanwhile
                TABLES.create_all(self._engine)
            with self._engine.begin() as connection:
                known = text("SELECT 1 FROM pg_roles WHERE rolname = :name")
                if connection.execute(known, {"name": POD_USER}).first() is not None:
                    # Two that grant at once would fail each other.
                    connection.execute(select(func.pg_advisory_xact_lock(_GRANTING)))
                    for statement in RIGHTS:
                        connection.execute(text(statement))
        self._made = True

    def ask(self, key: str, asked: Asked) -> Row:
        """Write what is asked under a key, unless it is there; returns what is there."""
        try:
            with self._writing() as connection:
                connection.execute(insert(RUN).values(key=key, asked=asked.model_dump_json()))
        except _Exists:
            pass
        row = self.row(key)
        assert row is not None  # nothing deletes a run
        return row

    def row(self, key: str) -> Row | None:
        """The run of a key; None where there is none."""
        return self.rows((key,)).get(key)

    def rows(self, keys: Collection[str]) -> dict[str, Row]:
        """The runs of these keys, in one statement; those that there are."""
        with self._reading() as connection:
            found = connection.execute(_ROWS, {"keys": list(keys)}).all()
        return {row[0]: Row(*row[:4], None if row[4] is None else _ended(row[4]), *row[5:]) for row in found}

    def asked(self, key: str) -> Asked:
        """What is asked of a run that there is."""
        with self._reading() as connection:
            told = connection.execute(select(RUN.c.asked).where(RUN.c.key == key)).scalar_one()
        return Asked.model_validate_json(told)

    def tries(self, key: str, image: str | None) -> bool:
        """Note that a pod is about to be made.

        False, and nothing is noted, where no pod of this board has begun with `image` yet and another is
        being waited for; None for an image that is known to begin.
        """
        with self._writing() as connection:
            if image is not None:
                # Two that look at once would both find that nobody tries.
                connection.execute(select(func.pg_advisory_xact_lock(_TRYING)))
                words = {"key": key, "image": image, "nobody": CANCELLED}
                if not connection.execute(text(MAY_TRY), words).scalar_one():
                    return False
            connection.execute(update(RUN).where(RUN.c.key == key).values(tried_at_s=NOW_S))
        return True

    def has_begun(self, image: str) -> bool:
        """Whether a pod of this board has begun with the image."""
        with self._reading() as connection:
            words = {"image": image, "nobody": CANCELLED}
            return bool(connection.execute(text(f"SELECT {HAS_BEGUN}"), words).scalar_one())

    def made_none(self, key: str) -> None:
        """Note that no pod was made after all."""
        self._change(key, tried_at_s=None)

    def overdue(self, startup_s: float, end_s: float) -> list[str]:
        """Keys of runs whose pods should be gone by now: ended for `end_s`, not begun in `startup_s`, or
        longer than their limit and both."""
        with self._reading() as connection:
            words = {"startup_s": startup_s, "end_s": end_s}
            return list(connection.execute(text(OVERDUE), words).scalars())

    def made(self, key: str, pod: str, usd_per_hr: float) -> None:
        """Note a pod of the key, once."""
        try:
            with self._writing() as connection:
                connection.execute(insert(POD).values(key=key, pod=pod, usd_per_hr=usd_per_hr))
        except _Exists:
            pass

    def usd_per_hr(self, key: str) -> float:
        """What all pods of a key cost an hour."""
        with self._reading() as connection:
            query = select(func.sum(POD.c.usd_per_hr)).where(POD.c.key == key)
            return float(connection.execute(query).scalar_one() or 0.0)

    def claim(self, key: str, owner: str) -> str | None:
        """Take the run, unless another has; returns who has it, None where there is no such run."""
        with self._writing() as connection:
            free = (RUN.c.key == key, RUN.c.owner.is_(None), RUN.c.ended.is_(None))
            connection.execute(update(RUN).where(*free).values(owner=owner, told_at_s=NOW_S))
            found: str | None = connection.execute(
                select(RUN.c.owner).where(RUN.c.key == key)
            ).scalar_one_or_none()
        return found

    def tell(self, key: str, pieces: list[tuple[str, int, str]]) -> bool:
        """Add pieces (file, place in bytes, text), and say that the pod lives; false where the run has ended.

        A piece that is there already is what an answer that was lost had written.
        """
        for name, at, data in pieces:
            try:
                with self._writing() as connection:
                    connection.execute(insert(PIECE).values(key=key, name=name, at=at, data=data))
            except _Exists:
                continue
        with self._writing() as connection:
            told = connection.execute(
                update(RUN).where(RUN.c.key == key, RUN.c.ended.is_(None)).values(told_at_s=NOW_S)
            )
            return bool(told.rowcount)

    def end(self, key: str, ended: Ended, *, owner: str | None = None) -> None:
        """Say how the run ended, unless it is said; `owner` holds it from now on where nobody did."""
        with self._writing() as connection:
            values = {"ended": ended.model_dump_json(), "ended_at_s": NOW_S}
            connection.execute(update(RUN).where(RUN.c.key == key, RUN.c.ended.is_(None)).values(values))
            if owner is not None:
                connection.execute(
                    update(RUN).where(RUN.c.key == key, RUN.c.owner.is_(None)).values(owner=owner)
                )

    def gone(self, key: str) -> None:
        """Note that no pod of the key is left."""
        with self._writing() as connection:
            connection.execute(
                update(RUN).where(RUN.c.key == key, RUN.c.gone_at_s.is_(None)).values(gone_at_s=NOW_S)
            )

    def pieces(self, sizes: Mapping[str, Mapping[str, int]]) -> dict[str, list[tuple[str, int, str]]]:
        """What files of runs have beyond these sizes, by key and name, in one statement: of each run, in
        order, file, place in bytes and text of every piece in which something of that lies."""
        files = [(key, name, size) for key, of_run in sizes.items() for name, size in of_run.items()]
        keys, names, beyond = zip(*files, strict=True) if files else ((), (), ())
        told = {"keys": list(keys), "names": list(names), "sizes": list(beyond)}
        found: dict[str, list[tuple[str, int, str]]] = {key: [] for key in sizes}
        with self._reading() as connection:
            for key, name, at, data in connection.exec_driver_sql(BEYOND, told):
                found[key].append((name, at, data))
        return found

    def _change(self, key: str, **values: object) -> None:
        with self._writing() as connection:
            connection.execute(update(RUN).where(RUN.c.key == key).values(**values))

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with self._in_words(), self._for_reading.connect() as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._in_words(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except IntegrityError:
            raise _Exists("It is on the board already.") from None
        except ProgrammingError as error:
            said = str(error.orig).strip().splitlines()[0]
            raise AutoinferError(f"The board refuses: {said}.", "See docs/runpod.md on its users.") from None
        except SQLAlchemyError as error:
            said = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
            raise BoardUnreachable(f"The board can't be reached: {said}.", "It is asked again.") from None


def _ended(told: str) -> Ended:
    """What a pod says of its end; what makes no sense is an end too."""
    try:
        return Ended.model_validate_json(told)
    except ValueError:
        return Ended(outcome=Outcome.LOST, sentence="The pod told an end that makes no sense.")


class _Exists(AutoinferError):
    """A row that is there already."""
