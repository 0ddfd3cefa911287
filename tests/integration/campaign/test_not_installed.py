"""What fails because nothing here makes it is not held against the lever where it can be made."""

from pathlib import Path

import pytest
from sqlalchemy import select

from agent.campaign.known.reading_facts import read_facts
from db.models import Finding
from experiments.engines.port import NOT_INSTALLED
from experiments.job.result import Failure
from experiments.measurement.judging import Outcome
from knowledge.findings.importing import export_verdicts
from knowledge.findings.verdict_fact import SAYING, Saying
from tests.integration.campaign.sealed import Dispatched, dispatched
from tests.simulated.by_hand import measure_baseline, run_by_hand
from tests.simulated.campaign import start

__all__ = ["dispatched"]  # the fixture


@pytest.mark.parametrize(("kind", "told_on"), [(NOT_INSTALLED, False), ("unsupported", True)])
def test_a_later_campaign_hears_of_it_where_it_is_of_the_configuration_alone(
    dispatched: Dispatched, tmp_path: Path, kind: str, told_on: bool
) -> None:
    run_by_hand(
        dispatched.database, dispatched.experiment_id, lambda _: (), Failure(kind, "It can't be.", {})
    )
    assert dispatched.learn() is Outcome.INFEASIBLE
    with dispatched.database.read() as session:
        (trial,) = read_facts(session, dispatched.campaign_id).trials
        found = session.scalars(select(Finding)).all()
    assert trial.outcome is Outcome.INFEASIBLE, "the campaign itself tries the lever no more"
    does_not_run = [each for each in found if each.scope.get(SAYING) == Saying.DOES_NOT_RUN]
    assert bool(does_not_run) is told_on
    with dispatched.database.read() as session:
        exported = export_verdicts(session, "here").verdicts
    assert bool(exported) is told_on
    _, later = start(tmp_path, dispatched.database)
    measure_baseline(dispatched.database, later)
    with dispatched.database.read() as session:
        facts = read_facts(session, later)
    assert bool(facts.carried) is told_on
    assert bool(facts.ruled_out) is told_on
