"""A campaign that is steered by caps, a minimum share and a question of the night, with real processes."""

from pathlib import Path

import pytest
from sqlalchemy import select

from db import events
from db.event_kinds import EventKind
from db.models import Experiment, Hypothesis
from db.session import Database
from db.states import DirectiveKind, ExperimentKind, HypothesisState
from knowledge.acts import lever_steering, night
from knowledge.acts.allowances import parse_least, parse_most
from knowledge.queries.order.night import Answer, question_now
from tests.simulated.campaign import drive, start

pytestmark = pytest.mark.timeout(600)

SPACE = """
name: steered
knobs:
  - {name: simulated.tpot_ms, lever: kernel, values: [10.0, 9.9, 7.0], default: 10.0, help: The answer.}
  - {name: simulated.bits, lever: weights, values: [1000.0, 1100.0], default: 1000.0, help: The quality.}
"""
LEVERS = ("kernel", "weights")


def in_order(database: Database) -> list[tuple[int, str]]:
    with database.read() as session:
        query = (
            select(Hypothesis.id, Hypothesis.lever)
            .join(Experiment, Experiment.hypothesis_id == Hypothesis.id)
            .where(Experiment.kind == ExperimentKind.TEST)
        )
        return [(number, lever) for number, lever in session.execute(query.order_by(Experiment.id))]


def test_a_steered_campaign_settles_its_question_first_and_keeps_its_cap(tmp_path: Path) -> None:
    """What would be tested last by its score, a loss of quality, is asked first; the kernel has one test."""
    database, campaign_id = start(tmp_path, space_text=SPACE, **{"baseline.sweep": ["simulated.bits"]})
    with database.write() as session:
        for kind, lever, amount in (
            (DirectiveKind.CAP, "kernel", parse_most("1")),
            (DirectiveKind.RESERVE, "weights", parse_least("50%")),
        ):
            lever_steering.give_directive(session, campaign_id, kind, lever, LEVERS, amount)
    asked: list[int] = []

    def ask_once() -> None:
        with database.write() as session:
            weights = select(Hypothesis.id).where(
                Hypothesis.lever == "weights", Hypothesis.state == HypothesisState.QUEUED
            )
            number = session.scalars(weights.order_by(Hypothesis.id.desc())).first()
            if not asked and number is not None:
                night.ask(session, number)
                asked.append(number)

    drive(database, tmp_path, campaign_id, ask_once)
    order = in_order(database)
    assert asked
    assert asked[0] in [number for number, _ in order[:2]]  # one may have been under way when it was asked
    assert sum("kernel" in lever for _, lever in order) <= 1
    with database.read() as session:
        told = events.read(session, kinds=[EventKind.QUESTION_SETTLED])
        question = question_now(session, campaign_id)
        reasons = session.scalars(select(Hypothesis.rank_reason)).all()  # of what was withdrawn too
    assert question is not None
    assert question.answer is Answer.SETTLED
    assert [each.text.endswith(question.sentence) for each in told] == [True]
    assert any("held back by the cap of 1 test on kernel by you" in (reason or "") for reason in reasons)
    database.close()
