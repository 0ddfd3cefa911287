"""The contrasts that a campaign asks about, put together from what is stored of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from db.labels import Noun, format_label
from db.models import Hypothesis
from db.models.base import JsonObject
from db.states import Arm, HypothesisState, VerdictOutcome
from experiments.measurement.evidence import Metric
from knowledge.queries.answered.answers_view import ArmView, ConfoundedView, ContrastView
from knowledge.queries.answered.contrast_rows import Asked
from knowledge.queries.claims.follow_ups import OPEN
from knowledge.queries.measured.drafting import drafting_of, text_changed
from knowledge.queries.measured.quality_tests import quality_tests
from knowledge.queries.measured.resolved import flat
from knowledge.queries.measured.stages import StageReport
from knowledge.stored import number, quality_held

ENDED_BEFORE = "the campaign ended before it was tested"
"""Why a question of an ended campaign is open; why that ended is told once, for all of them."""


@dataclass(frozen=True)
class Gathered:
    """What the contrasts of a campaign are put together from: configurations' knobs by their ids, and by
    experiment, or by experiment and arm, what was found of them."""

    baseline: JsonObject | None
    knobs: Mapping[int, JsonObject]
    resolved: Mapping[tuple[int, Arm], JsonObject]
    sums: Mapping[tuple[int, Arm], Mapping[str, tuple[float, int]]]
    step_ms: Mapping[tuple[int, Arm], float]
    reports: Mapping[int, tuple[StageReport, ...]]
    reproductions: Mapping[int, tuple[tuple[str, VerdictOutcome], ...]]
    stopped_because: str | None
    alpha: float

    def contrast(self, question: Mapping[str, Any], found: Asked | None) -> ContrastView:
        """Return the view of one question of the campaign's file."""
        hypothesis, experiment, verdict = (
            (None, None, None) if found is None else (found.hypothesis, found.test, found.verdict)
        )
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
            why_open=self._anew(found) if verdict is not None else self._why_open(hypothesis),
            quality_held=None if verdict is None else quality_held(verdict.quality),
            quality=() if verdict is None else quality_tests(verdict.quality),
            text_changed=verdict is not None and text_changed(verdict.quality),
            effect=None if verdict is None else verdict.effect_log,
            low=None if verdict is None else verdict.interval_low_log,
            high=None if verdict is None else verdict.interval_high_log,
            alpha=self.alpha,
            launches=0 if verdict is None else verdict.launches,
            samples=0 if verdict is None else verdict.samples,
            reports=() if number_ is None else self.reports.get(number_, ()),
            reproductions=() if number_ is None else self.reproductions.get(number_, ()),
            held={} if found is None else dict(found.held),
            confounded=None if found is None else _confounded(found.confounded),
            answered_in=None
            if found is None or not found.elsewhere or experiment is None
            else format_label(Noun.CAMPAIGN, experiment.campaign_id),
        )

    def _different(self, configuration_id: int) -> JsonObject:
        """The knobs in which a configuration differs from the baseline."""
        knobs, baseline = self.knobs[configuration_id], self.baseline or {}
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
        resolved = flat(self.resolved.get(key, {}))
        stored = _named(resolved, "stored")
        sums = self.sums.get(key, {})
        read = number(_named(resolved, "step_weight_bytes"))
        return ArmView(
            knobs=knobs,
            stored=stored if isinstance(stored, str) else None,
            bits_per_weight=number(_named(resolved, "bits_per_weight")),
            step_weight_bytes=read if read is not None else _mean(sums, Metric.STEP_WEIGHT_BYTES),
            value=_value(metric, sums),
            count=sums.get(metric, (0.0, 0))[1],
            drafting=drafting_of(quality, arm.value),
            step_ms=self.step_ms.get(key),
            parameters=_whole(resolved.get("parameters")),
            drafter_parameters=_whole(resolved.get("drafting.drafter.parameters")),
        )

    def _anew(self, found: Asked | None) -> str | None:
        """What was to answer a confounded contrast in its place, and why it has not; None where nothing
        was."""
        if found is None or found.anew is None:
            return None
        other = found.anew
        state = "has no verdict" if other.state in OPEN else f"is {other.state.value} itself"
        why = self._why_open(other).rstrip(".")
        return f"{format_label(Noun.HYPOTHESIS, other.id)}, which makes the claim anew, {state}: {why}"

    def _why_open(self, hypothesis: Hypothesis | None) -> str:
        if hypothesis is None:
            return ENDED_BEFORE if self.stopped_because else "the campaign has not come to it yet"
        if hypothesis.state_reason:
            return hypothesis.state_reason
        if hypothesis.state is HypothesisState.TESTING:
            return "its test has no verdict yet"
        return ENDED_BEFORE if self.stopped_because else "it waits in the queue"


def _confounded(asked: Asked | None) -> ConfoundedView | None:
    if asked is None:
        return None
    tested = asked.test is not None and asked.verdict is not None
    return ConfoundedView(
        hypothesis=format_label(Noun.HYPOTHESIS, asked.hypothesis.id),
        experiment=format_label(Noun.EXPERIMENT, asked.test.id) if tested and asked.test else None,
        reason=asked.verdict.reason if tested and asked.verdict else asked.hypothesis.state_reason or "",
    )


def _named(resolved: Mapping[str, Any], name: str) -> Any:
    """What a resolved configuration calls `name`, at whatever depth it stands."""
    return next((value for key, value in resolved.items() if key.rpartition(".")[2] == name), None)


def _whole(value: object) -> int | None:
    found = number(value)
    return None if found is None else round(found)


def _mean(sums: Mapping[str, tuple[float, int]], metric: Metric) -> float | None:
    total, count = sums.get(metric.value, (0.0, 0))
    return total / count if count else None


def _value(metric: str, sums: Mapping[str, tuple[float, int]]) -> float | None:
    if metric == Metric.NLL_BITS.value:
        bits, size = sums.get(metric), sums.get(Metric.TEXT_BYTES.value)
        return bits[0] / size[0] if bits and size and size[0] else None
    if metric in (Metric.TASK_CORRECT.value, Metric.STEP_WEIGHT_BYTES.value):
        return _mean(sums, Metric(metric))
    return None
