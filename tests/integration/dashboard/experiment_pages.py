"""What tests of an experiment's page share: a stage that an experiment went through, and a client that asks.

A module of such tests has a `history` of its own and imports `client`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from configs.settings import Settings
from dashboard.app import create_app
from db.models import StageRun
from db.states import StageOutcome, VerdictOutcome
from experiments.space.configuration import KnobValue
from tests.history.campaign_history import History


@pytest.fixture(scope="module")
def client(history: History) -> Iterator[TestClient]:
    """Asks a dashboard of the module's history."""
    app = create_app(Settings(data_dir=Path("/nowhere")), history.database)
    with TestClient(app, base_url="http://127.0.0.1") as found:
        yield found


def judge_with_stage(
    history: History, change: Mapping[str, KnobValue], stage: str, wall_s: float, detail: Mapping[str, object]
) -> None:
    """Judge an experiment of that change which went through a stage, too, that told such a detail."""
    judged = history.judge(history.propose(dict(change)), VerdictOutcome.INCONCLUSIVE)
    with history.database.write() as session:
        session.add(
            StageRun(
                experiment_id=judged.experiment_id,
                attempt=1,
                stage=stage,
                wall_s=wall_s,
                outcome=StageOutcome.DONE,
                detail=dict(detail),
            )
        )
