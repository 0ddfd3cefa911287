"""Jobs of a paid target as a worker leaves them: quoted two dollars, expected at half a dollar."""

from db import queue, remote_runs
from db.models import JobQuote
from db.session import Database
from experiments.worker.claiming import Taken, tell_claimed

TARGET = "files:T"
BASIS = "the tests' own price"
EXPECTED, BOUND = 500_000, 2_000_000
"""Millionths of a dollar."""

WHY = "It costs $2.00 at most, and above $1.00 you are asked."


def waits(database: Database, job_id: int, *, asks: bool = True) -> None:
    """Its quote, and that it waits for approval, unless it does not ask."""
    with database.write() as session:
        session.add(
            JobQuote(
                job_id=job_id,
                target=TARGET,
                expected_s=100,
                bound_s=400,
                expected_microusd=EXPECTED,
                bound_microusd=BOUND,
                basis=BASIS,
                waits_because=WHY if asks else None,
                needs_approval=asks,
            )
        )


def runs(database: Database, job_id: int, *, actual: int | None = None, ended: bool = True) -> None:
    """Its run; ended, it cost `actual` by the bill, or nobody told what."""
    with database.write() as session:
        claimed = queue.claim_one(session, job_id, "someone", f"{TARGET}/J-{job_id}", 60)
        assert claimed is not None
        key = f"job{job_id}"
        tell_claimed(session, Taken(claimed, key))
        run = remote_runs.intend(
            session,
            claimed,
            executor="files",
            target=TARGET,
            key=key,
            expected_s=100,
            expected=EXPECTED,
            bound=BOUND,
            basis=BASIS,
        )
        if ended:
            took_s = None if actual is None else 80.0
            remote_runs.settle(session, run.id, "done", took_s, actual, billed=actual is not None)
