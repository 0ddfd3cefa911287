"""Which quality one arm of a contrast lost against the other, beyond the margins. Pure.

A claim is about one metric, and a verdict holds the others to their margins in one direction: the candidate
may not be worse. Where the control is worse, as one that was pruned is, the claim stands and its sentence
alone would hide what the control paid. So both directions are told: a difference is lost quality when all of
its interval lies beyond the margin.
"""

from __future__ import annotations

from configs.questions import is_latency
from knowledge.queries.answered.answers_view import ContrastView
from knowledge.queries.measured.quality_tests import BITS, KL, TASKS, QualityTestView

_JUDGED = {"nll_bits": BITS, "task_correct": TASKS}
"""The test that is on the claim's own metric, whose effect is told anyway."""


def lost_quality(contrast: ContrastView) -> tuple[str, ...]:
    """Return what was lost and by which arm, as clauses; a claim on time compares with the baseline there."""
    other = "the baseline" if is_latency(contrast.metric) else "the control"
    judged = _JUDGED.get(contrast.metric)
    told = [_told(each, other) for each in contrast.quality if each.name != judged]
    if contrast.text_changed:
        told.append("its drafting changes the text")
    return tuple(clause for clause in told if clause)


def _told(test: QualityTestView, other: str) -> str | None:
    if test.margin is None or test.low is None or test.high is None:
        return None
    if test.low > test.margin:
        return _words("the candidate", test.name, test.difference)
    if test.high < -test.margin and test.name != KL:  # a distance, which has no other direction
        return _words(other, test.name, _seen_from_the_other(test))
    return None


def _seen_from_the_other(test: QualityTestView) -> float:
    """A loss of the other arm in its own scale: of bits, the percentage it needs more than the candidate."""
    if test.name == TASKS:
        return -test.difference
    return 100 * (1 / (1 + test.difference / 100) - 1)


def _words(arm: str, name: str, lost: float) -> str:
    if name == TASKS:
        return f"{arm} loses {lost:.1f} points of tasks"
    if name == BITS:
        return f"{arm} needs {lost:.1f} % more bits per byte"
    return f"{arm} is {lost:.2g} nats a token from the reference"
