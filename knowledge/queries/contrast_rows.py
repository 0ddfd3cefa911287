"""What is stored of the contrasts that a campaign asks about: their tests, configurations and samples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from db.labels import Noun, format_label
from db.models import Configuration, Experiment, Hypothesis, Launch, Measurement, Verdict
from db.models.base import JsonObject
from db.states import Arm, ExperimentKind, VerdictOutcome
from experiments.engines.port import DECODE_ITEM_PREFIX
from experiments.measurement.evidence import Metric

COUNTED_METRICS = (Metric.NLL_BITS, Metric.TEXT_BYTES, Metric.TASK_CORRECT, Metric.STEP_WEIGHT_BYTES)
"""Metrics of which the arms' own values are told; latencies are told as effects alone, in pairs."""

Asked = tuple[Hypothesis, Experiment | None, Verdict | None]
"""The hypothesis of a question, its newest test and that test's verdict."""

_OWN = or_(Launch.arm == Arm.CANDIDATE, Launch.configuration_id == Experiment.control_configuration_id)
"""Launches that speak of their arm: the quality of latency tests stands under the control and is the
baseline's."""


def hypotheses_asked(session: Session, campaign_id: int) -> dict[str, Asked]:
    """Return each question's hypothesis with its newest test and that test's verdict."""
    query = (
        select(Hypothesis, Experiment, Verdict)
        .outerjoin(
            Experiment,
            (Experiment.hypothesis_id == Hypothesis.id) & (Experiment.kind == ExperimentKind.TEST),
        )
        .outerjoin(Verdict, Verdict.experiment_id == Experiment.id)
        .where(Hypothesis.campaign_id == campaign_id, Hypothesis.question.is_not(None))
        .order_by(Experiment.id)
    )
    return {
        str(hypothesis.question): (hypothesis, test, verdict)
        for hypothesis, test, verdict in session.execute(query)
    }


def knobs_of(session: Session, ids: Sequence[int | None]) -> dict[int, JsonObject]:
    """Return the knobs of stored configurations, by their ids."""
    wanted = {each for each in ids if each is not None}
    rows = session.execute(select(Configuration.id, Configuration.knobs).where(Configuration.id.in_(wanted)))
    return {number_: knobs for number_, knobs in rows}  # noqa: C416 - rows, not pairs


def resolved_of(session: Session, experiments: Sequence[int]) -> dict[tuple[int, Arm], JsonObject]:
    """Return what the last launch of each arm resolved to."""
    query = (
        select(Launch)
        .join(Experiment, Experiment.id == Launch.experiment_id)
        .where(Launch.experiment_id.in_(experiments), _OWN)
        .order_by(Launch.id)
    )
    return {(each.experiment_id, each.arm): each.resolved for each in session.scalars(query)}


def sums_of(
    session: Session, experiments: Sequence[int]
) -> dict[tuple[int, Arm], dict[str, tuple[float, int]]]:
    """Return sum and count of the arms' samples by metric."""
    query = (
        select(
            Launch.experiment_id, Launch.arm, Measurement.metric, func.sum(Measurement.value), func.count()
        )
        .join(Launch, Launch.id == Measurement.launch_id)
        .join(Experiment, Experiment.id == Launch.experiment_id)
        .where(
            Launch.experiment_id.in_(experiments),
            _OWN,
            Measurement.metric.in_([metric.value for metric in COUNTED_METRICS]),
            Measurement.item.not_like(f"{DECODE_ITEM_PREFIX}%"),  # a document once more, by the timed path
        )
        .group_by(Launch.experiment_id, Launch.arm, Measurement.metric)
    )
    found: dict[tuple[int, Arm], dict[str, tuple[float, int]]] = defaultdict(dict)
    for experiment, arm, metric, total, count in session.execute(query):
        found[experiment, arm][metric] = (float(total), count)
    return found


def reproductions_of(
    session: Session, experiments: Sequence[int]
) -> dict[int, tuple[tuple[str, VerdictOutcome], ...]]:
    """Return the experiments that ran each again from scratch, with what they came to."""
    query = (
        select(Experiment.reproduces_experiment_id, Experiment.id, Verdict.outcome)
        .join(Verdict, Verdict.experiment_id == Experiment.id)
        .where(
            Experiment.reproduces_experiment_id.in_(experiments), Experiment.kind == ExperimentKind.REPRODUCE
        )
        .order_by(Experiment.id)
    )
    found: dict[int, tuple[tuple[str, VerdictOutcome], ...]] = defaultdict(tuple)
    for original, fresh, outcome in session.execute(query):
        if original is not None:
            found[original] += ((format_label(Noun.EXPERIMENT, fresh), outcome),)
    return found
