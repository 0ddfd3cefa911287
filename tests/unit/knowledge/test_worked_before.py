"""Whether another campaign shows that everything works where one runs, read from the database."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.campaign.known.reading_facts import read_facts
from db.models import Campaign
from db.states import VerdictOutcome
from knowledge.findings.importing import export_verdicts, import_verdicts
from tests.history.campaign_history import History
from tests.unit.knowledge.test_carried import later

SUPPORTED, REFUTED = VerdictOutcome.SUPPORTED, VerdictOutcome.REFUTED
INFEASIBLE, CONFOUNDED = VerdictOutcome.INFEASIBLE, VerdictOutcome.CONFOUNDED


def shown(history: History, campaign_id: int) -> bool:
    with history.database.read() as session:
        return read_facts(session, campaign_id).worked_before


def test_a_settled_test_of_another_campaign_shows_that_everything_works_here(history: History) -> None:
    campaign_id = later(history)
    assert not shown(history, campaign_id)
    history.judge(history.propose({"serving.threads": 1}), REFUTED)
    assert shown(history, campaign_id)
    assert shown(history, later(history, "e" * 64, concurrency=16)), "whatever the model"
    assert not shown(history, 1), "its own trials are known as such"
    assert not shown(history, later(history, target="gpu:NVIDIA L4:24 GB"))
    with history.database.write() as session:
        first = session.get_one(Campaign, 1)
        first.spec = {**first.spec, "engine": "vllm"}
    assert not shown(history, campaign_id)


def test_what_ran_on_another_target_of_the_other_campaign_shows_nothing(history: History) -> None:
    history.judge(history.propose({"serving.threads": 1}), SUPPORTED, target="gpu:NVIDIA L4:24 GB")
    assert not shown(history, later(history))


@pytest.mark.parametrize(
    ("outcome", "effect", "failure"),
    [
        (INFEASIBLE, None, ("build_failed", "no C++ compiler was found")),
        (VerdictOutcome.INCONCLUSIVE, None, ("crashed", "It died.")),
        (REFUTED, None, None),
        (CONFOUNDED, (-0.1, -0.2, -0.05), None),
    ],
)
def test_what_did_not_run_or_settled_nothing_shows_nothing(
    history: History,
    outcome: VerdictOutcome,
    effect: tuple[float, float, float] | None,
    failure: tuple[str, str] | None,
) -> None:
    history.judge(history.propose({"serving.threads": 1}), outcome, effect=effect, failure=failure)
    assert not shown(history, later(history))


def test_a_reproduction_alone_shows_nothing(history: History) -> None:
    hypothesis = history.propose({"serving.threads": 1})
    broke = history.judge(hypothesis, INFEASIBLE, effect=None, failure=("crashed", "It died."))
    history.judge(hypothesis, SUPPORTED, reproduces=broke.experiment_id)
    assert not shown(history, later(history))


def test_what_was_imported_was_not_measured_here(history: History, tmp_path: Path) -> None:
    elsewhere = History(tmp_path / "elsewhere")
    elsewhere.judge(elsewhere.propose({"serving.threads": 1}), SUPPORTED)
    with elsewhere.database.read() as session:
        file = export_verdicts(session, "lab")
    elsewhere.close()
    with history.database.write() as session:
        assert import_verdicts(session, file).new == 1
    assert not shown(history, later(history))
