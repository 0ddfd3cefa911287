"""A campaign that asks, with real processes and the simulated engine: answered first, and told when not."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import select

from agent.campaign.learning.outcome import campaign_outcome
from db import events
from db.event_kinds import EventKind
from db.models import Campaign, Experiment, Hypothesis
from db.session import Database
from db.states import CampaignState, ExperimentKind, HypothesisState
from knowledge.acts.steering import stop_campaign
from tests.simulated.campaign import drive, start

pytestmark = pytest.mark.timeout(600)


def question(name: str, candidate: dict[str, object], control: dict[str, object]) -> dict[str, object]:
    return {
        "id": name,
        "asks": "What makes it fast?",
        "claim": f"{name} makes a token at least 3 % faster.",
        "control": control,
        "candidate": candidate,
        "metric": "tpot_ms",
        "min_effect": "3%",
        "why": "It is simulated.",
    }


SLOW_BITS: dict[str, object] = {"simulated.bits": 1100.0, "simulated.threads": 1}
"""Never the baseline, whichever number of threads the sweep before it takes."""
QUESTIONS = [
    question("on_its_own_control", {**SLOW_BITS, "simulated.threads": 2}, SLOW_BITS),
    question("candidate_dies", {"simulated.fails": "load"}, {}),
    question("control_dies", {"simulated.tpot_ms": 9.9}, {"simulated.fails": "load"}),
    question("not_in_the_space", {"simulated.tpot_ms": 8.5}, {}),
    question("fast", {"simulated.tpot_ms": 7.0}, {}),
]
TESTED = ["on_its_own_control", "candidate_dies", "control_dies", "fast"]


def dispatched(database: Database) -> list[str]:
    """The questions (or proposers) of the tests, in the order in which they were dispatched."""
    with database.read() as session:
        return [
            hypothesis.question or hypothesis.proposer
            for hypothesis in session.scalars(
                select(Hypothesis)
                .join(Experiment, Experiment.hypothesis_id == Hypothesis.id)
                .where(Experiment.kind == ExperimentKind.TEST)
                .order_by(Experiment.id)
            )
        ]


def test_questions_are_tested_first_in_their_order_and_the_campaign_goes_on(tmp_path: Path) -> None:
    database, campaign_id = start(tmp_path, questions=QUESTIONS)

    def stop_when_it_goes_on() -> None:
        if len(dispatched(database)) > len(TESTED):
            with database.write() as session:
                if session.get_one(Campaign, campaign_id).state is CampaignState.RUNNING:
                    stop_campaign(session, campaign_id)

    reason = drive(database, tmp_path, campaign_id, stop_when_it_goes_on)
    order = dispatched(database)
    assert order[:4] == TESTED
    assert len(order) > len(TESTED)
    assert order[4] not in TESTED
    assert "left open" not in reason
    with database.read() as session:
        rows = {row.question: row for row in session.scalars(select(Hypothesis)) if row.question}
        assert rows["candidate_dies"].state is HypothesisState.INFEASIBLE
        assert rows["control_dies"].state is HypothesisState.INFEASIBLE
        assert "The control did not run" in (rows["control_dies"].state_reason or "")
        assert "no memory for the weights" in (rows["control_dies"].state_reason or "")
        assert rows["not_in_the_space"].state is HypothesisState.INFEASIBLE
        assert "simulated.tpot_ms cannot be 8.5" in (rows["not_in_the_space"].state_reason or "")
        assert rows["fast"].state is HypothesisState.SUPPORTED
        outcome = campaign_outcome(session, campaign_id)
        ranked = events.read(session, kinds=[EventKind.QUEUE_RANKED])[0]
    assert outcome["best"]["configuration"]["simulated.tpot_ms"] == 7.0
    assert outcome["open_questions"] == []
    assert (ranked.data or {})["order"][:4] == [rows[name].id for name in TESTED]
    database.close()


def test_a_budget_that_ends_first_says_which_questions_are_open(tmp_path: Path) -> None:
    database, campaign_id = start(tmp_path, questions=QUESTIONS, budget="1s")
    reason = drive(database, tmp_path, campaign_id)
    with database.read() as session:
        rows = {row.question: row for row in session.scalars(select(Hypothesis)) if row.question}
        left = campaign_outcome(session, campaign_id)["open_questions"]
    # what is not in the space is told infeasible without a test, so it may be settled before the budget ends
    settled = {name for name, row in rows.items() if row.state is HypothesisState.INFEASIBLE}
    assert settled <= {"not_in_the_space"}
    asked = [each["id"] for each in QUESTIONS if each["id"] not in settled]
    assert f"{len(asked)} questions of 5 left open: {', '.join(asked)}" in reason
    assert len(left) == len(asked)
    database.close()
