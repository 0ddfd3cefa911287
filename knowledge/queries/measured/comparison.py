"""Experiments side by side: one statement a kind of row, however many are compared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import median
from typing import Any, TypeAlias

from sqlalchemy import func, select
from sqlalchemy.orm import Session, aliased

from db.models import Configuration, Experiment, Launch, Measurement, Verdict
from db.models.base import JsonObject
from db.states import Arm
from experiments.measurement.evidence import TIMED_METRICS
from knowledge.figures import metric_word
from knowledge.queries.measured.experiments import ExperimentRow, experiment_rows
from knowledge.queries.measured.quality_tests import QualityTestView, places_of, quality_tests
from knowledge.queries.measured.resolved import flat
from knowledge.queries.view import View
from knowledge.stored import metric_of

STAGES = ("quick", "full", "validation", "noise", "sweep")
"""Stages whose timed samples are compared."""


_Medians: TypeAlias = dict[tuple[str, str], float]
"""Medians by their name for people and their unit."""


class ComparedRow(View):
    """One line: a value of each experiment, in their order, `None` where it has none;
    differences to a control have `places` decimals."""

    name: str
    unit: str
    values: tuple[Any, ...]
    differs: bool
    places: int | None = None


class ComparedGroup(View):
    """Lines of one kind."""

    title: str
    rows: tuple[ComparedRow, ...]


class ComparisonView(View):
    """Experiments side by side; `left_out` counts the lines that are the same in all of them, where those
    were not asked for."""

    experiments: tuple[ExperimentRow, ...]
    groups: tuple[ComparedGroup, ...]
    left_out: int


def compare(session: Session, numbers: Sequence[int], *, differences: bool = False) -> ComparisonView:
    """Return the experiments with these ids side by side; four statements."""
    rows = experiment_rows(session, numbers)
    stored = _stored(session, numbers)
    medians = _medians(session, numbers)
    found = [stored[number] for number in numbers if number in stored]
    ids = [number for number in numbers if number in stored]
    groups = [
        ("Time", _of_medians([medians[number] for number in ids])),
        ("Quality against the control", _quality([each.quality for each in found])),
        (
            "Candidate, or the one arm there is",
            _of_objects([each.candidate or each.control for each in found]),
        ),
        ("Control", _of_objects([each.control for each in found])),
        ("Plan", _of_objects([_without_prediction(each.plan) for each in found])),
        ("Software", _of_objects([each.versions or {} for each in found])),
        ("Cost", [_row("wall time", "s", [row.wall_s for row in rows])]),
    ]
    shown = [
        ComparedGroup(title=title, rows=tuple(each for each in lines if each.differs or not differences))
        for title, lines in groups
    ]
    total = sum(len(lines) for _, lines in groups)
    return ComparisonView(
        experiments=rows,
        groups=tuple(each for each in shown if each.rows),
        left_out=total - sum(len(each.rows) for each in shown),
    )


class _Stored(View):
    control: JsonObject
    candidate: JsonObject | None
    plan: JsonObject
    versions: JsonObject | None
    quality: tuple[QualityTestView, ...]


def _stored(session: Session, numbers: Sequence[int]) -> dict[int, _Stored]:
    control, candidate = aliased(Configuration), aliased(Configuration)
    query = (
        select(
            Experiment.id,
            control.knobs,
            candidate.knobs,
            Experiment.plan,
            Experiment.versions,
            Verdict.quality,
        )
        .join(control, control.id == Experiment.control_configuration_id)
        .outerjoin(candidate, candidate.id == Experiment.candidate_configuration_id)
        .outerjoin(Verdict, Verdict.experiment_id == Experiment.id)
        .where(Experiment.id.in_(numbers))
    )
    return {
        number: _Stored(
            control=one, candidate=other, plan=plan, versions=versions, quality=quality_tests(quality)
        )
        for number, one, other, plan, versions, quality in session.execute(query)
    }


def _medians(session: Session, numbers: Sequence[int]) -> dict[int, _Medians]:
    """The median of the judged metric of each arm; of what is scored none: an item is solved or not, and
    documents differ in length."""
    judged = func.coalesce(Experiment.plan["metric"].as_string(), metric_of({}))
    query = (
        select(Experiment.id, Launch.arm, Measurement.metric, Measurement.unit, Measurement.value)
        .join(Launch, Launch.experiment_id == Experiment.id)
        .join(Measurement, Measurement.launch_id == Launch.id)
        .where(Experiment.id.in_(numbers), Launch.stage.in_(STAGES))
        .where(Measurement.metric == judged, Measurement.metric.in_(TIMED_METRICS))
    )
    values: dict[int, dict[tuple[str, str], list[float]]] = defaultdict(lambda: defaultdict(list))
    for number, arm, metric, unit, value in session.execute(query):
        values[number][f"median {metric_word(metric)}, {Arm(arm).value}", unit].append(value)
    return defaultdict(
        dict,
        {number: {name: median(found) for name, found in told.items()} for number, told in values.items()},
    )


def _without_prediction(plan: JsonObject) -> JsonObject:
    return {name: value for name, value in plan.items() if name not in ("prediction", "support_alpha")}


def _quality(tests: Sequence[tuple[QualityTestView, ...]]) -> list[ComparedRow]:
    names = list(dict.fromkeys((each.name, each.unit) for told in tests for each in told))
    return [
        _row(
            name,
            unit,
            [next((each.difference for each in told if each.name == name), None) for told in tests],
            places_of(unit),
        )
        for name, unit in names
    ]


def _of_medians(told: Sequence[_Medians]) -> list[ComparedRow]:
    names = sorted({name for each in told for name in each})
    return [_row(*name, [each.get(name) for each in told]) for name in names]


def _of_objects(told: Sequence[JsonObject]) -> list[ComparedRow]:
    flats = [flat(each) for each in told]
    names = sorted({name for each in flats for name in each})
    return [_row(name, "", [each.get(name) for each in flats]) for name in names]


def _row(name: str, unit: str, values: Sequence[Any], places: int | None = None) -> ComparedRow:
    return ComparedRow(
        name=name,
        unit=unit,
        values=tuple(values),
        differs=any(each != values[0] for each in values),
        places=places,
    )
