"""Readings of rented machines while they run: from the copies that their worker makes, into the history."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from configs.targets import is_rented
from db.labels import Noun, format_label
from db.models import Job, RemoteRun
from db.session import Database
from db.states import JobState, RemoteRunState
from experiments.remote.extras import read_samples_of_late
from experiments.telemetry.history import History
from experiments.telemetry.reading import device_key
from knowledge.queries.view import View

RUNS = "jobs"
"""The folder of all runs in the data folder, as the executor made there has it."""

LATE_S = 35.0
"""How late a sample may come and not be stale: a worker looks at an old run every 30 s, and its machine tells
every two."""

_PROVIDERS = {"modal": "Modal", "runpod": "RunPod"}
"""Names as their providers write them; any other is told as targets have it."""


class RentedFrom(View):
    """Who rents a machine out: `target` as the user named it, `asked` the machine in it, `got` what the
    driver told, None where it has told nothing yet."""

    provider: str
    target: str
    asked: str
    got: str | None


def rented_from(target: str, got: str | None = None) -> RentedFrom | None:
    """The provider of a target; None for one of this machine or of another host."""
    if not is_rented(target):
        return None
    provider, _, asked = target.partition(":")
    return RentedFrom(provider=_PROVIDERS.get(provider, provider), target=target, asked=asked, got=got)


@dataclass(frozen=True)
class _Open:
    """A run that is open: its key, and the machine as jobs name it."""

    key: str
    host: str
    device: str


class RentedReadings:
    """Follows the copies of all open runs below `root`; a machine whose run has ended is gone from the
    history, because it was given back."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._read: dict[str, tuple[_Open, int | None]] = {}

    def look(self, database: Database, history: History) -> None:
        """Take in what was copied since the last look."""
        with database.read() as session:
            runs = {each.key: each for each in _open_runs(session)}
        for key, (run, _) in list(self._read.items()):
            if key not in runs:
                del self._read[key]
                history.forget(device_key(run.host, run.device))
        for key, run in runs.items():
            _, cursor = self._read.get(key, (run, None))
            samples, cursor = read_samples_of_late(self._root / key, cursor)
            self._read[key] = (run, cursor)
            for sample in samples:
                history.add(sample)


def _open_runs(session: Session) -> list[_Open]:
    query = (
        select(RemoteRun.key, RemoteRun.target, RemoteRun.job_id)
        .join(Job, Job.id == RemoteRun.job_id)
        .where(RemoteRun.state == RemoteRunState.SUBMITTED, Job.state == JobState.RUNNING)
    )
    return [_Open(row.key, row.target, format_label(Noun.JOB, row.job_id)) for row in session.execute(query)]
