"""Verifying what another target supported, and targets that can't reproduce."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest
from sqlalchemy import func, select, update

from agent.campaign.rerun.verify import Limits, Runner, verify
from cli.main import call
from configs.errors import UsageError
from db.labels import Noun, parse_label_of
from db.models import Experiment, Finding, Job, Verdict
from db.session import Database
from db.states import ExperimentKind, VerdictOutcome
from experiments.recording import load_test_spec
from knowledge.queries.found.verification import ANSWERED, Standing
from tests.integration.campaign.campaigned import HERE, RENTED, Campaigned, campaign, interrupt
from tests.integration.campaign.test_promoting import (
    FRESH,
    KEY,
    ORIGINAL,
    THERE,
    Judged,
    measured,
    run,
)
from tests.new_database import database_url
from tests.simulated.campaign import made_up_target, registered_here

__all__ = ["campaign"]


@pytest.fixture
def promoted(tmp_path: Path) -> Iterator[Judged]:
    """A supported test of the processor that a second device, which nobody has, supports too: E-0003."""
    judged = measured(tmp_path)
    assert judged.promote() == FRESH
    run(judged.database, judged.folder, THERE)
    judged.conclude()
    yield judged
    judged.database.close()


@contextmanager
def devices_that_are_there(folder: Path) -> Iterator[None]:
    with (
        registered_here(folder),
        patch("agent.campaign.rerun.elsewhere.find_target", made_up_target),
        patch("agent.campaign.rerun.reproduce.find_target", made_up_target),
    ):
        yield


def test_what_another_target_confirmed_is_reproduced_on_that_target(promoted: Judged) -> None:
    ran_on: list[str] = []

    def wait(device: str) -> None:
        ran_on.append(device)
        run(promoted.database, promoted.folder, device)

    with devices_that_are_there(promoted.folder):
        found = verify(promoted.database, promoted.campaign_id, Runner(wait), HERE)
    assert [row.standing for row in found.verdicts] == [Standing.AGREES] * 2, found.verdicts
    assert found.all_agree
    assert sorted(ran_on) == ["cpu", THERE]
    fresh = {row.experiment: row.fresh.experiment for row in found.verdicts if row.fresh}
    with promoted.database.read() as session:
        again = session.get_one(Experiment, parse_label_of(Noun.EXPERIMENT, fresh["E-0003"]))
        assert (again.kind, again.target) == (ExperimentKind.REPRODUCE, KEY)
        assert again.reproduces_experiment_id == FRESH
        assert load_test_spec(session, again.id).target == KEY
        told = {each.scope["target"]: each.strength for each in session.scalars(select(Finding))}
    assert set(told.values()) == {"reproduced"}
    assert KEY in told


def test_a_target_that_is_not_here_is_told_apart_from_a_verdict_that_differs(promoted: Judged) -> None:
    runner = Runner(lambda device: run(promoted.database, promoted.folder, device))
    found = verify(promoted.database, promoted.campaign_id, runner, HERE)
    assert {row.experiment: row.standing for row in found.verdicts} == {
        "E-0002": Standing.AGREES,
        "E-0003": Standing.NOT_HERE,
    }
    assert (found.all_here_agree, found.all_agree, found.whole) == (True, False, False)
    assert found.sentence == (
        "Of 2 supported verdicts 1 agreed in a fresh run and 1 could not be reproduced here"
    )
    (left,) = [row.why for row in found.verdicts if row.standing is Standing.NOT_HERE]
    assert left
    assert not left.endswith(".")
    with devices_that_are_there(promoted.folder):
        assert verify(promoted.database, promoted.campaign_id, runner, HERE).all_agree


def test_a_rented_target_of_a_promotion_without_a_budget_keeps_nothing_else_from_being_verified(
    promoted: Judged,
) -> None:
    with promoted.database.write() as session:
        session.get_one(Experiment, FRESH).target = RENTED
        session.execute(update(Job).where(Job.experiment_id == FRESH).values(device_class=RENTED))
    asked: list[str] = []

    def wait(device: str) -> None:
        asked.append(device)
        run(promoted.database, promoted.folder, device)

    found = verify(promoted.database, promoted.campaign_id, Runner(wait), HERE)
    why = {row.experiment: row.why for row in found.verdicts}["E-0003"]
    standings = {row.experiment: row.standing for row in found.verdicts}
    assert standings["E-0003"] is Standing.NOT_HERE
    assert standings["E-0002"] in ANSWERED, "a fresh run was made, whatever its times said"
    assert why.startswith(f"No budget in dollars covers {RENTED}")
    assert "autoinfer verify C-1 --budget-usd" in why
    unreachable = Runner(wait, unreachable=lambda device: "The provider knows no such account.")
    found = verify(promoted.database, promoted.campaign_id, unreachable, Limits(more_usd=5.0))
    why = {row.experiment: row.why for row in found.verdicts}["E-0003"]
    assert why == "The provider knows no such account"
    assert set(asked) == {"cpu"}


def test_the_command_tells_what_can_not_be_reproduced_here_from_what_differs_by_its_exit_code(
    promoted: Judged, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a worker in this process in place of one of its own."""

    def by_a_worker_here(database: Database, *_: object) -> None:
        run(database, promoted.folder, "cpu")

    monkeypatch.setattr("agent.campaign.rerun.reproduce.until_ended", by_a_worker_here)
    line = ["--db", database_url(promoted.folder), "verify", "C-1", "--no-worker"]
    assert call(line) == 3
    told = " ".join(capsys.readouterr().out.split())
    assert "E-0003 was not checked: " in told
    assert call([*line, "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["all_here_agree"] is True
    with promoted.database.write() as session:
        fresh = session.scalars(select(Experiment.id).where(Experiment.reproduces_experiment_id == ORIGINAL))
        session.execute(
            update(Verdict)
            .where(Verdict.experiment_id.in_(set(fresh) - {FRESH}))
            .values(outcome=VerdictOutcome.REFUTED)
        )
    assert call(line) == 1


@pytest.mark.parametrize(
    ("target", "why"), [("modal:H100!", "confirmed and not reproduced"), ("cuda:0,cuda:1", "one device")]
)
def test_a_target_that_can_t_reproduce_is_refused_before_anything_is_written(
    campaign: Campaigned, target: str, why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        campaign.verify(interrupt, Limits(target=target))
    assert campaign.told() == []
    with campaign.database.read() as session:
        assert session.scalars(select(func.max(Experiment.id))).one() == 3
