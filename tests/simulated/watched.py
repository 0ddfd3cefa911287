"""Every write transaction of this process is watched: what changes its state must be told in the log, in the
same transaction.

SQLite triggers note the changes, so that nothing has to know how they are made.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from sqlalchemy import text
from sqlalchemy.orm import Session

from db.labels import Noun, format_label
from db.session import Database

STATES = {
    "campaign": ("state", Noun.CAMPAIGN),
    "hypothesis": ("state", Noun.HYPOTHESIS),
    "experiment": ("state", Noun.EXPERIMENT),
    "job": ("state", Noun.JOB),
    "finding": ("status", Noun.FINDING),
}
"""Tables of what has a state, with its column; a new row is a change too."""

UNTOLD = {("experiment", None, "planned"), ("job", None, "queued")}
"""What the event of its hypothesis, baseline or confirmation tells: nothing is known of it before it runs."""


class Untold(AssertionError):
    """A state was changed and no event of the transaction speaks of it."""


@contextmanager
def every_change_is_told(
    allowed: frozenset[tuple[str, str | None, str]] = frozenset(),
) -> Iterator[list[str]]:
    """Within it a write that changes a state without an event fails; gives what was changed and told."""
    seen: list[str] = []
    plain = Database.write

    @contextmanager
    def write(database: Database) -> Iterator[Session]:
        with plain(database) as session:
            _watch(session)
            before = session.execute(text("SELECT coalesce(max(id), 0) FROM event")).scalar_one()
            yield session
            session.flush()
            seen.extend(_changes(session, before, UNTOLD | allowed))

    with patch.object(Database, "write", write):
        yield seen


def _watch(session: Session) -> None:
    session.execute(
        text("CREATE TEMP TABLE IF NOT EXISTS changed (kind TEXT, id INTEGER, old TEXT, new TEXT)")
    )
    session.execute(text("DELETE FROM temp.changed"))
    for table, (column, _) in STATES.items():
        session.execute(
            text(
                f"CREATE TEMP TRIGGER IF NOT EXISTS told_{table} AFTER UPDATE OF {column} ON main.{table} "
                f"WHEN old.{column} <> new.{column} BEGIN INSERT INTO changed VALUES "
                f"('{table}', new.id, old.{column}, new.{column}); END"
            )
        )
        session.execute(
            text(
                f"CREATE TEMP TRIGGER IF NOT EXISTS new_{table} AFTER INSERT ON main.{table} BEGIN "
                f"INSERT INTO changed VALUES ('{table}', new.id, NULL, new.{column}); END"
            )
        )


def _changes(session: Session, before: int, untold: set[tuple[str, str | None, str]]) -> Iterator[str]:
    rows = session.execute(text("SELECT kind, id, old, new FROM temp.changed")).all()
    told = session.execute(
        text("SELECT kind, subject, text, data, campaign_id FROM event WHERE id > :before"),
        {"before": before},
    ).all()
    for kind, number, old, new in rows:
        if (kind, old, new) in untold:
            continue
        names = _names(session, kind, number)
        speaks = [
            each.kind
            for each in told
            if any(_names_it(name, f"{each.subject} {each.text} {each.data}") for name in names)
            or (kind == "campaign" and each.campaign_id == number and each.kind.startswith("campaign."))
        ]
        if not speaks:
            raise Untold(f"{names[0]} went from {old} to {new}, told only {[each.kind for each in told]}")
        yield f"{kind} {new}: {speaks[0]}"


def _names(session: Session, kind: str, number: int) -> list[str]:
    """The labels under which it may be told: a job by its experiment too, which is what users know."""
    names = [format_label(STATES[kind][1], number)]
    if kind == "job":
        query = text("SELECT experiment_id FROM job WHERE id = :id")
        experiment = session.execute(query, {"id": number}).scalar_one()
        if experiment is not None:
            names.append(format_label(Noun.EXPERIMENT, experiment))
    return names


def _names_it(label: str, told: str) -> bool:
    return re.search(rf"\b{label}\b", told) is not None
