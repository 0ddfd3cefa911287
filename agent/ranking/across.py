"""Tests of several targets in one order: what they cost in one currency, and why one stands before another.
Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias, overload

import numpy as np
import numpy.typing as npt

from agent.ranking.values import Candidate, There
from configs.quantities import format_duration, format_usd
from db.labels import Noun, format_label

WAITING_COUNTS = 0.1
"""How much a second of waiting for a machine counts beside a second of a device: it delays one verdict, while
every device goes on with other work; a device that is at work delays all that stands behind. A judgement."""

SECONDS_OF_AN_HOUR = 3600.0

REMEMBERED = 1024
"""Tests on other targets whose words are remembered."""

ABOUT_AS_FAST = 0.05
"""Relative difference of speeds up to which a target is called as fast as another."""

Array = npt.NDArray[np.float64]


@overload
def price_s(usd: float, usd_per_hour: float) -> float: ...
@overload
def price_s(usd: Array, usd_per_hour: float) -> Array: ...
def price_s(usd: float | Array, usd_per_hour: float) -> float | Array:
    """The seconds that dollars count as, where an hour is worth so many."""
    return SECONDS_OF_AN_HOUR * usd / usd_per_hour


def elsewhere_reason(there: There, candidate: Candidate, weighed_s: float, usd_per_hour: float) -> str:
    """The part of a reason that tells what a test on another target takes: where, how fast that is, the wait,
    what must be built there, and what all of it counts as."""
    counts = ""
    if candidate.usd is not None:
        counts = f"; with an hour worth {format_usd(usd_per_hour)} that counts as {_seconds(weighed_s)}"
    takes, held = _there_words(there)
    return f"{takes}{counts}{held}"


@lru_cache(maxsize=REMEMBERED)
def _there_words(there: There) -> tuple[str, str]:
    """What a test there takes, and what holds it back; most of a queue's tests there take the same."""
    if abs(there.speed - 1) <= ABOUT_AS_FAST:
        speed = "as fast as here"
    elif there.speed > 1:
        speed = f"{there.speed:.2g}× as fast as here"
    else:
        speed = f"{1 / there.speed:.2g}× as slow as here"
    told = f" ({there.basis})" if there.basis else ""
    waits = f", {format_duration(round(there.wait_s))} of waiting" if round(there.wait_s) else ", no wait"
    waits += "" if there.is_wait_known else " by a guess"
    built = (
        f", {format_duration(round(there.build_s))} of it to build what only exists here"
        if round(there.build_s)
        else ", nothing to build there"
    )
    held = (
        "" if there.held is None else f"; not submitted: {there.held[0].lower()}{there.held[1:].rstrip('.')}"
    )
    return f"; confirms it on {there.target}, {speed}{told}{built}{waits}", held


def across_words(
    order: Sequence[int],
    candidates: Sequence[Candidate],
    weighed_s: Sequence[float],
    worth: Sequence[float],
    is_scored: Sequence[bool],
    usd_per_hour: float,
) -> list[str]:
    """What the reasons say across targets, in `order`: where two targets meet the one ahead says why, and
    what is last of another target says why it stands behind.

    `worth` and `weighed_s` are what a score divides; what is not `is_scored` stands where it stands by hand
    or by the campaign's file, and says nothing, as everything where all are for one target.
    """
    targets = [target_of(candidates[k]) for k in order]
    if len(set(targets)) < 2:
        return [""] * len(order)

    def why(ahead: int, behind: int, *, seen_from_behind: bool = False) -> str:
        if worth[ahead] <= 0 or worth[behind] <= 0 or not (is_scored[ahead] and is_scored[behind]):
            return ""
        by_gain = worth[ahead] / worth[behind]
        by_cost = weighed_s[behind] / weighed_s[ahead]
        if by_gain >= by_cost:
            return "that is expected to gain more" if seen_from_behind else "it is expected to gain more"
        return _dearest_part(parts_of(ahead), parts_of(behind), turned=seen_from_behind)

    parts: dict[int, Parts] = {}

    def parts_of(k: int) -> Parts:
        if k not in parts:
            parts[k] = _parts(candidates[k], usd_per_hour)
        return parts[k]

    found = []
    for at, k in enumerate(order):
        words = ""
        if at + 1 < len(order) and targets[at + 1] != targets[at]:
            words = _told("before", candidates[order[at + 1]], why(k, order[at + 1]))
        elif at and targets[at] and targets[at - 1] != targets[at]:
            words = _told("behind", candidates[order[at - 1]], why(order[at - 1], k, seen_from_behind=True))
        found.append(words)
    return found


def target_of(candidate: Candidate) -> str:
    """The target that it is for; empty for the campaign's own."""
    return "" if candidate.there is None else candidate.there.target


def _told(side: str, other: Candidate, why: str) -> str:
    if not why:
        return ""
    label, target = format_label(Noun.HYPOTHESIS, other.hypothesis_id), target_of(other)
    return f"; {side} {label} {f'on {target}' if target else 'here'} because {why}"


def _dearest_part(first: Parts, second: Parts, *, turned: bool) -> str:
    """The part of the cost by which the one ahead is cheaper most, with both values; `turned`: the other's
    first."""
    less = [theirs - own for (own, _), (theirs, _) in zip(first, second, strict=True)]
    part = less.index(max(less))
    mine, other = (second, first) if turned else (first, second)
    show = format_usd if part == PRICE_PART else _seconds
    return f"{PARTS[part]} {show(mine[part][1])}, against {show(other[part][1])}"


PARTS = ("its test takes", "what must be built for it takes", "its price is", "the wait for its machine is")
PRICE_PART = 2

Parts: TypeAlias = tuple[tuple[float, float], ...]
"""Of each of `PARTS`: weighed seconds, and seconds or dollars of its own."""


def _seconds(value: float) -> str:
    return format_duration(round(value))


def _parts(candidate: Candidate, usd_per_hour: float) -> Parts:
    """The parts of what it costs, as `PARTS`: in weighed seconds, and in seconds or dollars of its own."""
    there, usd = candidate.there, candidate.usd or 0.0
    build_s, wait_s = (0.0, 0.0) if there is None else (there.build_s, there.wait_s)
    test_s = candidate.cost_s - build_s
    return (
        (test_s, test_s),
        (build_s, build_s),
        (price_s(usd, usd_per_hour), usd),
        (WAITING_COUNTS * wait_s, wait_s),
    )
