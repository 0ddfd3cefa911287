"""The effect of each pair with the interval as it stood after it, up to where the plan would have gone. Pure.

Positions are per cent of the plot, from its left and its top; the band's paths are in thousandths, to be
stretched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.charts.axis import Axis, Tick, axis_of

SIZE = 1000
"""Width and height of a path's own space."""


@dataclass(frozen=True)
class PairMark:
    """One pair: its number from 1, its effect in per cent, and the interval over all pairs up to it, where
    there is one."""

    number: int
    effect: float
    validation: bool
    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Dot:
    """A pair on the plot."""

    x: float
    y: float
    mark: PairMark


@dataclass(frozen=True)
class Course:
    """Everything that is drawn; `ran` is where the pairs that were run end, `validates` where those of the
    validation begin, None where there is none."""

    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    dots: tuple[Dot, ...]
    band: str
    low_line: str
    high_line: str
    mean_line: str
    zero: float
    worth: float
    ran: float
    not_run: int
    validates: float | None
    end: float
    end_anchor: str
    end_shift: int


def course_chart(marks: Sequence[PairMark], planned: int, worth: float) -> Course:
    """The course of at least one pair; `planned` is the most there could be, `worth` the effect in per cent
    that is worth having."""
    count = max(planned, len(marks))
    last = marks[-1]
    ends = [value for value in (last.low, last.high) if value is not None]
    axis = axis_of([0.0, worth, *ends, *(each.effect for each in marks)])
    held = [each for each in marks if each.low is not None and each.high is not None]
    lows = [(_x(each.number, count), _y(each.low or 0.0, axis)) for each in held]
    highs = [(_x(each.number, count), _y(each.high or 0.0, axis)) for each in held]
    means = [(_x(each.number, count), _y(each.mean, axis)) for each in marks]
    first = next((each.number for each in marks if each.validation), None)
    end = _x(last.number, count)
    inside = end <= 60
    return Course(
        x_ticks=_numbers(count),
        y_ticks=tuple(Tick(round(100 - each.place, 3), _signed(each.label)) for each in axis.ticks()),
        dots=tuple(Dot(_x(each.number, count), _y(each.effect, axis), each) for each in marks),
        band=_line([*highs, *lows[::-1]]) + "Z" if len(held) > 1 else "",
        low_line=_line(lows),
        high_line=_line(highs),
        mean_line=_line(means),
        zero=_y(0.0, axis),
        worth=_y(worth, axis),
        ran=round(100 * len(marks) / count, 3),
        not_run=count - len(marks),
        validates=None if first is None else round(100 * (first - 1) / count, 3),
        end=_y(last.mean, axis),
        end_anchor="start" if inside else "end",
        end_shift=12 if inside else -12,
    )


def _x(number: int, count: int) -> float:
    return round(100 * (number - 0.5) / count, 3)


def _y(value: float, axis: Axis) -> float:
    return round(100 - axis.place(value), 3)


def _line(points: Sequence[tuple[float, float]]) -> str:
    scale = SIZE / 100
    return "".join(
        f"{'L' if number else 'M'}{x * scale:.1f} {y * scale:.1f}" for number, (x, y) in enumerate(points)
    )


def _numbers(count: int) -> tuple[Tick, ...]:
    step = max(1, -(-count // 9))
    return tuple(Tick(_x(number, count), str(number)) for number in range(1, count + 1, step))


def _signed(label: str) -> str:
    return label if label.startswith("\u2212") or label.strip("0.,") == "" else f"+{label}"
