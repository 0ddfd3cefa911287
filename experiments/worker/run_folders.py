"""Folders that runs of jobs left below an executor's root, and which of them are no longer needed.

A run's samples are in the database as soon as its job has ended there; its folder then holds logs and a copy.
A folder is deleted only when the database that is open here says so: it belongs to a job of this database
(see `claiming.run_key`), that job is in a final state, and nothing of the run is alive. What another database
knows of is left alone.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sqlalchemy import select

from db.models import Job
from db.session import Database
from db.states import FINAL_JOB_STATES
from experiments.worker.claiming import run_key

_KEY = re.compile(r"job(\d+)-[0-9a-f]+-(\d+)", re.ASCII)

_MOST_IDS = 500
"""Job ids asked for in one statement: SQLite takes no more than some thousand values."""


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run whose job has ended; `bytes` is what its files take."""

    path: Path
    bytes: int

    @property
    def key(self) -> str:
        """The run's key, which names the folder."""
        return self.path.name


def finished_runs(
    database: Database, root: Path, ended_before: datetime, alive: Collection[str]
) -> list[RunFolder]:
    """Folders below `root` of jobs of this database that ended before that moment, by name.

    `alive` are keys of runs that have processes, as the executor's `reconcile` tells.
    """
    found: dict[int, list[tuple[int, Path]]] = {}
    for folder in sorted(root.iterdir()) if root.is_dir() else ():
        match = _KEY.fullmatch(folder.name)
        if match is not None and folder.name not in alive and folder.is_dir() and not folder.is_symlink():
            found.setdefault(int(match[1]), []).append((int(match[2]), folder))
    ended = _ended(database, found, ended_before)
    return [
        RunFolder(folder, _bytes(folder))
        for job_id, created_at in sorted(ended.items())
        for attempt, folder in found[job_id]
        if run_key(database, job_id, created_at, attempt) == folder.name
    ]


def delete_runs(runs: Iterable[RunFolder]) -> int:
    """Delete the folders; returns the bytes that were set free."""
    freed = 0
    for run in runs:
        shutil.rmtree(run.path, ignore_errors=True)
        if not run.path.exists():
            freed += run.bytes
    return freed


def _ended(database: Database, wanted: Collection[int], before: datetime) -> dict[int, datetime]:
    """When each of these jobs was made, of those that ended before that moment."""
    ids = sorted(wanted)
    found: dict[int, datetime] = {}
    with database.read() as session:
        for start in range(0, len(ids), _MOST_IDS):
            rows = session.execute(
                select(Job.id, Job.created_at, Job.finished_at).where(
                    Job.id.in_(ids[start : start + _MOST_IDS]), Job.state.in_(FINAL_JOB_STATES)
                )
            )
            found |= {row.id: row.created_at for row in rows if row.finished_at and row.finished_at < before}
    return found


def _bytes(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())
