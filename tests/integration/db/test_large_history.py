"""The long campaign that benchmarks look at: as large as asked for, the same each time, and whole."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import func, select, text

from db.models import Event, Experiment, Hypothesis, Verdict
from db.session import Database
from tests.history.large_history import large_history
from tests.history.large_story import Size

SIZE = Size(experiments=40, events=600)


def verdicts(database: Database) -> list[tuple[object, ...]]:
    with database.read() as session:
        rows = session.execute(select(Verdict.id, Verdict.outcome, Verdict.effect_log, Verdict.quality))
        return [tuple(row) for row in rows]


def test_it_is_as_large_as_asked_for_and_every_reference_leads_somewhere(tmp_path: Path) -> None:
    database = large_history(tmp_path, SIZE)
    with database.read() as session:
        counts = [
            session.scalar(select(func.count()).select_from(each)) for each in (Experiment, Hypothesis, Event)
        ]
        broken = session.execute(text("PRAGMA foreign_key_check")).all()
    database.close()
    assert counts == [SIZE.experiments, SIZE.hypotheses, SIZE.events]
    assert broken == []


def test_the_same_seed_gives_the_same_history(tmp_path: Path) -> None:
    found = []
    for place, seed in enumerate((7, 7, 8)):
        database = large_history(tmp_path / str(place), SIZE, seed)
        found.append(verdicts(database))
        database.close()
    assert found[0] == found[1]
    assert found[0] != found[2]
