"""The confounder guard: what ran in the two arms, compared, beyond what the claimed change explains. Pure.

Compared is every leaf of the resolved configurations of the launches whose effect is judged, and the clocks
of the GPU as each block's environment tells them. Values are compared with their type, but for numbers: 2 and
2.0 are one. What a key's words call a clock is a measurement and not a setting, so the arms' medians are
compared, with a tolerance. Frequencies of CPU cores are not compared: the kernel states each at one
instant, and they move by more than any tolerance within milliseconds.

A value of None means that the engine does not know, and counts as not told.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from agent.judge.consequences import VERSION_WORDS, explained, words
from experiments.measurement.evidence import Json, LaunchRecord
from experiments.space.configuration import Change

HISTORY = frozenset({"calls", "reused", "package", "hits", "misses"})
"""Words of resolved keys that tell a launch's history (how often compiled code was called, whether it lay in
the cache) or a digest of what stands beside it, not what runs; they are not compared."""

CLOCK_WORDS = frozenset({"mhz", "ghz", "hz", "clock", "clocks"})
"""Words of keys whose numbers are frequencies."""

CLOCK_TOLERANCE = 0.03
"""Relative difference of the arms' median clocks up to which they count as equal, at most: as large as the
default `min_effect`, so that no clock within it can make such an effect alone."""

GPU_CLOCKS = ("sm_mhz", "memory_mhz")
"""The clocks that a block's environment tells of a GPU, in MHz."""

MOST_SHOWN = 3
"""Differences that a sentence names; the others are counted."""

UNTOLD = "not told"
"""What stands for a value that an arm does not tell."""


@dataclass(frozen=True)
class Difference:
    """One key at which the arms differ: the values that each took, as they are shown."""

    key: str
    control: str
    candidate: str

    def sentence(self) -> str:
        """Such as: linear_kernel is marlin in the control, machete in the candidate."""
        return f"{self.key} is {self.control} in the control, {self.candidate} in the candidate"


def silent_launches(records: Iterable[LaunchRecord]) -> tuple[LaunchRecord, ...]:
    """The launches that tell nothing of what ran although another of these does."""
    found = tuple(records)
    silent = tuple(record for record in found if not record.resolved)
    return silent if len(silent) < len(found) else ()


def differences(
    control: Iterable[LaunchRecord],
    candidate: Iterable[LaunchRecord],
    changes: Collection[Change],
    pinned: Collection[str] = (),
    clock_tolerance: float = CLOCK_TOLERANCE,
) -> tuple[Difference, ...]:
    """What differs between the arms and no claimed change explains, by key.

    `pinned` are the resolved keys that the changed knobs pin, as the space declares them; clocks may differ
    by `clock_tolerance`, relative.
    """
    before, after = _leaves_of(control), _leaves_of(candidate)
    found = []
    for key in sorted({*before, *after}):
        if _tells_history(key) or explained(key, changes, pinned):
            continue
        one, other = before.get(key, {}), after.get(key, {})
        if not _alike(key, one, other, clock_tolerance):
            found.append(Difference(key, _shown(key, one), _shown(key, other)))
    return tuple(found)


def sentence(found: Collection[Difference], changes: Iterable[Change]) -> str:
    """What the guard says: the claimed change, and the first differences beyond it."""
    named = list(found)
    shown = "; ".join(each.sentence() for each in named[:MOST_SHOWN])
    more = f"; and {len(named) - MOST_SHOWN} more" if len(named) > MOST_SHOWN else ""
    claimed = ", ".join(str(change) for change in changes) or "nothing"
    return f"What ran differs by more than the claimed change ({claimed}): {shown}{more}."


def _tells_history(key: str) -> bool:
    found = words(key)
    return bool(found & HISTORY) and not found & VERSION_WORDS


def _alike(key: str, one: Mapping[str, object], other: Mapping[str, object], clock_tolerance: float) -> bool:
    if one.keys() == other.keys():
        return True
    if not words(key) & CLOCK_WORDS:
        return False
    before, after = _numbers(one.values()), _numbers(other.values())
    if not before or not after or len(before) < len(one) or len(after) < len(other):
        return False
    low, high = sorted((median(before), median(after)))
    return low > 0 and high / low - 1 <= clock_tolerance


def _leaves_of(records: Iterable[LaunchRecord]) -> dict[str, dict[str, object]]:
    """Every leaf that the launches tell, by dotted key: the values that it took, by their canonical text."""
    found: dict[str, dict[str, object]] = {}
    for record in records:
        for key, value in (*_leaves("", dict(record.resolved)), *_gpu_clocks(record)):
            if value is not None:
                found.setdefault(key, {})[_canonical(value)] = value
    return found


def _leaves(prefix: str, value: object) -> Iterable[tuple[str, object]]:
    if isinstance(value, Mapping):
        for key in sorted(value, key=str):
            yield from _leaves(f"{prefix}.{key}" if prefix else str(key), value[key])
    else:
        yield prefix, value


def _gpu_clocks(record: LaunchRecord) -> Iterable[tuple[str, object]]:
    """The launch's median clocks over the moments before and after its blocks; none where none is told."""
    blocks = record.environment.get("blocks")
    moments = [
        gpu
        for block in (blocks if isinstance(blocks, list) else [])
        if isinstance(block, dict)
        for side in ("before", "after")
        if isinstance(moment := block.get(side), dict) and isinstance(gpu := moment.get("gpu"), dict)
    ]
    for name in GPU_CLOCKS:
        told = _numbers(gpu.get(name) for gpu in moments)
        if told:
            yield f"gpu.{name}", median(told)


def _numbers(values: Iterable[object]) -> list[float]:
    return [
        float(value)
        for value in values
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    ]


def _canonical(value: object) -> str:
    """One text for equal values: types are kept apart, but 2 and 2.0 are one number."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=_foreign)


def _foreign(value: object) -> Json:
    """What JSON has no word for: a set as its sorted texts, anything else as its type and its text."""
    if isinstance(value, set | frozenset):
        return [*sorted(map(str, value))]
    return f"{type(value).__name__} {value!s}"


def _shown(key: str, values: Mapping[str, object]) -> str:
    if not values:
        return UNTOLD
    if words(key) & CLOCK_WORDS and (told := _numbers(values.values())):
        return f"{median(told):g}"
    return " or ".join(
        sorted(value if isinstance(value, str) else _canonical(value) for value in values.values())
    )
