"""The list of experiments as the database filters, searches and sorts it, and the spreads that it ranks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from db.models import Experiment, Launch, Measurement
from db.states import ExperimentKind, ExperimentState, VerdictOutcome
from knowledge.queries.measured.experiment_detail import experiment_detail
from knowledge.queries.measured.experiments import (
    ExperimentsAsked,
    ExperimentSort,
    count_experiments,
    experiment_rows,
    find_experiments,
    latest_experiment,
)
from knowledge.queries.measured.samples import launch_spreads, stored_samples, values_by_arm
from knowledge.queries.measured.spread import spread
from tests.history.campaign_history import History, a_full_history


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    found = a_full_history(Path(tmp_path_factory.mktemp("experiments")))
    yield found
    found.close()


def ids(history: History, asked: ExperimentsAsked, limit: int = 50, offset: int = 0) -> list[str]:
    with history.database.read() as session:
        page = find_experiments(session, asked, limit=limit, offset=offset)
    assert page.total >= len(page.items)
    return [row.id for row in page.items]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (ExperimentsAsked(), ["E-0005", "E-0004", "E-0003", "E-0002", "E-0001"]),
        (ExperimentsAsked(descending=False), ["E-0001", "E-0002", "E-0003", "E-0004", "E-0005"]),
        (ExperimentsAsked(states=[ExperimentState.RUNNING]), ["E-0005"]),
        (ExperimentsAsked(kinds=[ExperimentKind.BASELINE]), []),
        (
            ExperimentsAsked(outcomes=[VerdictOutcome.REFUTED, VerdictOutcome.INFEASIBLE]),
            ["E-0003", "E-0002"],
        ),
        (ExperimentsAsked(text="C++"), ["E-0003"]),
        (ExperimentsAsked(text="slower INSTEAD"), ["E-0002"]),
        (ExperimentsAsked(text="%"), ["E-0004", "E-0002"]),
        (ExperimentsAsked(text="H-1"), ["E-0001"]),
        (ExperimentsAsked(text="e-0004"), ["E-0004"]),
        (ExperimentsAsked(text="F-1"), []),
        (
            ExperimentsAsked(sort=ExperimentSort.EFFECT, descending=False),
            ["E-0001", "E-0004", "E-0002", "E-0003", "E-0005"],
        ),
        (
            ExperimentsAsked(sort=ExperimentSort.EFFECT),
            ["E-0002", "E-0004", "E-0001", "E-0005", "E-0003"],
        ),
        (ExperimentsAsked(sort=ExperimentSort.TOOK), ["E-0004", "E-0003", "E-0002", "E-0001", "E-0005"]),
        (ExperimentsAsked(lever="threads"), ["E-0004", "E-0001"]),
        (ExperimentsAsked(lever="thread"), []),
    ],
)
def test_experiments_are_filtered_searched_and_sorted(
    history: History, asked: ExperimentsAsked, found: list[str]
) -> None:
    assert ids(history, asked) == found


def test_pages_of_a_sorted_list_have_no_gap_and_no_overlap(history: History) -> None:
    asked = ExperimentsAsked(sort=ExperimentSort.TOOK)
    assert [each for offset in (0, 2, 4) for each in ids(history, asked, 2, offset)] == ids(history, asked)


def test_counts_and_levers_are_of_all(history: History) -> None:
    with history.database.read() as session:
        counts = count_experiments(session)
        assert latest_experiment(session) == 5
    assert counts.total == 5
    assert counts.states == {ExperimentState.DONE: 4, ExperimentState.RUNNING: 1}
    assert sum(counts.outcomes.values()) == 4
    assert {"threads", "compile", "pruning"} <= set(counts.levers)


def test_rows_come_in_the_order_asked_for_without_those_that_are_not_there(history: History) -> None:
    with history.database.read() as session:
        rows = experiment_rows(session, [4, 99, 1])
    assert [row.id for row in rows] == ["E-0004", "E-0001"]
    assert rows[1].predicted is not None
    assert rows[1].lever == "threads"


def test_spreads_that_the_database_ranks_are_those_of_the_samples(history: History) -> None:
    with history.database.read() as session:
        found = launch_spreads(session, 1)
        launches = session.scalars(select(Launch.id).where(Launch.experiment_id == 1)).all()
        for launch in launches:
            query = select(Measurement.value).where(
                Measurement.launch_id == launch, Measurement.metric == "tpot_ms"
            )
            told = spread("tpot_ms", "ms", session.scalars(query).all())
            assert [each.metric for each in found[launch]] == ["tpot_ms"]
            assert found[launch][0].model_dump() == pytest.approx(told.model_dump())


def test_gaps_between_tokens_are_told_where_they_are_what_is_judged(tmp_path: Path) -> None:
    made = a_full_history(tmp_path)
    with made.database.write() as session:
        experiment = session.get_one(Experiment, 1)
        experiment.plan = {**experiment.plan, "metric": "itl_ms"}
    with made.database.read() as session:
        told = [[each.metric for each in one.spreads] for one in experiment_detail(session, 1).launches]
        others = [[each.metric for each in one.spreads] for one in experiment_detail(session, 2).launches]
    made.close()
    assert told == 2 * [["itl_ms", "tpot_ms"]]
    assert others == 2 * [["tpot_ms"]]


def test_samples_are_read_launch_by_launch_and_by_arm(history: History) -> None:
    with history.database.read() as session:
        taken = list(stored_samples(session, 1))
        arms = values_by_arm(session, 1, "tpot_ms", ["full"])
    assert [each.arm.value for each in taken] == ["control"] * 5 + ["candidate"] * 5
    assert {arm.value: len(values) for arm, values in arms.items()} == {"control": 4, "candidate": 4}
    assert all(values == sorted(values) for values in arms.values())
