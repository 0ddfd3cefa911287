"""Experiments as the tools answer them: the list, and one with its verdict and what lies behind it."""

from __future__ import annotations

from itertools import islice

from pydantic import Field
from sqlalchemy.orm import Session

from dashboard.mcp.answers import (
    MOST_RELATED,
    Answer,
    Change,
    Effect,
    LatencyOnly,
    Listed,
    changes,
    listed,
    measured,
    predicted,
)
from dashboard.mcp.quoting import LONG, NAME, SHORT, Quoted, maybe, named, plain, quoted
from db.labels import Noun
from db.states import ExperimentState, VerdictOutcome
from knowledge.queries.lookup import campaign_filter, labelled
from knowledge.queries.measured.experiment_detail import experiment_detail
from knowledge.queries.measured.experiments import ExperimentRow, ExperimentsAsked, find_experiments
from knowledge.queries.measured.launches_once import launches_once
from knowledge.queries.measured.quality_tests import quality_tests

MOST_SPREADS = 24
"""Spreads, one a launch and metric, that are told of an experiment."""


class ExperimentItem(Answer):
    """An experiment as one line; `took_s` in seconds."""

    id: str
    campaign: str
    hypothesis: str | None
    kind: str
    state: str
    outcome: str | None
    claim: Quoted | None
    change: tuple[Change, ...]
    measured: Effect | None
    latency_only: LatencyOnly
    reason: Quoted | None
    target: str
    took_s: float | None


class Quality(Answer):
    """One test of quality in its `unit`; more is worse, `allowed` is the most that passes."""

    name: str
    unit: str
    difference: float
    low: float | None
    high: float | None
    allowed: float | None
    count: int = Field(description="Documents or items that it was measured on.")
    state: str = Field(description="held, worse or undecided.")


class ArmSpread(Answer):
    """The samples of one metric that a launch, a fresh process of one arm, gave: the middle 80 % lies from
    `low` to `high`, all in `unit`. What several stages used is told once, with the first of them."""

    arm: str
    launch: int
    stage: str
    metric: str
    unit: str
    count: int
    median: float
    low: float
    high: float


class ExperimentAnswer(ExperimentItem):
    """An experiment: the verdict with its interval and reason, quality, launches, what else differed."""

    predicted: Effect | None
    rationale: Quoted | None
    refuted_if: Quoted | None
    judged_on: str = Field(description="The metric that is judged.")
    launches: int | None = Field(description="Launches that the verdict compares, in pairs; others scored.")
    samples: int | None = Field(
        description="Samples of the judged metric in these; the tool samples reads those of every metric."
    )
    quality: tuple[Quality, ...]
    preregistered: str | None = Field(description="SHA-256 of prediction, margin and stopping plan.")
    changed_since_sealed: str | None
    spreads: tuple[ArmSpread, ...]
    spreads_left_out: int
    also_differed: tuple[Quoted, ...] = Field(description="What of the resolved configurations differed.")
    failure_kind: str | None
    failure: Quoted | None
    stages: tuple[str, ...]
    versions: dict[str, str | Quoted] = Field(description="Of what ran, as the engine and packages say.")
    reproduced_by: tuple[str, ...]
    reproduce_command: str | None


def experiments(
    session: Session,
    label: str | None,
    states: tuple[ExperimentState, ...],
    outcomes: tuple[VerdictOutcome, ...],
    lever: str | None,
    text: str | None,
    limit: int,
    offset: int,
) -> Listed[ExperimentItem]:
    """Experiments, newest first."""
    asked = ExperimentsAsked(
        campaign_id=campaign_filter(session, label),
        states=states,
        outcomes=outcomes,
        lever=lever,
        text=text,
    )
    page = find_experiments(session, asked, limit=limit, offset=offset)
    items = [ExperimentItem(**_experiment(each)) for each in page.items]
    return listed(items, page.total, offset)


def _experiment(found: ExperimentRow, most: int = SHORT) -> dict[str, object]:
    return {
        "id": found.id,
        "campaign": found.campaign,
        "hypothesis": found.hypothesis,
        "kind": found.kind.value,
        "state": found.state.value,
        "outcome": None if found.outcome is None else found.outcome.value,
        "claim": maybe(found.claim, most),
        "change": changes(found.change),
        "measured": measured(found.effect),
        "latency_only": found.latency_only,
        "reason": maybe(found.reason, most),
        "target": found.target,
        "took_s": found.wall_s,
    }


def experiment(session: Session, label: str) -> ExperimentAnswer:
    """One experiment: its verdict with the interval and the reason, and what lies behind it."""
    found = experiment_detail(session, labelled(session, Noun.EXPERIMENT, label))
    spreads = [
        ArmSpread(
            arm=launch.arm.value,
            launch=launch.index,
            stage=launch.stage,
            metric=each.metric,
            unit=each.unit,
            count=each.count,
            median=_rounded(each.median),
            low=_rounded(each.low),
            high=_rounded(each.high),
        )
        for launch in (used.launch for used in launches_once(found.launches))
        for each in launch.spreads
    ]
    spreads.sort(key=lambda each: each.metric != found.metric)  # those that are judged come first
    verdict = found.verdict
    return ExperimentAnswer(
        **_experiment(found, LONG),
        predicted=predicted(found.predicted),
        rationale=maybe(found.rationale, LONG),
        refuted_if=maybe(found.refuted_if),
        judged_on=found.metric,
        launches=None if verdict is None else verdict.launches,
        samples=None if verdict is None else verdict.samples,
        quality=tuple(
            Quality(
                name=each.name,
                unit=each.unit,
                difference=each.difference,
                low=each.low,
                high=each.high,
                allowed=each.margin,
                count=each.count,
                state=each.state,
            )
            for each in quality_tests(None if verdict is None else verdict.quality)
        ),
        preregistered=found.preregistration_digest,
        changed_since_sealed=found.changed_since_sealed,
        spreads=tuple(spreads[:MOST_SPREADS]),
        spreads_left_out=max(0, len(spreads) - MOST_SPREADS),
        also_differed=tuple(
            quoted(f"{each.name}: {each.control} → {each.candidate}")
            for each in found.resolved_differences[:MOST_RELATED]
        ),
        failure_kind=found.failure_kind,
        failure=maybe(found.failure, LONG),
        stages=tuple(
            f"{each.stage}: {each.outcome.value if each.outcome else 'running'}"
            for each in found.stages[:MOST_RELATED]
        ),
        versions={
            plain(name)[:NAME]: named(str(each))
            for name, each in islice((found.versions or {}).items(), MOST_RELATED)
        },
        reproduced_by=found.reproduced_by[:MOST_RELATED],
        reproduce_command=found.reproduce_command,
    )


def _rounded(value: float) -> float:
    """A quantile to six digits: it is interpolated, and raw samples are told whole."""
    return float(f"{value:.6g}")
