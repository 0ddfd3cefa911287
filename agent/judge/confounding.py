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
from dataclasses import dataclass, field
from fractions import Fraction
from statistics import median

from agent.judge.consequences import (
    VERSION_WORDS,
    explained,
    follows_from_linear_kernel,
    is_linear_kernel,
    words,
)
from agent.judge.once import once
from experiments.measurement.evidence import Json, LaunchRecord
from experiments.space.configuration import Change

HISTORY = frozenset({"calls", "reused", "package", "hits", "misses"})
"""Words of resolved keys that tell a launch's history (how often compiled code was called, whether it lay in
the cache) or a digest of what stands beside it, not what runs; they are not compared."""

CLOCK_WORDS = frozenset({"mhz", "ghz", "hz", "clock", "clocks"})
"""Words of keys whose numbers are frequencies."""

PACE_WORDS = CLOCK_WORDS | {"threads", "affinity", "cpus", "cores"}
"""Words of keys that tell how fast something runs and not what it computes: nothing of a claim that is
judged without timing. A reference that was scored before had other clocks, and often another share of the
machine."""

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
    *,
    timed: bool = True,
) -> tuple[Difference, ...]:
    """What differs between the arms and no claimed change explains, by key.

    `pinned` are the resolved keys that the changed knobs pin, as the space declares them; clocks may differ
    by `clock_tolerance`, relative. Without `timed` nothing is compared that only tells how fast it ran.
    """
    before, after = _leaves_of(control), _leaves_of(candidate)
    found = []
    for key in sorted({*before, *after}):
        of_pace_alone = not timed and words(key) & PACE_WORDS
        if of_pace_alone or _tells_history(key) or explained(key, changes, pinned):
            continue
        one, other = before.get(key, _Leaf()), after.get(key, _Leaf())
        if not _alike(key, one, other, clock_tolerance):
            found.append(Difference(key, *_shown(key, one, other)))
    return tuple(found)


def scored_otherwise(timed: Iterable[LaunchRecord], scored: Iterable[LaunchRecord]) -> tuple[Difference, ...]:
    """What an arm's launches ran when its quality was scored and did not run when it was timed, by key.

    Clocks are left out: scoring keeps a device busier than one request at a time does. Where either tells
    nothing there is nothing to compare.
    """
    before, after = _leaves_of(timed), _leaves_of(scored)
    if not before or not after:
        return ()
    found = []
    for key in sorted(after):
        one, other = before.get(key, _Leaf()), after[key]
        compared = not _tells_history(key) and not words(key) & CLOCK_WORDS
        if compared and not other.values.keys() <= one.values.keys():
            found.append(Difference(key, *_shown(key, one, other)))
    return tuple(found)


def clauses(found: Iterable[Difference]) -> list[str]:
    """The differences in words. What follows from another one is named with it, since it is no second cause:
    how weights lie once they are loaded, from the kernel of linear layers that loads them so."""
    told = list(found)
    kernel = next((each for each in told if is_linear_kernel(each.key)), None)
    following = [each for each in told if kernel and follows_from_linear_kernel(each.key)]
    with_it = f", and with it {', '.join(each.key for each in following)}" if following else ""
    return [each.sentence() + (with_it if each is kernel else "") for each in told if each not in following]


def sentence(found: Collection[Difference], changes: Iterable[Change]) -> str:
    """What the guard says: the claimed change, and the first differences beyond it."""
    named = clauses(found)
    shown = "; ".join(named[:MOST_SHOWN])
    more = f"; and {len(named) - MOST_SHOWN} more" if len(named) > MOST_SHOWN else ""
    claimed = ", ".join(str(change) for change in changes) or "nothing"
    return f"What ran differs by more than the claimed change ({claimed}): {shown}{more}."


def _tells_history(key: str) -> bool:
    found = words(key)
    return bool(found & HISTORY) and not found & VERSION_WORDS


@dataclass(frozen=True)
class _Leaf:
    """The values that a key took in an arm of `launches` launches, by their canonical text: each with the
    launches that told it, a launch that was measured further once."""

    launches: int = 0
    values: dict[str, object] = field(default_factory=dict)
    told_by: dict[str, set[int]] = field(default_factory=dict)

    @property
    def shares(self) -> dict[str, Fraction]:
        """The share of the launches that told each value."""
        return {text: Fraction(len(told), self.launches) for text, told in self.told_by.items()}

    @property
    def numbers(self) -> list[float] | None:
        """The values as numbers, launch by launch; None where one is no number, or none was told."""
        found = [
            number
            for text, told in self.told_by.items()
            for number in _numbers([self.values[text]] * len(told))
        ]
        return found if found and len(found) == sum(map(len, self.told_by.values())) else None


def _alike(key: str, one: _Leaf, other: _Leaf, clock_tolerance: float) -> bool:
    if one.shares == other.shares:
        return True
    before, after = one.numbers, other.numbers
    if not words(key) & CLOCK_WORDS or before is None or after is None:
        return False
    low, high = sorted((median(before), median(after)))
    return low > 0 and high / low - 1 <= clock_tolerance


def _leaves_of(records: Iterable[LaunchRecord]) -> dict[str, _Leaf]:
    """Every leaf that the launches tell, by dotted key."""
    told = list(records)
    launches = len({record.index for record in told})
    found: dict[str, _Leaf] = {}
    for record in told:
        for key, value, text in _told(record):
            leaf = found.setdefault(key, _Leaf(launches))
            leaf.values[text] = value
            leaf.told_by.setdefault(text, set()).add(record.index)
    return found


@once
def _told(record: LaunchRecord) -> tuple[tuple[str, object, str], ...]:
    """What a launch tells: dotted keys, values, and their canonical texts."""
    leaves = (*_leaves("", dict(record.resolved)), *_gpu_clocks(record))
    return tuple((key, value, _canonical(value)) for key, value in leaves if value is not None)


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


def _shown(key: str, one: _Leaf, other: _Leaf) -> tuple[str, str]:
    """What a sentence says of both arms; how often, where they took the same values."""
    often = one.values.keys() == other.values.keys()
    return _words_of(key, one, often), _words_of(key, other, often)


def _words_of(key: str, leaf: _Leaf, often: bool) -> str:
    if not leaf.values:
        return UNTOLD
    if words(key) & CLOCK_WORDS and leaf.numbers is not None:
        return f"{median(leaf.numbers):g}"
    counts = {
        text: f" ({len(told)} of {leaf.launches} launches)" if often else ""
        for text, told in leaf.told_by.items()
    }
    return " or ".join(
        sorted(
            (value if isinstance(value, str) else text) + counts[text] for text, value in leaf.values.items()
        )
    )
