"""What the tools' answers are made of: compact, typed, units in the names.

The answers themselves, each the output schema of its tool, stand by their subject beside this file
(`campaign_answers` and so on), with the functions that read them: bounded, with others' text marked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from dashboard.mcp.quoting import Quoted, named
from experiments.space.configuration import KnobValue
from knowledge.figures import SHARES
from knowledge.queries.view import ChangeView, EffectView

MOST_RELATED = 25
"""Things of one kind that are told beside what an answer is about."""


class Answer(BaseModel):
    """What every answer is made of: frozen."""

    model_config = ConfigDict(frozen=True)


LatencyOnly = Annotated[
    bool, Field(description="Whether its weights are made up, so that times alone mean anything.")
]
"""What of everything is told that rests on made-up weights."""

Item = TypeVar("Item", bound=Answer)


class Listed(Answer, Generic[Item]):
    """Some of a list: `total` counts all that match, `next_offset` is where to go on, None at its end."""

    items: tuple[Item, ...]
    total: int
    next_offset: int | None


def listed(items: Sequence[Item], total: int, offset: int) -> Listed[Item]:
    """A part of a list that begins at `offset`."""
    seen = offset + len(items)
    return Listed(items=tuple(items), total=total, next_offset=seen if items and seen < total else None)


class Effect(Answer):
    """A change of a metric, candidate against control; negative is better, whatever the metric."""

    metric: str = Field(description="Such as tpot_ms, milliseconds per output token.")
    change: float = Field(description="The change, in `unit`: −12.0 is 12 % less.")
    low: float | None = Field(description="Lower end of its interval, in `unit`.")
    high: float | None = Field(description="Upper end of its interval, in `unit`.")
    unit: Literal["%", "percentage points"]
    interval: Literal["80 % prediction", "95 %"]


def measured(found: EffectView | None) -> Effect | None:
    """An effect that was measured, with its 95 % interval."""
    return None if found is None else _effect(found, "95 %")


def predicted(found: EffectView | None) -> Effect | None:
    """An effect that is predicted, with its 80 % interval."""
    return None if found is None else _effect(found, "80 % prediction")


def _effect(found: EffectView, interval: Literal["80 % prediction", "95 %"]) -> Effect:
    return Effect(
        metric=found.metric,
        change=round(100 * found.relative, 3),
        low=None if found.low is None else round(100 * found.low, 3),
        high=None if found.high is None else round(100 * found.high, 3),
        unit="percentage points" if found.metric in SHARES else "%",
        interval=interval,
    )


class Change(Answer):
    """One knob's difference; None stands for a knob that is not active. What is no single word is marked: a
    path, or what an imported file says."""

    knob: str | Quoted
    before: KnobValue | Quoted | None
    after: KnobValue | Quoted | None


def changes(found: Sequence[ChangeView]) -> tuple[Change, ...]:
    """Differences of two configurations; long values are marked and cut."""
    return tuple(
        Change(knob=named(each.knob), before=_value(each.before), after=_value(each.after)) for each in found
    )


def _value(value: KnobValue | None) -> KnobValue | Quoted | None:
    return named(value) if isinstance(value, str) else value


class Done(Answer):
    """What a write did: the label of what was made or changed, and what follows in a sentence."""

    id: str
    said: str
    author: str
