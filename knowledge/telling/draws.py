"""Effects that rest on one draw of calibration text, read against what another draw changes by itself.

Two checkpoints that were calibrated differ by the corpus, the group size or whatever was claimed, and by the
draw of the text too. Intervals over documents or items know nothing of that: they speak of the checkpoints
that were scored. A contrast of `noise` compares two draws with all else alike; an effect lies *beyond* a draw
when its interval stays further from zero than anything in the interval of any draw that was measured. Few
draws say little of how far draws can differ, so an effect beyond them is no statement about all draws.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from knowledge.queries.answered.answers_view import ContrastView

DRAW = "quantization.seed"
"""The knob that chooses the draw; active wherever text calibrates."""

_CALIBRATED = DRAW.partition(".")[0] + "."
_SCORED = frozenset({"nll_bits", "task_correct"})
"""Metrics that another draw changes."""


@dataclass(frozen=True)
class Reading:
    """Whether an effect lies beyond every draw of `draws`, None where none was measured."""

    beyond: bool | None
    draws: tuple[ContrastView, ...]


def rests_on_a_draw(metric: str, control: Mapping[str, object], candidate: Mapping[str, object]) -> bool:
    """Whether an effect between these knobs would be another with another draw of calibration text."""
    differing = {
        name for name in {*control, *candidate} if name not in control or control[name] != candidate.get(name)
    }
    return (
        metric in _SCORED
        and any(name.startswith(_CALIBRATED) for name in differing)
        and (DRAW in control or DRAW in candidate)
    )


def read_against_draws(contrast: ContrastView, others: Iterable[ContrastView]) -> Reading | None:
    """Read an effect against the draws among `others` on its metric; None for one that rests on no draw, is a
    draw itself, or was not measured."""
    if contrast.role == "noise" or _least(contrast) is None:
        return None
    if not rests_on_a_draw(contrast.metric, contrast.control.knobs, contrast.candidate.knobs):
        return None
    draws = tuple(
        each
        for each in others
        if each.role == "noise" and each.metric == contrast.metric and _most(each) is not None
    )
    reach = max((_most(each) or 0.0 for each in draws), default=None)
    least = _least(contrast)
    assert least is not None
    return Reading(None if reach is None else least > reach, draws)


def _most(contrast: ContrastView) -> float | None:
    """The largest effect that the interval holds, without its sign."""
    if contrast.low is None or contrast.high is None:
        return None
    return max(abs(contrast.low), abs(contrast.high))


def _least(contrast: ContrastView) -> float | None:
    """The smallest effect that the interval holds, without its sign; 0 for one that holds zero."""
    if contrast.low is None or contrast.high is None:
        return None
    return max(0.0, contrast.low, -contrast.high)
