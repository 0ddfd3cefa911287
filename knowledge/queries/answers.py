"""What became of the questions a campaign asks: each contrast with its verdict, and what its stages told."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from configs.campaign import load_campaign
from configs.catalog import Kind, packaged_names
from configs.questions import Role
from db.labels import Noun, format_label
from db.models import Campaign, Configuration, Experiment, Hypothesis, Launch, Measurement, Verdict
from db.models.base import JsonObject
from db.states import Arm, CampaignState, ExperimentKind, HypothesisState, VerdictOutcome
from experiments.engines.port import DECODE_ITEM_PREFIX
from experiments.measurement.evidence import Metric
from experiments.space.configuration import Configuration as Point
from knowledge.queries.drafting import DraftingView, drafting_of, step_times_ms, text_changed
from knowledge.queries.quality_tests import QualityTestView, quality_tests
from knowledge.queries.resolved import flat
from knowledge.queries.stages import StageReport, stage_reports
from knowledge.queries.view import View
from knowledge.scope import Scope
from knowledge.stored import engine_of, number, quality_held, versions_of, workload_of

COUNTED_METRICS = (Metric.NLL_BITS, Metric.TEXT_BYTES, Metric.TASK_CORRECT, Metric.STEP_WEIGHT_BYTES)
"""Metrics of which the arms' own values are told; latencies are told as effects alone, in pairs."""

ENDED_BEFORE = "the campaign ended before it was tested"
"""Why a question of an ended campaign is open; why that ended is told once, for all of them."""


class ArmView(View):
    """One side of a contrast: its knobs that differ from the baseline's, and what was found of it.

    `value` is the judged metric's own: bits per byte for `nll_bits`, the share of items for `task_correct`,
    bytes for `step_weight_bytes`; None for times. `count` is of the documents or items behind `value`.
    `stored` says how the weights are stored. `step_ms` is the median time of a decode step in the timed
    requests, drafting and verifying together; `drafter_parameters` are those of what drafts, None where
    nothing does.
    """

    knobs: JsonObject
    stored: str | None
    bits_per_weight: float | None
    step_weight_bytes: float | None
    value: float | None
    count: int
    drafting: DraftingView | None
    step_ms: float | None
    parameters: int | None
    drafter_parameters: int | None


class ContrastView(View):
    """One contrast. Effects as the judge has them: natural logs of candidate over control, for `task_correct`
    the share of items lost; `why_open` says why there is no verdict; `quality_held` is None where it was not
    measured or stayed open; `quality` are the tests behind it, and `text_changed` tells that the candidate's
    drafting was found to change the text."""

    id: str
    role: Role
    claim: str
    if_supported: str | None
    if_refuted: str | None
    why: str
    metric: str
    min_effect: float
    hypothesis: str | None
    state: HypothesisState | None
    control: ArmView
    candidate: ArmView
    experiment: str | None
    outcome: VerdictOutcome | None
    reason: str | None
    why_open: str | None
    quality_held: bool | None
    quality: tuple[QualityTestView, ...]
    text_changed: bool
    effect: float | None
    low: float | None
    high: float | None
    alpha: float
    launches: int
    samples: int
    reports: tuple[StageReport, ...]
    reproductions: tuple[tuple[str, VerdictOutcome], ...]


class AnswerView(View):
    """One question with its contrasts."""

    asks: str
    contrasts: tuple[ContrastView, ...]


class AnswersView(View):
    """All questions of a campaign; `scope` is the end of a sentence: where alone the answers hold. `given`
    are the options of `autoinfer run` that replace values of the campaign's file, the model's apart."""

    campaign: str
    name: str
    model: str
    model_fingerprint: str
    seed: int
    started_at: datetime | None
    state: CampaignState
    stopped_because: str | None
    baseline: JsonObject | None
    parameter_budget: str | int | None
    spent_s: float
    scope: str
    given: tuple[str, ...]
    answers: tuple[AnswerView, ...]

    @property
    def contrasts(self) -> tuple[ContrastView, ...]:
        """All contrasts, in order."""
        return tuple(contrast for answer in self.answers for contrast in answer.contrasts)


