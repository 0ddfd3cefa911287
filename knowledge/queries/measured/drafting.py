"""What drafting gave in the arms of an experiment, as its verdict and its launches told."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from sqlalchemy import case, func, select
from sqlalchemy.orm import Session

from db.models import Launch, Measurement
from db.states import Arm
from experiments.measurement.evidence import Metric, Stage
from knowledge.queries.view import View
from knowledge.stored import number

REPORTS = {"control": "control_drafting", "candidate": "drafting"}
"""Where a verdict's quality keeps the report of each arm; see `agent.judge.quality`."""


class DraftingView(View):
    """One arm's drafting. `acceptance` is tokens a verification step; `by_position` the share of steps whose
    i-th draft token stood; `by_class` acceptance by class of content; `draws_level` the acceptance at which a
    token would take as long as in the control, and `break_even` the same where drafting alone was added to a
    control that does not draft; None where that is not known."""

    acceptance: float
    by_position: tuple[float, ...]
    by_class: dict[str, float]
    by_class_and_position: dict[str, tuple[float, ...]]
    draws_level: float | None
    break_even: float | None

    def sentence(self) -> str:
        """Such as: 1.62 tokens a step (code 1.70, text 1.54); drafts stood by position 62 % (code 70 %,
        text 54 %)."""
        classes = ", ".join(f"{name} {value:.2f}" for name, value in self.by_class.items())
        told = f"{self.acceptance:.2f} tokens a step" + (f" ({classes})" if classes else "")
        if self.by_position:
            of_classes = "; ".join(
                f"{name} {_shares(rates)}" for name, rates in self.by_class_and_position.items()
            )
            told += f"; drafts stood by position {_shares(self.by_position)}"
            told += f" ({of_classes})" if of_classes else ""
        if self.break_even is not None:
            told += f"; breaks even at {self.break_even:.2f}"
        elif self.draws_level is not None:
            told += f"; draws level with the control at {self.draws_level:.2f}"
        return told


def _shares(rates: Sequence[float]) -> str:
    return ", ".join(f"{100 * share:.0f} %" for share in rates)


def drafting_of(quality: Mapping[str, Any] | None, arm: str) -> DraftingView | None:
    """Return an arm's drafting from a verdict's quality; None where it did not draft or nothing was told."""
    told = (quality or {}).get(REPORTS[arm])
    if not isinstance(told, dict) or (acceptance := number(told.get("acceptance_length"))) is None:
        return None
    return DraftingView(
        acceptance=acceptance,
        by_position=tuple(map(float, told.get("acceptance_by_position") or ())),
        by_class={
            name: float(value)
            for name, value in sorted((told.get("acceptance_length_by_class") or {}).items())
        },
        by_class_and_position={
            name: tuple(map(float, rates))
            for name, rates in sorted((told.get("acceptance_by_class_and_position") or {}).items())
        },
        draws_level=number(told.get("draws_level_acceptance_length")),
        break_even=number(told.get("break_even_acceptance_length")),
    )


def text_changed(quality: Mapping[str, Any] | None) -> bool:
    """Whether the candidate's drafting was found to change the text."""
    told = (quality or {}).get(REPORTS["candidate"])
    return isinstance(told, dict) and told.get("changes_text") is True


def step_times_ms(session: Session, experiments: Sequence[int]) -> dict[tuple[int, Arm], float]:
    """Return the median time in ms of a step of each arm that drafts, over its timed requests: the time after
    the first token over the steps it took. What was not timed gives none."""
    metric, value = Measurement.metric, Measurement.value
    query = (
        select(
            Launch.experiment_id,
            Launch.arm,
            func.max(case((metric == Metric.E2EL_MS.value, value))),
            func.max(case((metric == Metric.TTFT_MS.value, value))),
            func.count(case((metric == Metric.STEP_TOKENS.value, value))),
        )
        .join(Launch, Launch.id == Measurement.launch_id)
        .where(
            Launch.experiment_id.in_(experiments),
            Launch.stage != Stage.FURTHER.value,
            metric.in_([Metric.E2EL_MS.value, Metric.TTFT_MS.value, Metric.STEP_TOKENS.value]),
        )
        .group_by(Launch.id, Launch.experiment_id, Launch.arm, Measurement.block, Measurement.item)
    )
    found: dict[tuple[int, Arm], list[float]] = defaultdict(list)
    for experiment, arm, whole_ms, first_ms, steps in session.execute(query):
        if whole_ms is not None and first_ms is not None and steps:
            found[experiment, arm].append((whole_ms - first_ms) / steps)
    return {key: median(values) for key, values in found.items()}
