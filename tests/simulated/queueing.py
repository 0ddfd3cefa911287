"""Puts jobs of the simulated engine into a real database, as the campaign's loop does."""

from collections.abc import Callable

from sqlalchemy import insert

from db import queue
from db.content import put_configuration
from db.models import Campaign, Experiment
from db.session import Database
from db.states import ExperimentKind
from experiments.job.spec import BaselineJob, TestJob
from experiments.space.configuration import Configuration
from tests.new_database import database_url, new_database

__all__ = ["TARGET", "database_url", "enqueue_job", "new_database", "start_campaign"]

TARGET = "desk/cpu"


def start_campaign(database: Database) -> int:
    with database.write() as session:
        row = insert(Campaign).values(
            name="simulated",
            model="simulated",
            model_fingerprint="simulated-fingerprint",
            target=TARGET,
            objective={},
            limits={},
            budget={},
            seed=0,
            spec={},
        )
        return session.execute(row.returning(Campaign.id)).scalar_one()


def enqueue_job(
    database: Database,
    campaign_id: int,
    make_spec: Callable[..., BaselineJob | TestJob],
    *,
    max_attempts: int = queue.DEFAULT_MAX_ATTEMPTS,
    device_class: str = "cpu",
) -> tuple[int, int]:
    """Write the experiment and its job; returns the ids of both. `make_spec` takes the ids as keywords."""
    draft = make_spec(campaign_id=campaign_id, experiment_id=0)
    if isinstance(draft, BaselineJob):
        kind, control, candidate, plan = (
            ExperimentKind.BASELINE,
            draft.naive,
            None,
            draft.model_dump(mode="json"),
        )
    else:
        kind, control, candidate = ExperimentKind.TEST, draft.control, draft.candidate
        plan = draft.plan.model_dump(mode="json")
    with database.write() as session:
        points = [Configuration.of(knobs) for knobs in (control, candidate) if knobs is not None]
        ids = [put_configuration(session, point.digest, dict(point)) for point in points]
        row = insert(Experiment).values(
            campaign_id=campaign_id,
            kind=kind,
            target=TARGET,
            control_configuration_id=ids[0],
            candidate_configuration_id=ids[1] if len(ids) > 1 else None,
            plan=plan,
        )
        experiment_id = session.execute(row.returning(Experiment.id)).scalar_one()
        spec = make_spec(campaign_id=campaign_id, experiment_id=experiment_id)
        job_id = queue.enqueue(
            session,
            spec.kind,
            spec.model_dump(mode="json"),
            campaign_id=campaign_id,
            experiment_id=experiment_id,
            max_attempts=max_attempts,
            device_class=device_class,
        )
    return experiment_id, job_id
