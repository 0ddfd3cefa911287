"""What is stored of the contrasts that a campaign asks about: their tests, configurations and samples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from db.labels import Noun, format_label
from db.models import Configuration, Experiment, Hypothesis, Launch, Measurement, Verdict
from db.models.base import JsonObject
from db.states import Arm, ExperimentKind, VerdictOutcome
from experiments.engines.port import DECODE_ITEM_PREFIX
from experiments.measurement.evidence import Metric
from knowledge.stored import SEPARATES, STANDS_FOR, answered_by_of, held_of, stands_for_of

COUNTED_METRICS = (Metric.NLL_BITS, Metric.TEXT_BYTES, Metric.TASK_CORRECT, Metric.STEP_WEIGHT_BYTES)
"""Metrics of which the arms' own values are told; latencies are told as effects alone, in pairs."""

SAYS_NOTHING = (VerdictOutcome.CONFOUNDED, VerdictOutcome.INFEASIBLE)
"""Verdicts that say nothing about a claim."""


@dataclass(frozen=True)
class Asked:
    """The hypothesis of a question, its newest test and that test's verdict.

    Where that was confounded and another hypothesis that makes the same claim anew has a verdict, these are
    the other's, with the knobs `held` in both of its arms, and `confounded` is the question's own; where the
    other says nothing, or not yet, `anew` is it. `elsewhere`: the test is another campaign's, which asked the
    same.
    """

    hypothesis: Hypothesis
    test: Experiment | None = None
    verdict: Verdict | None = None
    held: Mapping[str, Any] = field(default_factory=dict)
    confounded: Asked | None = None
    anew: Hypothesis | None = None
    elsewhere: bool = False


_OWN = or_(Launch.arm == Arm.CANDIDATE, Launch.configuration_id == Experiment.control_configuration_id)
"""Launches that speak of their arm: the quality of latency tests stands under the control and is the
baseline's."""


def hypotheses_asked(session: Session, campaign_id: int) -> dict[str, Asked]:
    """Return each question's hypothesis with its newest test and that test's verdict, or those of what stands
    for it, or of another campaign's test that answers it."""
    stands_for = Hypothesis.change[SEPARATES][STANDS_FOR].as_integer()
    query = (
        select(Hypothesis, Experiment, Verdict)
        .outerjoin(
            Experiment,
            (Experiment.hypothesis_id == Hypothesis.id) & (Experiment.kind == ExperimentKind.TEST),
        )
        .outerjoin(Verdict, Verdict.experiment_id == Experiment.id)
        .where(
            Hypothesis.campaign_id == campaign_id,
            or_(Hypothesis.question.is_not(None), stands_for.is_not(None)),
        )
        .order_by(Hypothesis.id, Experiment.id)
    )
    own = {row[0].id: Asked(*row) for row in session.execute(query)}
    found = _with_tests_elsewhere(session, own)
    instead = {
        number_: each
        for each in found.values()
        if (number_ := stands_for_of(each.hypothesis.change)) is not None
    }
    return {
        str(each.hypothesis.question): _or_instead(each, instead.get(each.hypothesis.id))
        for each in found.values()
        if each.hypothesis.question is not None
    }


def _with_tests_elsewhere(session: Session, found: Mapping[int, Asked]) -> dict[int, Asked]:
    """The same, with the tests of other campaigns where these answer."""
    wanted = {number_: answered_by_of(each.hypothesis.change) for number_, each in found.items()}
    query = (
        select(Experiment, Verdict)
        .join(Verdict, Verdict.experiment_id == Experiment.id)
        .where(Experiment.id.in_({each for each in wanted.values() if each is not None}))
    )
    there = {experiment.id: (experiment, verdict) for experiment, verdict in session.execute(query)}
    return {
        number_: each
        if (answers := there.get(wanted[number_] or 0)) is None
        else replace(each, test=answers[0], verdict=answers[1], elsewhere=True)
        for number_, each in found.items()
    }


def _or_instead(own: Asked, other: Asked | None) -> Asked:
    """What tells of a question: its own hypothesis, or the newest other one that stands for it."""
    if other is None:
        return own
    if other.verdict is None or other.verdict.outcome in SAYS_NOTHING:
        return replace(own, anew=other.hypothesis)
    return replace(other, held=held_of(other.hypothesis.change), confounded=own)


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
