"""What pages decide on: read anew after an event, without what needs no doing again."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import pytest
from sqlalchemy import select

from agent.asking.assumed import EACH
from agent.campaign.decision import learnt_from
from agent.campaign.decision.desk import Desk
from agent.campaign.known.facts import Queued
from agent.surrogate.beliefs import Beliefs
from dashboard.grounds import consequences, ground_of
from db import events
from db.event_kinds import EventKind
from db.models import Verdict
from db.session import Database
from db.states import VerdictOutcome
from tests.history.large_history import large_history
from tests.history.large_story import Size

SIZE = Size(experiments=400, events=200)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    learnt_from._kept.clear()  # the same history may have been learnt by another test
    found = large_history(tmp_path, SIZE)
    yield found
    found.close()


PYTHON_S_OWN = (700, 10, 10)
"""When Python looks for garbage where nothing tells it otherwise: `gc.get_threshold`."""

MOST_LOOKS = 10
"""Times that Python looks for garbage between what is worked out without; of this history 40 otherwise."""


def test_while_a_ground_is_read_and_learnt_from_garbage_is_hardly_looked_for(database: Database) -> None:
    looks: list[int] = []

    def note(phase: str, told: dict[str, int]) -> None:
        if phase == "start":
            looks.append(told["generation"])

    of_tests = gc.get_threshold()
    gc.set_threshold(*PYTHON_S_OWN)
    gc.callbacks.append(note)
    try:
        with database.read() as session:
            desk = ground_of(session, 1).desk
            assert desk is not None
            assert consequences(session, 1, desk.ranking.order[0], EACH)
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*of_tests)
    assert len(looks) <= MOST_LOOKS


def test_what_is_no_outcome_teaches_nothing_anew(database: Database) -> None:
    before = desk_of(database)
    tell(database, EventKind.HYPOTHESIS_PROPOSED)
    after = desk_of(database)
    assert after is not before
    assert after.beliefs is before.beliefs


def test_another_outcome_teaches_anew_what_all_outcomes_teach(database: Database) -> None:
    before = desk_of(database)
    believed = before.beliefs.about(
        [(before.incumbent.configuration, each.candidate) for each in ahead(before)]
    )
    with database.write() as session:
        verdict = session.scalars(select(Verdict).where(Verdict.outcome == VerdictOutcome.REFUTED)).first()
        assert verdict is not None
        verdict.effect_log = 0.4
    tell(database, EventKind.EXPERIMENT_JUDGED)
    after = desk_of(database)
    assert after.facts.trials != before.facts.trials
    pairs = [(after.incumbent.configuration, each.candidate) for each in ahead(after)]
    assert after.beliefs.about(pairs) != believed
    learnt = after.learnt_from
    anew = Beliefs.learn(
        learnt.space,
        learnt.physics,
        after.facts.trials,
        learnt.margins,
        priors=learnt.priors,
        judges_quality=learnt.judges_quality,
        carried=after.facts.carried,
        swept=learnt.swept,
    )
    assert anew.about(pairs) == after.beliefs.about(pairs)


def test_what_two_threads_learn_at_once_of_the_same_is_the_same(database: Database) -> None:
    learnt_from = desk_of(database).learnt_from
    both = Barrier(2)

    def learn() -> Beliefs:
        both.wait()
        return replace(learnt_from, trials=learnt_from.trials[1:]).beliefs()

    with ThreadPoolExecutor(2) as threads:
        one, other = (each.result() for each in [threads.submit(learn), threads.submit(learn)])
    pairs = [(learnt_from.physics.baseline, each.candidate) for each in learnt_from.trials[:5]]
    assert one.about(pairs) == other.about(pairs)
    again = replace(learnt_from, trials=learnt_from.trials[1:]).beliefs()
    assert again is one or again is other


def desk_of(database: Database) -> Desk:
    """What the campaign decides by now."""
    with database.read() as session:
        desk = ground_of(session, 1).desk
    assert desk is not None
    return desk


def ahead(desk: Desk) -> Sequence[Queued]:
    """The first in the queue."""
    return desk.facts.queue[:20]


def tell(database: Database, kind: EventKind) -> None:
    """Append an event after which the order may be another one."""
    with database.write() as session:
        events.append(session, kind, "a cause to rank", campaign_id=1)
