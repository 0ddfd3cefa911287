"""A test that is to run again where Python or the engine's packages differ: told before anything begins."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from sqlalchemy import func, select, update

from agent.campaign.learning.learn import learn_test
from agent.campaign.rerun.reproduce import Reproduction, reproduce
from agent.campaign.rerun.verify import Limits, Runner, verify
from agent.ground.target import find_target
from db.models import Campaign, Environment, Experiment
from db.session import Database
from db.states import ExperimentKind
from experiments.corpora.standard_library import fingerprint, held_out_modules
from knowledge.queries.found.verification import Standing, VerifiedRow
from tests.integration.campaign.campaigned import Campaigned, campaign, interrupt, pairs
from tests.integration.campaign.sealed import dispatch, propose
from tests.integration.cli.command import Autoinfer
from tests.simulated.by_hand import measure_baseline, run_by_hand
from tests.simulated.campaign import registered_here, start

__all__ = ["campaign"]

ORIGINAL = 2
"""The experiment after the baseline's."""

OF_THEN = "3.9.1"
"""A Python that this package does not run in."""

OTHER_TEXTS = (
    f"its prompts and documents are cut from the standard library of Python {OF_THEN}, and that of Python "
    f"{platform.python_version()} here has other texts: install autoinfer in the Python of then, or leave it "
    "to a worker that has it."
)


def measured_with(database: Database, texts: str) -> None:
    """All of it was measured with these texts, by another Python."""
    with database.write() as session:
        machine = {"machine": {"texts": texts, "python": OF_THEN}}
        session.execute(update(Environment).values(data=machine))


def with_weights(campaign: Campaigned) -> None:
    """The campaign reads texts, as it does not where weights are made up."""
    with campaign.database.write() as session:
        row = session.get_one(Campaign, campaign.campaign_id)
        row.spec = {**row.spec, "weights": "checkpoint"}


def ran_with(database: Database, torch: str, kind: ExperimentKind = ExperimentKind.TEST) -> None:
    """The experiments of this kind ran with this torch."""
    with database.write() as session:
        session.execute(
            update(Experiment).where(Experiment.kind == kind).values(versions={"torch": torch, "none": "1"})
        )


@pytest.fixture
def judged(tmp_path: Path) -> Iterator[Database]:
    """A campaign of this machine with one judged test, in the command's data folder."""
    folder = tmp_path / "data"
    folder.mkdir()
    database, campaign_id = start(folder)
    measure_baseline(database, campaign_id)
    assert dispatch(database, campaign_id, propose(database, campaign_id, 7.0)) == ORIGINAL
    run_by_hand(database, ORIGINAL, pairs(7.0))
    ran_with(database, "1.0")
    with database.write() as session:
        learn_test(session, ORIGINAL)
        session.get_one(Experiment, ORIGINAL).target = find_target("cpu").key
    yield database
    database.close()


def test_texts_of_another_python_refuse_a_reproduction_before_a_job_is_written(
    judged: Database, tmp_path: Path
) -> None:
    measured_with(judged, "those of another Python")
    ended = Autoinfer(tmp_path / "data")("reproduce E-2")
    assert ended.code == 1
    assert f"E-0002 can't run again here: {OTHER_TEXTS}" in " ".join(ended.err.split())
    assert "--no-worker" in ended.err
    with judged.read() as session:
        assert session.scalar(select(func.max(Experiment.id))) == ORIGINAL


def test_texts_of_another_python_leave_a_verification_to_another_machine(campaign: Campaigned) -> None:
    measured_with(campaign.database, "those of another Python")
    assert campaign.verify().all_agree, "random prompts are the same in any Python"
    with_weights(campaign)
    campaign.runs.clear()
    found = campaign.verify(limits=Limits(afresh=True))
    assert {(row.standing, f"{row.why}.") for row in found.verdicts} == {(Standing.NOT_HERE, OTHER_TEXTS)}
    assert campaign.runs == []


def test_texts_of_this_python_and_workers_elsewhere_are_no_hindrance(campaign: Campaigned) -> None:
    with_weights(campaign)
    measured_with(campaign.database, "those of another Python")
    elsewhere = Runner(campaign.run(), here=False)
    assert verify(campaign.database, campaign.campaign_id, elsewhere, Limits()).all_agree
    measured_with(campaign.database, fingerprint(held_out_modules()))
    assert campaign.verify(limits=Limits(afresh=True)).all_agree


def test_other_versions_of_its_packages_are_told_before_a_verdict_runs_again(
    campaign: Campaigned, tmp_path: Path
) -> None:
    ran_with(campaign.database, "1.0")
    told: list[VerifiedRow] = []
    with registered_here(tmp_path), pytest.raises(KeyboardInterrupt):
        verify(
            campaign.database,
            campaign.campaign_id,
            Runner(interrupt),
            Limits(),
            lambda row, *numbers: told.append(row),
        )
    differ = (
        f"on cpu; it ran with torch 1.0 and runs again with torch {version('torch')}, so a difference "
        "between the two may come from that; only where those of then are installed does none"
    )
    assert [row.why for row in told] == [differ]


def test_what_ran_with_other_versions_says_so_beside_what_it_says(judged: Database) -> None:
    def run() -> None:
        with judged.read() as session:
            newest = session.scalars(select(func.max(Experiment.id))).one()
        run_by_hand(judged, newest, pairs(7.0))
        ran_with(judged, "2.0", ExperimentKind.REPRODUCE)

    told = reproduce(judged, ORIGINAL, run)
    assert isinstance(told, Reproduction)
    assert told.reason.endswith(
        "; its versions are others, which a difference may come from (torch 1.0 → 2.0)"
    )
