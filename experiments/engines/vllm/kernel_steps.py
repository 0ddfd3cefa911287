"""The kernels of each decode step, out of a trace of the device. Pure; imports no torch.

A trace is what `kernel_trace.py` gives: kernels in the order of their start, and marks, which lie in the same
order and say in which part of a step the engine was when it queued what follows. A CUDA graph replays
kernels without any range of Python's around them; marks are queued outside of graphs, and so split every
step all the same.

Where two kernels run at once an instant belongs to the one that began last. So the times of kernels add up
to the time in which any ran, whether one begins within the other (operators of a CPU) or before the other
has ended (kernels of a GPU that overlap).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Region(StrEnum):
    """Where in a step the engine was when it queued a kernel."""

    FORWARD = "forward"
    """From the beginning of a step: its inputs, then the layers."""
    HEAD = "head"
    SAMPLING = "sampling"
    DRAFTING = "drafting"
    BETWEEN = "between"
    """After a step's method has returned."""


@dataclass(frozen=True)
class Kernel:
    """A kernel of a step: `own_us` is the time that it adds, `start_us` counts from the step's beginning."""

    name: str
    region: Region
    start_us: float
    own_us: float
    grid: tuple[int, ...] = ()


STEP = "step"
"""The mark with which a step begins."""

Step = tuple[Kernel, ...]
"""The kernels of one step, in the order of their start."""


def steps_of(trace: Mapping[str, Any]) -> list[Step]:
    """The whole steps of a trace in order; the last is left out, for the trace may end within it.

    `trace` has `names`, `rows` of `[name's number, start_us, duration_us, grid or None]`, and `marks` of
    `[start_us, region]`, where `step` begins a step and its forward pass.
    """
    marks = sorted(((float(at), str(what)) for at, what in trace["marks"]), key=lambda mark: mark[0])
    begins = [at for at, what in marks if what == STEP]
    if len(begins) < 2:
        return []
    names, rows = trace["names"], sorted(trace["rows"], key=lambda row: row[1])
    own = own_times([(row[1], row[1] + row[2]) for row in rows])
    times = [at for at, _ in marks]
    steps: list[list[Kernel]] = [[] for _ in begins]
    for (number, start_us, _, grid), own_us in zip(rows, own, strict=True):
        place = bisect_right(begins, start_us) - 1
        if place < 0:
            continue
        what = marks[bisect_right(times, start_us) - 1][1]
        region = Region.FORWARD if what == STEP else Region(what)
        steps[place].append(
            Kernel(names[number], region, start_us - begins[place], own_us, tuple(grid or ()))
        )
    return [tuple(step) for step in steps[:-1]]


def settled(steps: Sequence[Step]) -> Sequence[Step]:
    """Steps of decoding alone: of those that give a token the later half, for prompts are read before it."""
    whole = [step for step in steps if any(kernel.region is Region.HEAD for kernel in step)]
    return whole[len(whole) // 2 :]


def own_times(spans: Sequence[tuple[float, float]]) -> list[float]:
    """The time of each span (start, end), in the order of start, in which none that began later ran."""
    own = [0.0] * len(spans)
    running: list[int] = []
    now = 0.0

    def until(moment: float) -> None:
        nonlocal now
        while running:
            last = running[-1]
            end = min(spans[last][1], moment)
            own[last] += max(0.0, end - now)
            now = max(now, end)
            if spans[last][1] > moment:
                break
            running.pop()

    for place, (start, _) in enumerate(spans):
        until(start)
        running.append(place)
        now = max(now, start)
    until(float("inf"))
    return own