def campaign_answers(session: Session, campaign_id: int) -> AnswersView:
    """Return what became of the questions of a campaign, which must exist; a fixed number of statements."""
    campaign = session.get_one(Campaign, campaign_id)
    asked: list[dict[str, Any]] = campaign.spec.get("questions") or []
    found = _hypotheses(session, campaign_id)
    experiments = [experiment.id for _, experiment, _ in found.values() if experiment is not None]
    gathered = _Gathered(
        baseline=_knobs(session, [campaign.baseline_configuration_id]).get(
            campaign.baseline_configuration_id or 0
        ),
        knobs=_knobs(
            session,
            [h.control_configuration_id for h, _, _ in found.values()]
            + [h.candidate_configuration_id for h, _, _ in found.values()],
        ),
        resolved=_resolved(session, experiments),
        values=_values(session, experiments),
        step_ms=step_times_ms(session, experiments),
        reports=stage_reports(session, experiments),
        reproductions=_reproductions(session, experiments),
        stopped=campaign.stopped_because,
        alpha=float(campaign.limits.get("alpha", 0.0)),
    )
    by_question: dict[str, list[ContrastView]] = defaultdict(list)
    for question in asked:
        by_question[question["asks"]].append(gathered.contrast(question, found.get(question["id"])))
    return AnswersView(
        campaign=format_label(Noun.CAMPAIGN, campaign_id),
        name=campaign.name,
        model=campaign.model,
        model_fingerprint=campaign.model_fingerprint,
        seed=campaign.seed,
        started_at=campaign.started_at,
        state=campaign.state,
        stopped_because=campaign.stopped_because,
        baseline=gathered.baseline,
        parameter_budget=campaign.spec.get("parameter_budget"),
        spent_s=number(campaign.budget.get("spent_s")) or 0.0,
        scope=_scope(session, campaign),
        given=_given(campaign),
        answers=tuple(AnswerView(asks=asks, contrasts=tuple(each)) for asks, each in by_question.items()),
    )


_OWN = or_(Launch.arm == Arm.CANDIDATE, Launch.configuration_id == Experiment.control_configuration_id)
"""Launches that speak of their arm: the quality of latency tests stands under the control and is the
baseline's."""

_Found = tuple[Hypothesis, Experiment | None, Verdict | None]


class _Gathered:
    """What the contrasts of a campaign are put together from."""

    def __init__(
        self,
        *,
        baseline: JsonObject | None,
        knobs: Mapping[int, JsonObject],
        resolved: Mapping[tuple[int, Arm], JsonObject],
        values: Mapping[tuple[int, Arm], Mapping[str, tuple[float, int]]],
        step_ms: Mapping[tuple[int, Arm], float],
        reports: Mapping[int, tuple[StageReport, ...]],
        reproductions: Mapping[int, tuple[tuple[str, VerdictOutcome], ...]],
        stopped: str | None,
        alpha: float,
    ) -> None:
        self.baseline = baseline
        self._knobs = knobs
        self._resolved = resolved
        self._values = values
        self._step_ms = step_ms
        self._reports = reports
        self._reproductions = reproductions
        self._stopped = stopped
        self._alpha = alpha

    def contrast(self, question: Mapping[str, Any], found: _Found | None) -> ContrastView:
        """The view of one question of the campaign's file."""
        hypothesis, experiment, verdict = found if found is not None else (None, None, None)
        number_ = None if experiment is None else experiment.id
        metric = str(question["metric"])
        arms = {
            arm: self._arm(
                number_,
                arm,
                metric,
                question[arm.value]
                if hypothesis is None
                else self._different(
                    hypothesis.control_configuration_id
                    if arm is Arm.CONTROL
                    else hypothesis.candidate_configuration_id
                ),
                None if verdict is None else verdict.quality,
            )
            for arm in Arm
        }
        return ContrastView(
            id=question["id"],
            role=question.get("role", "decides"),  # a campaign of an earlier version stored none
            claim=question["claim"],
            if_supported=question.get("if_supported"),
            if_refuted=question.get("if_refuted"),
            why=question["why"],
            metric=metric,
            min_effect=question["min_effect"],
            hypothesis=None if hypothesis is None else format_label(Noun.HYPOTHESIS, hypothesis.id),
            state=None if hypothesis is None else hypothesis.state,
            control=arms[Arm.CONTROL],
            candidate=arms[Arm.CANDIDATE],
            experiment=None if number_ is None else format_label(Noun.EXPERIMENT, number_),
            outcome=None if verdict is None else verdict.outcome,
            reason=None if verdict is None else verdict.reason,
            why_open=None if verdict is not None else self._why_open(hypothesis),
            quality_held=None if verdict is None else quality_held(verdict.quality),
            quality=() if verdict is None else quality_tests(verdict.quality),
            text_changed=verdict is not None and text_changed(verdict.quality),
            effect=None if verdict is None else verdict.effect_log,
            low=None if verdict is None else verdict.interval_low_log,
            high=None if verdict is None else verdict.interval_high_log,
            alpha=self._alpha,
            launches=0 if verdict is None else verdict.launches,
            samples=0 if verdict is None else verdict.samples,
            reports=() if number_ is None else self._reports.get(number_, ()),
            reproductions=() if number_ is None else self._reproductions.get(number_, ()),
        )

    def _different(self, configuration_id: int) -> JsonObject:
        """The knobs in which a configuration differs from the baseline."""
        knobs, baseline = self._knobs[configuration_id], self.baseline or {}
        return {name: value for name, value in knobs.items() if baseline.get(name) != value}

    def _arm(
        self,
        experiment: int | None,
        arm: Arm,
        metric: str,
        knobs: JsonObject,
        quality: JsonObject | None,
    ) -> ArmView:
        key = (experiment or 0, arm)
        resolved = flat(self._resolved.get(key, {}))
        stored = _named(resolved, "stored")
        values = self._values.get(key, {})
        read = number(_named(resolved, "step_weight_bytes"))
        return ArmView(
            knobs=knobs,
            stored=stored if isinstance(stored, str) else None,
            bits_per_weight=number(_named(resolved, "bits_per_weight")),
            step_weight_bytes=read if read is not None else _mean(values, Metric.STEP_WEIGHT_BYTES),
            value=_value(metric, values),
            count=values.get(metric, (0.0, 0))[1],
            drafting=drafting_of(quality, arm.value),
            step_ms=self._step_ms.get(key),
            parameters=_whole(resolved.get("parameters")),
            drafter_parameters=_whole(resolved.get("drafting.drafter.parameters")),
        )

    def _why_open(self, hypothesis: Hypothesis | None) -> str:
        if hypothesis is None:
            return ENDED_BEFORE if self._stopped else "the campaign has not come to it yet"
        if hypothesis.state_reason:
            return hypothesis.state_reason
        if hypothesis.state is HypothesisState.TESTING:
            return "it is being tested"
        return ENDED_BEFORE if self._stopped else "it waits in the queue"


