"""Parts of an experiment's page made from its facts: both arms by line, stages in time, the machine. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from typing import Any

from db.states import Arm
from knowledge.machines import machine as named
from knowledge.queries.measured.experiment_detail import ExperimentDetail
from knowledge.queries.measured.resolved import flat
from knowledge.queries.measured.stages import StageView

SHORT = 90
"""Characters of a value that are shown, such as of a long list of layers."""


@dataclass(frozen=True)
class ArmRow:
    """A knob, or a part of what an arm resolved to, in both arms."""

    name: str
    control: Any
    candidate: Any
    differs: bool
    is_knob: bool


@dataclass(frozen=True)
class StageBar:
    """A run of a stage, with its place in the time from the first to the last, in per cent."""

    stage: str
    attempt: int
    outcome: str | None
    wall_s: float | None
    x: float
    width: float


def arm_rows(detail: ExperimentDetail) -> tuple[ArmRow, ...]:
    """The knobs of both arms, then what they resolved to; what differs stands first in each."""
    told = {each.name for each in detail.resolved_differences}
    resolved = [flat(detail.resolved.get(arm, {})) for arm in (Arm.CONTROL, Arm.CANDIDATE)]
    knobs = _rows(detail.control, detail.candidate, None)
    return (*knobs, *_rows(resolved[0], resolved[1], told))


def _rows(
    control: Mapping[str, Any], candidate: Mapping[str, Any] | None, differing: set[str] | None
) -> tuple[ArmRow, ...]:
    other = candidate or {}
    rows = []
    for name in sorted({*control, *other}):
        one, two = control.get(name), other.get(name)
        differs = (candidate is not None and one != two) if differing is None else name in differing
        rows.append(ArmRow(name, _short(one), _short(two), differs, differing is None))
    return tuple(sorted(rows, key=lambda each: not each.differs))


def _short(value: Any) -> Any:
    """As it is told: a list by its runs, such as `3× linear_attention, full_attention`, and nothing long."""
    if isinstance(value, list | tuple):
        runs = [(each, len(list(alike))) for each, alike in groupby(value)]
        value = ", ".join(f"{count}× {each}" if count > 1 else str(each) for each, count in runs)
    text = str(value)
    return f"{text[:SHORT]}…" if len(text) > SHORT else value


def stage_bars(stages: Sequence[StageView]) -> tuple[StageBar, ...]:
    """The runs of stages on one axis of time."""
    if not stages:
        return ()
    first = min(each.started_at for each in stages)
    last = max(each.started_at + timedelta(seconds=each.wall_s or 0.0) for each in stages)
    whole_s = (last - first).total_seconds() or 1.0
    return tuple(
        StageBar(
            each.stage,
            each.attempt,
            None if each.outcome is None else each.outcome.value,
            each.wall_s,
            round(100 * (each.started_at - first).total_seconds() / whole_s, 2),
            round(100 * (each.wall_s or 0.0) / whole_s, 2),
        )
        for each in stages
    )


def machine(detail: ExperimentDetail) -> dict[str, Any]:
    """What all launches told of the machine alike, by dotted name, and the versions of the software."""
    told = [
        flat({name: value for name, value in data.items() if name != "blocks"})
        for data in detail.environments.values()
    ]
    first = told[0] if told else {}
    same = {name: value for name, value in first.items() if all(each.get(name) == value for each in told)}
    return {**same, **{f"versions.{name}": value for name, value in (detail.versions or {}).items()}}


def machine_in_short(detail: ExperimentDetail) -> tuple[tuple[str, str], ...]:
    """What matters most of the machine, as a name and words."""
    known = machine(detail)
    told = detail.versions or {}
    versions = [f"{name} {told[name]}" for name in _SOFTWARE if told.get(name)]
    cores = known.get("machine.cpu.cores")
    processor = known.get("machine.cpu.name")
    graphics = known.get("machine.gpu.name") or known.get("machine.gpu")
    rows = [
        ("Software", ", ".join(versions)),
        ("GPU", str(graphics) if graphics else ""),
        ("CPU", f"{processor}, {cores} cores" if processor and cores else str(processor or "")),
        ("Target", named(detail.target)),
        ("Device", detail.device or ""),
        ("Revision", str(known.get("machine.git_revision") or "")[:12]),
    ]
    return tuple((name, words) for name, words in rows if words)


_SOFTWARE = ("autoinfer", "vllm", "torch", "transformers", "python")
"""Packages that are told without being asked."""
