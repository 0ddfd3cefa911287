"""The tests of quality behind a verdict: what was found, what is allowed, and whether that holds. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from experiments.measurement.evidence import Metric
from knowledge.queries.view import View
from knowledge.stored import number

BITS, TASKS, KL = "Bits per byte", "Tasks lost", "KL to the reference"
"""What the tests are called."""

NATS = "nat/token"

_TESTS = (
    ("bits_per_byte_relative", BITS, "%", 100.0, Metric.NLL_BITS),
    ("task_points_lost", TASKS, "points", 1.0, Metric.TASK_CORRECT),
    ("kl_nats", KL, NATS, 1.0, Metric.KL_NATS),
)
"""A test's name in a verdict (`agent.judge.quality`), its words, its unit, the factor to that, and the metric
of its samples."""


class QualityTestView(View):
    """One test in its `unit`, more is worse: the difference to the control with an interval of which each end
    is one-sided at the plan's level, the most that is allowed, over `count` documents or items, whose samples
    are of `metric`. `state`: held, worse or undecided, by the end of the interval
    that decides; KL alone can refute and passes nothing."""

    name: str
    unit: str
    difference: float
    low: float | None
    high: float | None
    margin: float | None
    count: int
    metric: str
    state: str

    @property
    def places(self) -> int:
        """Decimals that its figures are worth."""
        return places_of(self.unit)


def places_of(unit: str) -> int:
    """Decimals that the figures of a test of this unit are worth."""
    return 3 if unit == NATS else 2


def quality_tests(quality: Mapping[str, object] | None) -> tuple[QualityTestView, ...]:
    """Return the tests that a verdict's quality tells, in a fixed order, without what was not measured."""
    found = []
    for name, words, unit, factor, metric in _TESTS:
        told = (quality or {}).get(name)
        difference = number(told.get("difference")) if isinstance(told, dict) else None
        if not isinstance(told, dict) or difference is None:
            continue
        low, high, margin = (number(told.get(each)) for each in ("low", "high", "margin"))
        found.append(
            QualityTestView(
                name=words,
                unit=unit,
                difference=factor * difference,
                low=None if low is None else factor * low,
                high=None if high is None else factor * high,
                margin=None if margin is None else factor * margin,
                count=int(number(told.get("count")) or 0),
                metric=metric.value,
                state=_state(low, high, margin),
            )
        )
    return tuple(found)


def _state(low: float | None, high: float | None, margin: float | None) -> str:
    if margin is None or low is None or high is None:
        return "undecided"
    if low > margin:
        return "worse"
    return "held" if high <= margin else "undecided"