def _hypotheses(session: Session, campaign_id: int) -> dict[str, _Found]:
    """Each question's hypothesis with its newest test and that test's verdict."""
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


def _knobs(session: Session, ids: Sequence[int | None]) -> dict[int, JsonObject]:
    wanted = {each for each in ids if each is not None}
    rows = session.execute(select(Configuration.id, Configuration.knobs).where(Configuration.id.in_(wanted)))
    return {number_: knobs for number_, knobs in rows}  # noqa: C416 - rows, not pairs


def _resolved(session: Session, experiments: Sequence[int]) -> dict[tuple[int, Arm], JsonObject]:
    """What the last launch of each arm resolved to."""
    query = (
        select(Launch)
        .join(Experiment, Experiment.id == Launch.experiment_id)
        .where(Launch.experiment_id.in_(experiments), _OWN)
        .order_by(Launch.id)
    )
    return {(each.experiment_id, each.arm): each.resolved for each in session.scalars(query)}


def _values(
    session: Session, experiments: Sequence[int]
) -> dict[tuple[int, Arm], dict[str, tuple[float, int]]]:
    """Sum and count of the arms' samples by metric."""
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


def _reproductions(
    session: Session, experiments: Sequence[int]
) -> dict[int, tuple[tuple[str, VerdictOutcome], ...]]:
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


def _scope(session: Session, campaign: Campaign) -> str:
    resolved = session.scalar(
        select(Launch.resolved)
        .join(Experiment, Experiment.id == Launch.experiment_id)
        .where(Experiment.campaign_id == campaign.id)
        .order_by(Launch.id.desc())
        .limit(1)
    )
    plan = campaign.spec.get("plan") or {}
    return Scope.of(
        model=campaign.model,
        model_fingerprint=campaign.model_fingerprint,
        target=campaign.target,
        engine=engine_of(campaign.spec),
        versions=versions_of(resolved or {}),
        workload=workload_of(plan),
        control=Point.of({}),
    ).sentence()


def _given(campaign: Campaign) -> tuple[str, ...]:
    """Options for what is not as in the packaged file of that name; budget and seed of any other file."""
    spec = campaign.spec
    packaged = campaign.name in packaged_names(Kind.CAMPAIGNS)
    file = load_campaign(campaign.name).model_dump(mode="json") if packaged else {}
    found = []
    budget = {"wall_s": campaign.budget.get("wall_s", spec["budget"]["wall_s"])}  # with what was added later
    if budget != file.get("budget"):
        found.append(f"--budget {budget['wall_s']:g}s")
    if spec["seed"] != file.get("seed"):
        found.append(f"--seed {spec['seed']}")
    if spec.get("drafter") is not None:
        found.append("--drafter DIR")
    if packaged and spec["plan"]["min_effect"] != file["plan"]["min_effect"]:
        found.append(f"--min-effect {100 * spec['plan']['min_effect']:g}%")
    return tuple(found)


def _named(resolved: Mapping[str, Any], name: str) -> Any:
    """What a resolved configuration calls `name`, at whatever depth it stands."""
    return next((value for key, value in resolved.items() if key.rpartition(".")[2] == name), None)


def _whole(value: object) -> int | None:
    found = number(value)
    return None if found is None else round(found)


def _mean(values: Mapping[str, tuple[float, int]], metric: Metric) -> float | None:
    total, count = values.get(metric.value, (0.0, 0))
    return total / count if count else None


def _value(metric: str, values: Mapping[str, tuple[float, int]]) -> float | None:
    if metric == Metric.NLL_BITS.value:
        bits, size = values.get(metric), values.get(Metric.TEXT_BYTES.value)
        return bits[0] / size[0] if bits and size and size[0] else None
    if metric in (Metric.TASK_CORRECT.value, Metric.STEP_WEIGHT_BYTES.value):
        return _mean(values, Metric(metric))
    return None
