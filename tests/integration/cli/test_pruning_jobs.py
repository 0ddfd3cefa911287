"""Deleting the folders of ended jobs leaves a line in the log."""

from datetime import UTC, datetime, timedelta

from sqlalchemy import select, update

from db import queue
from db.event_kinds import EventKind
from db.models import Event, Job
from db.states import JobState
from experiments.worker.claiming import run_key
from tests.integration.cli.command import Autoinfer
from tests.simulated.queueing import new_database


def test_what_went_is_told_and_a_dry_run_tells_nothing(autoinfer: Autoinfer) -> None:
    autoinfer.data_dir.mkdir(parents=True, exist_ok=True)
    database = new_database(autoinfer.data_dir)
    with database.write() as session:
        job_id = queue.enqueue(session, "test", {})
        claimed = queue.claim(session, "worker", "desk/1", ("cpu",), 30)
        assert claimed is not None
        queue.finish(session, claimed, JobState.DONE)
        session.execute(update(Job).values(finished_at=datetime.now(UTC) - timedelta(days=3)))
    with database.read() as session:
        created_at = session.scalars(select(Job.created_at)).one()
    folder = autoinfer.data_dir / "jobs" / run_key(database, job_id, created_at, 1)
    folder.mkdir(parents=True)
    (folder / "log").write_bytes(b"ten bytes.")

    def told() -> list[Event]:
        with database.read() as session:
            return list(session.scalars(select(Event).where(Event.kind == EventKind.JOB_PRUNED)))

    autoinfer("artifacts prune --unused-for 1d --jobs --dry-run")
    assert folder.exists()
    assert told() == []
    assert autoinfer("artifacts prune --unused-for 1d --jobs --json").json()["jobs"] == [folder.name]
    [event] = told()
    assert event.text == "1 folder of ended jobs deleted, 10 B set free."
    assert event.data == {"jobs": [folder.name], "freed_bytes": 10}
    autoinfer("artifacts prune --unused-for 1d --jobs")
    assert len(told()) == 1
    database.close()
