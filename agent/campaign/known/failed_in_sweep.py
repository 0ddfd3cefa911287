"""What the sweep before trial 0 could not run: it tells of what runs, as tests do; reads only."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.campaign.known.settling import settled
from agent.surrogate.feasibility import Tried
from db.models import Experiment, StageRun
from db.states import ExperimentKind, StageOutcome
from experiments.job.baseline import FAILED, NAIVE_FAILED
from experiments.job.blame import blames_of
from experiments.measurement.evidence import Stage
from experiments.space.configuration import Configuration


def failed_in_sweep(
    session: Session, campaign_id: int, space: str, naive: Configuration | None
) -> tuple[Tried, ...]:
    """The configurations that the campaign's baseline experiments could not run, each once, as the static
    check or the sweep told it; of a sweep from before it told them, the engine's own default alone."""
    rows = session.execute(
        select(StageRun.stage, StageRun.detail)
        .join(Experiment, Experiment.id == StageRun.experiment_id)
        .where(
            Experiment.campaign_id == campaign_id,
            Experiment.kind == ExperimentKind.BASELINE,
            # of one that was cut off, what failed may have been ended with it
            StageRun.outcome == StageOutcome.DONE,
            StageRun.stage.in_((Stage.STATIC.value, Stage.SWEEP.value)),
        )
        .order_by(StageRun.id)
    )
    found: dict[Configuration, Tried] = {}
    for stage, stored in rows:
        detail = stored or {}
        told = detail.get(FAILED)
        for each in told if isinstance(told, list) else ():
            if not isinstance(each, Mapping) or each.get("kind") == "timed_out":
                continue
            if isinstance(knobs := each.get("configuration"), Mapping):
                configuration = settled(Configuration.of(knobs), space)
                found[configuration] = Tried(configuration, ran=False, blames=blames_of(each))
        if told is None and stage == Stage.SWEEP and NAIVE_FAILED in detail and naive is not None:
            found[naive] = Tried(naive, ran=False)
    return tuple(found.values())
