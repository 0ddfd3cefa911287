"""A long campaign written in bulk: as many hypotheses, experiments and events as a year of nights leaves.

Deterministic: the same size and seed give the same rows. Everything goes through the tables of the models,
with the shapes that the loop and the worker write; only the campaign itself is made by the loop's own code.

    python -m tests.history.large_history FOLDER [--experiments 5000] [--events 200000]
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from sqlalchemy import func, insert, select, update
from sqlalchemy.orm import Session

from db.models import (
    Artifact,
    Base,
    Campaign,
    Configuration,
    Environment,
    Event,
    Experiment,
    ExperimentArtifact,
    Finding,
    FindingEvidence,
    Hypothesis,
    HypothesisParent,
    Job,
    Launch,
    Measurement,
    Move,
    StageRun,
    Verdict,
)
from db.session import Database
from experiments.engines.reference.shape import read_profile
from experiments.reference_model.load import checkpoint_fingerprint, reference_model_path
from tests.history import large_claims as claims
from tests.history import large_runs as runs
from tests.history.campaign_history import History
from tests.history.large_story import BEGAN, Row, Size, Story
from tests.new_database import new_database

ROWS_A_STATEMENT = 20_000

ENVIRONMENT: Row = {"digest": "e" * 64, "data": {"cpu": {"name": "Example CPU", "cores": 2}}}


def large_history(folder: Path, size: Size = Size(), seed: int = 7) -> Database:  # noqa: B008 - frozen
    """Write the history into a new database in the folder, and return it open."""
    History(folder).close()
    database = new_database(folder)
    with database.write() as session:
        campaign_id = session.scalars(select(Campaign.id)).one()
        first_event = 1 + (session.scalar(select(func.max(Event.id))) or 0)
        _write(session, Story(size, random.Random(seed), campaign_id, first_event))
    return database


def _write(session: Session, story: Story) -> None:
    """All tables, those that are referred to first."""
    points = claims.points(story)
    tables: tuple[tuple[type[Base], Iterable[Row]], ...] = (
        (Configuration, claims.configurations(points)),
        (Environment, [ENVIRONMENT]),
        (Hypothesis, claims.hypotheses(story, points)),
        (HypothesisParent, claims.edges(story)),
        (Experiment, runs.experiments(story)),
        (Launch, runs.launches(story)),
        (Measurement, runs.measurements(story)),
        (StageRun, runs.stages(story)),
        (Verdict, runs.verdicts(story)),
        (Finding, claims.findings(story)),
        (FindingEvidence, claims.evidence(story)),
        (Artifact, runs.artifacts(story)),
        (ExperimentArtifact, runs.artifact_uses(story)),
        (Job, runs.jobs(story)),
        (Event, runs.events(story)),
        (Move, claims.moves(story)),
    )
    for model, rows in tables:
        statement = insert(Base.metadata.tables[model.__tablename__])
        remaining = iter(rows)
        while some := list(islice(remaining, ROWS_A_STATEMENT)):
            session.connection().execute(statement, some)
    folder = reference_model_path()  # pages about the space read the model's profile
    campaign = session.get_one(Campaign, story.campaign_id)
    found = {"checkpoint": str(folder), "model_layers": list(read_profile(folder).layer_types)}
    session.execute(
        update(Campaign)
        .where(Campaign.id == story.campaign_id)
        .values(
            baseline_configuration_id=1,
            naive_configuration_id=1,
            best_experiment_id=story.best_experiment_id,
            started_at=BEGAN,
            spec={**campaign.spec, "found": {**campaign.spec["found"], **found}},
            model_fingerprint=checkpoint_fingerprint(folder),
        )
    )


def main() -> None:
    """Write one from the command line, and say how long it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--experiments", type=int, default=Size.experiments)
    parser.add_argument("--events", type=int, default=Size.events)
    given = parser.parse_args()
    begun = time.monotonic()
    large_history(given.folder, Size(given.experiments, given.events)).close()
    print(f"{given.experiments} experiments and {given.events} events in {time.monotonic() - begun:.1f} s")


if __name__ == "__main__":
    main()
