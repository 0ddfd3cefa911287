"""The list of experiments: filtered, searched, sorted and cut into pages by the database."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Select, String, func, or_, select
from sqlalchemy.orm import Session, aliased, load_only

from configs.errors import UsageError
from db.labels import Noun, format_label, parse_label
from db.models import Configuration, Experiment, Hypothesis, Verdict
from db.models.base import JsonObject
from db.states import ExperimentKind, ExperimentState, VerdictOutcome
from knowledge.figures import DEFAULT_METRIC
from knowledge.queries.at_work import Interrupted, count_interrupted, in_a_word, interrupted_experiments
from knowledge.queries.devices import devices_of_experiments
from knowledge.queries.found.shaken import shaken
from knowledge.queries.view import (
    ChangeView,
    EffectView,
    Page,
    View,
    changes_between,
    effect_view,
    prediction_view,
)
from knowledge.stored import LEVER_JOINT


class ExperimentRow(View):
    """An experiment as one line; `wall_s` in seconds, `predicted` with its 80 % interval. `latency_only`: the
    weights are made up, and quality is not known. `device` is where it runs or ran, `desk/cuda:1`;
    `interrupted`: nobody measures it any more; `doubt` is what speaks by now against a supported one."""

    id: str
    campaign: str
    hypothesis: str | None
    claim: str | None
    lever: str | None
    kind: ExperimentKind
    state: ExperimentState
    stage: str | None
    progress: JsonObject | None
    target: str
    device: str | None
    change: tuple[ChangeView, ...]
    predicted: EffectView | None
    latency_only: bool
    outcome: VerdictOutcome | None
    effect: EffectView | None
    reason: str | None
    failure_kind: str | None
    failure: str | None
    reproduces: str | None
    wall_s: float | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    interrupted: Interrupted | None = None
    doubt: str | None = None

    @property
    def standing(self) -> str:
        """Its state in a word, which is another one where it was interrupted."""
        return in_a_word(self.state.value, self.interrupted)


_Page = Page[ExperimentRow]  # made once: pydantic forgets what nobody holds


class ExperimentSort(StrEnum):
    """What a list of experiments is ordered by; what has no such value comes last."""

    ID = "id"
    EFFECT = "effect"
    PREDICTED = "predicted"
    TOOK = "took"


@dataclass(frozen=True)
class ExperimentsAsked:
    """Which experiments: each filter that is given must hold; of several values of one, any.

    `lever` is one that the change touches, alone or with others; `text` stands in the claim, the lever, the
    reason, the failure or the target, or is a label of the experiment or its hypothesis.
    """

    campaign_id: int | None = None
    states: Collection[ExperimentState] = ()
    kinds: Collection[ExperimentKind] = ()
    outcomes: Collection[VerdictOutcome] = ()
    lever: str | None = None
    text: str | None = None
    sort: ExperimentSort = ExperimentSort.ID
    descending: bool = True


class ExperimentCounts(View):
    """How many experiments there are by state and by outcome, and the levers that hypotheses are of; of those
    that run, how many were `interrupted`."""

    total: int
    states: dict[ExperimentState, int]
    outcomes: dict[VerdictOutcome, int]
    levers: tuple[str, ...]
    interrupted: int = 0

    @property
    def measured_now(self) -> int:
        """How many are measured at this moment."""
        return self.states.get(ExperimentState.RUNNING, 0) - self.interrupted


def list_experiments(
    session: Session,
    *,
    campaign_id: int | None = None,
    states: Collection[ExperimentState] = (),
    outcomes: Collection[VerdictOutcome] = (),
    limit: int,
    offset: int = 0,
) -> Page[ExperimentRow]:
    """Return experiments, newest first."""
    asked = ExperimentsAsked(campaign_id=campaign_id, states=states, outcomes=outcomes)
    return find_experiments(session, asked, limit=limit, offset=offset)


def find_experiments(
    session: Session, asked: ExperimentsAsked, *, limit: int, offset: int = 0
) -> Page[ExperimentRow]:
    """Return the experiments that are asked for; three statements."""
    conditions = _conditions(asked)
    counted = select(func.count()).select_from(Experiment)
    if asked.lever or asked.text:
        counted = counted.outerjoin(Hypothesis, Hypothesis.id == Experiment.hypothesis_id)
    if asked.outcomes or asked.text:
        counted = counted.outerjoin(Verdict, Verdict.experiment_id == Experiment.id)
    counted = counted.where(*conditions)
    total = session.scalar(counted) or 0
    numbers = (
        select(Experiment.id)
        .outerjoin(Hypothesis, Hypothesis.id == Experiment.hypothesis_id)
        .outerjoin(Verdict, Verdict.experiment_id == Experiment.id)
        .where(*conditions)
        .order_by(*_order(asked))
        .limit(limit)
        .offset(offset)
    )
    rows = experiment_rows(
        session, session.scalars(numbers).all()
    )  # what is sorted is narrow: 3 times faster
    return _Page(items=rows, total=total, limit=limit, offset=offset)


def experiment_rows(session: Session, numbers: Sequence[int]) -> tuple[ExperimentRow, ...]:
    """Return the experiments with these ids, in this order; those that do not exist are left out."""
    devices = devices_of_experiments(session, numbers)
    found = {
        row[0].id: _row(devices, *row) for row in session.execute(_rows().where(Experiment.id.in_(numbers)))
    }
    running = [number for number, row in found.items() if row.state is ExperimentState.RUNNING]
    for number, told in (interrupted_experiments(session, running) if running else {}).items():
        found[number] = found[number].model_copy(update={"interrupted": told})
    supported = [number for number, row in found.items() if row.outcome is VerdictOutcome.SUPPORTED]
    for number, doubt in shaken(session, supported).items():
        found[number] = found[number].model_copy(update={"doubt": doubt})
    return tuple(found[number] for number in numbers if number in found)


def count_experiments(session: Session, campaign_id: int | None = None) -> ExperimentCounts:
    """Count the experiments by state and by outcome; four statements."""
    columns = (Experiment.campaign_id, Experiment.state)  # as an index has them
    states = select(Experiment.state, func.count()).group_by(*columns)
    outcomes = select(Verdict.outcome, func.count()).group_by(Verdict.outcome)
    levers = select(Hypothesis.lever).distinct()
    if campaign_id is not None:
        states = states.where(Experiment.campaign_id == campaign_id)
        outcomes = outcomes.join(Experiment, Experiment.id == Verdict.experiment_id).where(
            Experiment.campaign_id == campaign_id
        )
        levers = levers.where(Hypothesis.campaign_id == campaign_id)
    by_state: dict[ExperimentState, int] = {}
    for state, count in session.execute(states):
        by_state[state] = by_state.get(state, 0) + count
    by_outcome = {VerdictOutcome(outcome): int(count) for outcome, count in session.execute(outcomes)}
    stopped = count_interrupted(session, campaign_id) if by_state.get(ExperimentState.RUNNING) else 0
    names = {name for joined in session.scalars(levers) for name in joined.split(LEVER_JOINT)}
    return ExperimentCounts(
        total=sum(by_state.values()),
        states=by_state,
        outcomes=by_outcome,
        levers=tuple(sorted(names)),
        interrupted=stopped,
    )


def latest_experiment(session: Session) -> int | None:
    """Return the id of the newest experiment, `None` where there is none."""
    found: int | None = session.scalar(select(func.max(Experiment.id)))
    return found


def experiment_row(
    experiment: Experiment,
    claim: str | None,
    lever: str | None,
    prediction: JsonObject | None,
    metric: str | None,
    verdict: Sequence[Any] | None,
    control: JsonObject,
    candidate: JsonObject | None,
    *,
    latency_only: bool,
    device: str | None,
    interrupted: Interrupted | None = None,
) -> ExperimentRow:
    """Return the row of an experiment; `verdict` holds outcome, effect, low, high (natural logs), reason and
    metric."""
    outcome, effect, low, high, reason, judged = verdict or (None,) * 6
    return ExperimentRow(
        id=format_label(Noun.EXPERIMENT, experiment.id),
        campaign=format_label(Noun.CAMPAIGN, experiment.campaign_id),
        hypothesis=_optional(Noun.HYPOTHESIS, experiment.hypothesis_id),
        claim=claim,
        lever=lever,
        kind=experiment.kind,
        state=experiment.state,
        stage=experiment.stage,
        progress=experiment.progress,
        target=experiment.target,
        device=device,
        change=changes_between(control, candidate),
        predicted=prediction_view(prediction or {}, metric or DEFAULT_METRIC),
        latency_only=latency_only,
        outcome=outcome,
        effect=effect_view(effect, low, high, judged or DEFAULT_METRIC),
        reason=reason,
        failure_kind=experiment.failure_kind,
        failure=experiment.failure,
        reproduces=_optional(Noun.EXPERIMENT, experiment.reproduces_experiment_id),
        wall_s=experiment.wall_s,
        created_at=experiment.created_at,
        started_at=experiment.started_at,
        finished_at=experiment.finished_at,
        interrupted=interrupted,
    )


_SHOWN = (
    Experiment.id,
    Experiment.campaign_id,
    Experiment.hypothesis_id,
    Experiment.kind,
    Experiment.state,
    Experiment.stage,
    Experiment.progress,
    Experiment.target,
    Experiment.failure_kind,
    Experiment.failure,
    Experiment.reproduces_experiment_id,
    Experiment.wall_s,
    Experiment.created_at,
    Experiment.started_at,
    Experiment.finished_at,
)


@cache
def _rows() -> Select[Any]:
    control, candidate = aliased(Configuration), aliased(Configuration)
    return (
        select(
            Experiment,
            Hypothesis.claim,
            Hypothesis.lever,
            Experiment.plan["prediction"],
            Experiment.plan["metric"].as_string(),
            Experiment.plan["latency_only"].as_boolean(),
            control.knobs,
            candidate.knobs,
            Verdict.outcome,
            Verdict.effect_log,
            Verdict.interval_low_log,
            Verdict.interval_high_log,
            Verdict.reason,
            Verdict.judge["details"]["metric"].as_string(),
        )
        .options(load_only(*_SHOWN))
        .join(control, control.id == Experiment.control_configuration_id)
        .outerjoin(candidate, candidate.id == Experiment.candidate_configuration_id)
        .outerjoin(Hypothesis, Hypothesis.id == Experiment.hypothesis_id)
        .outerjoin(Verdict, Verdict.experiment_id == Experiment.id)
    )


def _row(
    devices: Mapping[int, str],
    experiment: Experiment,
    claim: str | None,
    lever: str | None,
    prediction: JsonObject | None,
    metric: str | None,
    latency_only: bool | None,
    control: JsonObject,
    candidate: JsonObject | None,
    *verdict: Any,
) -> ExperimentRow:
    judged = verdict if verdict[0] is not None else None
    return experiment_row(
        experiment,
        claim,
        lever,
        prediction,
        metric,
        judged,
        control,
        candidate,
        latency_only=bool(latency_only),
        device=devices.get(experiment.id),
    )


def _conditions(asked: ExperimentsAsked) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if asked.campaign_id is not None:
        found.append(Experiment.campaign_id == asked.campaign_id)
    if asked.states:
        found.append(Experiment.state.in_(list(asked.states)))
    if asked.kinds:
        found.append(Experiment.kind.in_(list(asked.kinds)))
    if asked.outcomes:
        found.append(Verdict.outcome.in_(list(asked.outcomes)))
    if asked.lever:
        joined = LEVER_JOINT + Hypothesis.lever + LEVER_JOINT
        found.append(joined.contains(f"{LEVER_JOINT}{asked.lever}{LEVER_JOINT}", autoescape=True))
    if asked.text and asked.text.strip():
        found.append(_text_condition(asked.text.strip()))
    return found


def _text_condition(text: str) -> ColumnElement[bool]:
    columns = (
        Hypothesis.claim,
        Hypothesis.lever,
        Verdict.reason,
        Experiment.failure,
        Experiment.target,
        Experiment.kind.cast(String),
    )
    found: list[ColumnElement[bool]] = [each.icontains(text, autoescape=True) for each in columns]
    try:
        noun, number = parse_label(text)
    except UsageError:
        return or_(*found)
    numbers = {
        Noun.EXPERIMENT: or_(Experiment.id == number, Experiment.reproduces_experiment_id == number),
        Noun.HYPOTHESIS: Experiment.hypothesis_id == number,
        Noun.CAMPAIGN: Experiment.campaign_id == number,
    }
    return or_(*found, *([numbers[noun]] if noun in numbers else []))


def _order(asked: ExperimentsAsked) -> list[ColumnElement[Any]]:
    columns: dict[ExperimentSort, Any] = {
        ExperimentSort.EFFECT: Verdict.effect_log,
        ExperimentSort.PREDICTED: Hypothesis.prediction["log_ratio_mean"].as_float(),
        ExperimentSort.TOOK: Experiment.wall_s,
    }
    last = Experiment.id.desc() if asked.descending else Experiment.id.asc()
    if asked.sort not in columns:
        return [last]
    column = columns[asked.sort]
    return [(column.desc() if asked.descending else column.asc()).nulls_last(), last]


def _optional(noun: Noun, number: int | None) -> str | None:
    return None if number is None else format_label(noun, number)
