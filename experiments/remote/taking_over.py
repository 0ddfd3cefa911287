"""Runs that nobody looks after are taken over: their worker's lease ran out, or its process is gone."""

from __future__ import annotations

from dataclasses import replace

import psutil

from db import events, remote_runs, workers
from db.campaign_owner import place_mark
from db.event_kinds import EventKind
from db.remote_runs import Run
from db.session import Database
from experiments.worker.claiming import Taken
from experiments.worker.reaping import reap
from experiments.worker.settings import WorkerName


def take_over(
    database: Database, name: WorkerName, executor: str, lease_s: float, campaign_id: int | None
) -> list[tuple[Taken, Run]]:
    """Take what is left of the runs of `executor` on the device of `name`, under its lease: all, or those of
    a campaign. What was claimed and never intended goes back into the queue."""
    with database.read() as session:
        owners = remote_runs.owners(session, executor, name.device)
        gone = [each for each, _, pid in owners if _can_tell(name, each, pid) and _is_gone(pid)]
        found = remote_runs.abandoned(session, executor, name.device, gone, campaign_id)
    with database.write() as session:
        reap(session)
        for each in workers.give_up_named(session, gone):
            events.append(session, EventKind.WORKER_LOST, f"{each} stopped answering.", each)
        if not found:
            return []
        taken = remote_runs.take_over(session, found, name.owner, lease_s, gone)
        if taken:
            label = f"{name.owner} took over {len(taken)} {'run' if len(taken) == 1 else 'runs'}."
            events.append(session, EventKind.JOB_TAKEN_OVER, label, name.owner)
    return [(Taken(claimed, run.key), run) for claimed, run in taken]


def _can_tell(name: WorkerName, other: str, pid: int) -> bool:
    """Whether the process of the worker `other` would be seen here: of another container it is not."""
    return other.startswith(replace(name, pid=pid, mark=place_mark()).owner)


def _is_gone(pid: int) -> bool:
    """Whether there is no such process here any more; one that waits to be reaped does nothing either."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
