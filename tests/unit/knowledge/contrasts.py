"""Contrasts of a campaign that asks, as the queries give them, made of values."""

from __future__ import annotations

from collections.abc import Mapping

from configs.questions import Role
from db.states import HypothesisState, VerdictOutcome
from knowledge.queries.answered.answers_view import ArmView, ContrastView
from knowledge.queries.measured.drafting import text_changed
from knowledge.queries.measured.quality_tests import quality_tests

RAW: Mapping[str, object] = {"quantization.corpus": "raw", "quantization.seed": 0}
BLEND: Mapping[str, object] = {"quantization.corpus": "blend:0.5", "quantization.seed": 0}
RAW_AGAIN: Mapping[str, object] = {"quantization.corpus": "raw", "quantization.seed": 1}


def arm(knobs: Mapping[str, object]) -> ArmView:
    return ArmView(
        knobs=dict(knobs),
        stored=None,
        bits_per_weight=None,
        step_weight_bytes=None,
        value=None,
        count=0,
        drafting=None,
        step_ms=None,
        parameters=None,
        drafter_parameters=None,
    )


def contrast(
    name: str,
    outcome: VerdictOutcome | None = None,
    interval: tuple[float, float, float] | None = None,
    *,
    control: Mapping[str, object] = RAW,
    candidate: Mapping[str, object] = BLEND,
    metric: str = "task_correct",
    role: Role = "decides",
    if_supported: str | None = None,
    if_refuted: str | None = None,
    quality_held: bool | None = None,
    quality: Mapping[str, object] | None = None,
    state: HypothesisState | None = HypothesisState.QUEUED,
    held: Mapping[str, object] | None = None,
) -> ContrastView:
    """`interval` is effect, low and high as the judge has them: of a share what is lost; `quality` as a
    verdict stores it."""
    middle, low, high = interval or (None, None, None)
    return ContrastView(
        id=name,
        role=role,
        claim=f"{name} is better.",
        if_supported=if_supported,
        if_refuted=if_refuted,
        why="Nobody measured it.",
        metric=metric,
        min_effect=0.01,
        hypothesis=None,
        state=state if outcome is None else HypothesisState(outcome.value),
        control=arm(control),
        candidate=arm(candidate),
        experiment=None,
        outcome=outcome,
        reason=None,
        why_open=None,
        quality_held=quality_held,
        quality=quality_tests(quality),
        text_changed=text_changed(quality),
        effect=middle,
        low=low,
        high=high,
        alpha=0.05,
        launches=0,
        samples=0,
        reports=(),
        reproductions=(),
        held=dict(held or {}),
        confounded=None,
    )


def another_draw(interval: tuple[float, float, float] | None, name: str = "another_draw") -> ContrastView:
    """Another draw of raw text, refuted where it was measured."""
    outcome = None if interval is None else VerdictOutcome.REFUTED
    return contrast(name, outcome, interval, candidate=RAW_AGAIN, role="noise")
