"""What would fit where a plan does not: by the space's own knobs, a shorter context, a card. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from agent.plan.memory import Room, usable_bytes
from configs.errors import UsageError
from configs.hardware import HardwareProfile
from configs.quantities import format_bytes
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.knob import written
from experiments.space.space import Space

MOST_CHANGES = 3
"""Changes that a way out makes at once; with more it is another model."""

MOST_WAYS = 3
"""Ways out that a sentence names."""

GB = 1e9

Needed = Callable[[Configuration], int]
"""Bytes that are needed with a configuration in this one's place."""


@dataclass(frozen=True)
class WayOut:
    """A change that makes it fit: in words, and the bytes that are needed then."""

    words: str
    needed_bytes: int


def ways_out(
    space: Space,
    configuration: Configuration,
    needed_with: Needed,
    room: Room,
    refused: Callable[[Configuration], str | None],
) -> tuple[WayOut, ...]:
    """Configurations that fit where this one does not, the smallest change first: at most `MOST_WAYS`.

    Each is reached by the fewest knobs, at most `MOST_CHANGES`, where `refused` gives no reason against it.
    Of equally many, those come first that need the most, and so change the least.
    """
    seen = {configuration.digest}
    frontier = [configuration]
    for _ in range(MOST_CHANGES):
        found: list[tuple[int, Configuration]] = []
        reached: list[tuple[int, Configuration]] = []
        for start in frontier:
            for each in space.neighbours(start):
                if each.digest in seen or refused(each) is not None:
                    continue
                seen.add(each.digest)
                needed = needed_with(each)
                reached.append((needed, each))
                if needed <= room.usable_bytes:
                    found.append((needed, each))
        if found:
            return _distinct(space, configuration, sorted(found, key=lambda it: (-it[0], it[1].digest)))
        # only the leanest lead further, or a large space would be walked through
        leanest = sorted(reached, key=lambda it: (it[0], it[1].digest))
        frontier = [each for _, each in leanest[:MOST_WAYS]]
    return ()


def _distinct(
    space: Space, start: Configuration, found: Sequence[tuple[int, Configuration]]
) -> tuple[WayOut, ...]:
    """The first of each set of levers, so that three settings of one knob are no three ways out."""
    taken: dict[tuple[str, ...], tuple[int, Configuration]] = {}
    for needed, each in found:
        taken.setdefault(space.levers_between(start, each), (needed, each))
    chosen = list(taken.values())[:MOST_WAYS]
    return tuple(
        WayOut(assignments_words(assignments_between(space, start, each)), needed) for needed, each in chosen
    )


def assignments_between(space: Space, before: Configuration, after: Configuration) -> dict[str, KnobValue]:
    """The fewest assignments that lead from one to the other: what defaults bring is left out."""
    chosen = {change.knob: change.after for change in before.changes_to(after) if change.after is not None}
    for knob in sorted(chosen):
        rest = {name: value for name, value in chosen.items() if name != knob}
        with suppress(UsageError):
            if rest and space.with_change(before, rest) == after:
                chosen = rest
    return chosen


def assignments_words(assignments: Mapping[str, KnobValue]) -> str:
    """Assignments as a user writes them, with commas between."""
    return ", ".join(f"{knob}={written(value)}" for knob, value in sorted(assignments.items()))


def longest_context(needed_at: Callable[[int], int], below: int, available_bytes: int) -> int:
    """The most tokens of context, fewer than `below`, at which it fits; 0 if it does at none."""
    fits, fails = 0, below
    while fails - fits > 1:
        middle = (fits + fails) // 2
        if needed_at(middle) <= available_bytes:
            fits = middle
        else:
            fails = middle
    return fits


def smallest_card(needed: int, cards: Sequence[HardwareProfile]) -> HardwareProfile | None:
    """The card with the least memory on which so many bytes fit; None where they do on none."""
    large = [each for each in cards if needed <= usable_bytes(each.memory_bytes)]
    return min(large, key=lambda each: (each.memory_bytes, each.name), default=None)


def sentence(
    room: Room,
    where: str,
    ways: Sequence[WayOut] = (),
    context: int = 0,
    card: HardwareProfile | None = None,
    limit_bytes: int | None = None,
) -> str:
    """Whether it fits, in a sentence with its figures and what would fit; `context` is the longest that does
    (0: none), `limit_bytes` what launches would have to be allowed where the card has as much."""
    figures = (
        f"{format_bytes(room.needed_bytes)}, and {format_bytes(room.usable_bytes)} of {where} may be taken"
    )
    if room.fits:
        return f"{room.what} fits: it needs {figures}."
    told = [f"{way.words} ({format_bytes(way.needed_bytes)})" for way in ways]
    if context:
        told.append(f"a context of at most {context:,} tokens")
    if limit_bytes is not None:
        told.append(f"--memory {math.ceil(10 * limit_bytes / GB) / 10:g}GB")
    if card is not None:
        size = f"{card.memory_bytes / GB:.0f} GB"
        told.append(f"a card such as {card.title}" + ("" if card.title.endswith(size) else f" ({size})"))
    would = "; ".join(told) or "nothing that this space has"
    missing = f"{format_bytes(room.missing_bytes)} missing"
    return f"{room.what} does not fit: {missing}, it needs {figures}; would fit: {would}."
