"""What the jobs of a campaign are quoted by, whether it exists already or is only asked about."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.orm import Session

from agent.ground.checkpoint import Checkpoint
from agent.plan.ground import Ground
from agent.plan.job_time import job_seconds, workload_of
from agent.plan.load_and_request import Stored
from agent.plan.model import ModelFound, model_at
from agent.plan.stored_times import stored_times
from configs.campaign import CampaignSpec
from experiments.executors.port import Executor
from experiments.job.spec import AnyJob
from experiments.remote.quoting import Price, price_before_any, price_by_history
from experiments.space.configuration import Configuration
from experiments.space.space import Space


@dataclass(frozen=True)
class Footing:
    """The model with the fingerprint by which it is known (empty: none is), the name under which measurements
    of the target are kept, and how many launches may be up at once there, as `Ground` has it."""

    model: ModelFound
    fingerprint: str
    target_key: str
    at_once: int | None = None
    start: Configuration | None = None
    """What the campaign begins from; None: the engine's own default."""

    def begins_from(self, space: Space) -> Configuration:
        """The configuration that the campaign's sweep starts at."""
        return space.configuration({}) if self.start is None else self.start

    def price(self, session: Session | None, executor: Executor, job: AnyJob, target: str) -> Price:
        """The price of a job on a target by its executor, by what ran there and by its plan; without a
        session as if nothing had run. Submits nothing; raises what `quote` raises."""
        if session is None:
            return price_before_any(executor, job, job_seconds(job, target, self.model, Stored()))
        stored = stored_times(
            session, self.target_key, self.fingerprint or None, job.engine, workload_of(job)
        )
        planned_s = job_seconds(job, target, self.model, stored)
        return price_by_history(session, executor, job, target, lambda *_: planned_s)


def footing_on(spec: CampaignSpec, ground: Ground) -> Footing:
    """What the jobs of a campaign are quoted by on the ground that was found for it."""
    model = model_at(spec.model, Checkpoint(ground.checkpoint))
    start = None if ground.start is None else ground.start.configuration
    return Footing(model, ground.fingerprint, ground.target_key, ground.at_once, start)
