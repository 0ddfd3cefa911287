"""Drafts of which nothing is expected stay out of the queue, and the log says how many and why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.campaign.decision.desk import Desk
from agent.campaign.decision.unpromising import sift
from agent.campaign.queue.order import take_in
from agent.proposers.port import Draft, FromModel, Trial
from db import events
from db.event_kinds import EventKind
from db.models import Hypothesis
from experiments.measurement.evidence import Metric
from experiments.measurement.judging import Outcome
from experiments.measurement.plan import Prediction
from tests.history.campaign_history import History
from tests.unit.agent.test_desk import BASELINE, COMPILED, PRUNED, SPACE, desk, queued, trial
from tests.unit.knowledge.conftest import history

__all__ = ["history"]

THREADS = SPACE.with_change(BASELINE, {"serving.threads": 2})


def slower(times: int) -> tuple[Trial, ...]:
    """So many verdicts that two threads take half as long again."""
    return tuple(trial(9 + n, BASELINE, THREADS, Outcome.REFUTED, 0.5) for n in range(times))


HOPELESS = Draft(
    claim="Two threads are faster.",
    control=BASELINE,
    candidate=THREADS,
    lever="runtime",
    prediction=Prediction(log_ratio_mean=-0.1, log_ratio_sd=0.1),
    min_effect=0.03,
    refuted_if="TPOT does not fall by 3 %.",
    rationale="More of them.",
    proposer="optuna",
)
HOPEFUL = replace(
    HOPELESS, candidate=COMPILED, lever="compile", claim="Compiled is faster.", proposer="rules"
)


def known(times: int = 6) -> Desk:
    return desk(queued(1, PRUNED), trials=slower(times))


def test_what_is_slower_at_the_good_end_of_its_interval_is_left_out_and_the_rest_enters() -> None:
    sifted = sift(known(), [HOPELESS, HOPEFUL])
    assert list(sifted.kept) == [HOPEFUL]
    assert list(sifted.left_out) == [HOPELESS]
    assert sifted.most_saved < 0
    assert sifted.words.startswith("1 draft (1 by ")
    assert "it would cost " in sifted.words


def test_nothing_is_left_out_before_beliefs_are_trusted() -> None:
    few = known(3)
    assert few.facts.spec.least_verdicts > 3
    assert list(sift(few, [HOPELESS]).kept) == [HOPELESS]


def test_nothing_is_left_out_that_nothing_is_known_of() -> None:
    elsewhere = tuple(replace(each, candidate=PRUNED) for each in slower(6))
    assert list(sift(desk(queued(1, COMPILED), trials=elsewhere), [HOPEFUL]).kept) == [HOPEFUL]


@pytest.mark.parametrize(
    "wanted",
    [
        replace(HOPELESS, metric=Metric.STEP_WEIGHT_BYTES),
        replace(HOPELESS, pinned=True),
        replace(HOPELESS, from_model=FromModel(1, 1, ())),
    ],
)
def test_what_is_wanted_for_another_reason_enters(wanted: Draft) -> None:
    assert list(sift(known(), [wanted]).kept) == [wanted]


def test_where_the_queue_would_be_empty_all_enter_so_that_the_end_can_name_the_best_of_them() -> None:
    assert list(sift(desk(trials=slower(6)), [HOPELESS]).kept) == [HOPELESS]


def test_one_event_tells_how_many_drafts_stay_out(history: History) -> None:
    with history.database.write() as session:
        take_in(session, known(), [HOPELESS, HOPEFUL])
        told = events.read(session, kinds=[EventKind.DRAFTS_LEFT_OUT])
        refused = [each.text for each in events.read(session, kinds=[EventKind.HYPOTHESIS_REFUSED])]
        written = [row.claim for row in session.query(Hypothesis)]
    assert [each.data for each in told] == [{"drafts": ["Two threads are faster."]}]
    assert refused == []
    assert written == ["Compiled is faster."]
