"""Caps and minimum shares: an order in which no lever gets more, and none less, than was said. Pure.

The order is walked from its first place on, counting tests and seconds by lever from what the campaign has
used already, as if everything placed were tested.

- A **cap** of tests or of time holds back what would go beyond it, by what that is expected to take; a cap
  of a share (of all tests) lets a lever's next test come once `tests of the lever + 1 ≤ share × (all + 1)`.
  What never fits is held back. A cap holds over everything, pins included: it says what must not run.
- A **minimum share** (reserve) is behind as long as `tests of the lever < share × (all + 1)`; then the first
  of its lever comes next. Of several that are behind, the one whose next test is due soonest, at test
  ⌈(its tests + 1) / share⌉: the earliest deadline first, which keeps every lever of one that began at no test
  at or above ⌊share × tests⌋ while the shares add up to 1 at most (the windows of Baruah et al. 1996,
  "Proportionate progress"). It overtakes what a score has placed: no pin, not the question of the night,
  nothing that was moved by hand or that the campaign's file asks.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias

from agent.ranking.values import Directive, Used
from db.states import DirectiveKind

TINY = 1e-9
"""What a share of tests may differ from a whole number and be it: 0.1 × 3 is no more than 0.3."""


class Hold(IntEnum):
    """What may overtake an item of the order."""

    FREE = 0
    """What a minimum share brings forward."""
    MOVED = 1
    """Nothing, once its place has come: it was moved there by hand."""
    FIXED = 2
    """Nothing."""


@dataclass(frozen=True)
class Item:
    """A member of the order: its levers and expected seconds. `exempt` from caps is the confirmation."""

    levers: tuple[str, ...]
    cost_s: float
    hold: Hold = Hold.FREE
    exempt: bool = False


@dataclass(frozen=True)
class Allotted:
    """The new order, of indices into the items; what is held back comes last, with the cap that holds it.

    `reserved` are those that stand where they stand for a minimum share, `early` those that a cap of a share
    does not let run before others did, both with the directive; `owed` those of a lever that is behind its
    minimum share by what has been used already.
    """

    order: tuple[int, ...]
    held: Mapping[int, Directive] = field(default_factory=dict)
    reserved: Mapping[int, Directive] = field(default_factory=dict)
    early: Mapping[int, Directive] = field(default_factory=dict)
    owed: frozenset[int] = frozenset()


def allot(items: Sequence[Item], directives: Sequence[Directive], used: Used) -> Allotted:
    """Put items, given in their order, into the order that caps and minimum shares allow.

    Of several directives of a kind about a lever the newest counts; others than caps and reserves are left
    out. Without any the order is as it was.
    """
    caps, reserves = _newest(directives, DirectiveKind.CAP), _newest(directives, DirectiveKind.RESERVE)
    if not caps and not reserves:
        return Allotted(tuple(range(len(items))))
    return _Walk(items, caps, reserves, used).walk()


def is_behind(reserve: Directive, used: Used) -> bool:
    """Whether the next test must be of the reserve's lever, by what has been used."""
    share, lever = reserve.share or 0.0, reserve.lever or ""
    return used.of_lever.get(lever, 0) < share * (used.tests + 1) - TINY


def is_used_up(cap: Directive, used: Used) -> bool:
    """Whether a cap lets nothing more of its lever run, whatever else runs."""
    lever = cap.lever or ""
    if cap.tests is not None:
        return used.of_lever.get(lever, 0) >= cap.tests
    return cap.time_s is not None and used.seconds_of.get(lever, 0.0) >= cap.time_s


def _newest(directives: Sequence[Directive], kind: DirectiveKind) -> dict[str, Directive]:
    by_event = sorted(directives, key=lambda each: each.event_id)
    return {each.lever: each for each in by_event if each.kind == kind and each.lever is not None}


_Kind: TypeAlias = tuple[Hold, bool, tuple[str, ...]]
"""What of an item caps and reserves ask: its hold, whether it is exempt, and which of their levers it has."""

_Head: TypeAlias = tuple[int, _Kind]
"""The first item of its kind that waits."""


class _Walk:
    """One walk: counts so far, and lines of items that wait for their place."""

    def __init__(
        self,
        items: Sequence[Item],
        caps: Mapping[str, Directive],
        reserves: Mapping[str, Directive],
        used: Used,
    ) -> None:
        self.items = items
        self.caps, self.reserves = caps, reserves
        self.tests = used.tests
        self.counts = Counter(used.of_lever)
        self.seconds = defaultdict(float, used.seconds_of)
        self.order: list[int] = []
        self.held: dict[int, Directive] = {}
        self.reserved: dict[int, Directive] = {}
        named = caps.keys() | reserves.keys()
        self.lines: dict[_Kind, deque[int]] = {}
        self.early: dict[int, Directive] = {}
        owed = {lever for lever, each in reserves.items() if is_behind(each, used)}
        self.owed = frozenset(k for k, each in enumerate(items) if owed.intersection(each.levers))
        for k, item in enumerate(items):
            touched = tuple(lever for lever in item.levers if lever in named)
            line = self.lines.setdefault((item.hold, item.exempt, touched), deque())
            line.append(k)
            early = None if item.exempt else self._too_early(touched)
            if early is not None:
                self.early[k] = early

    def walk(self) -> Allotted:
        while True:
            heads = self._heads()
            if not heads:
                break
            first = min(heads, key=lambda head: head[0])
            moved = [head for head in heads if self._has_come(head[0])]
            chosen = min(moved, key=lambda head: head[0], default=first)
            if not moved and self.items[first[0]].hold is Hold.FREE:
                chosen = self._reserved(heads, first)
            self._place(*chosen)
        for (_, _, touched), line in self.lines.items():
            cap = self._too_early(touched)
            assert cap is not None  # else its head could have been placed
            self.held.update(dict.fromkeys(line, cap))
        early = {k: cap for k, cap in self.early.items() if k not in self.held}
        last = tuple(sorted(self.held))
        return Allotted((*self.order, *last), self.held, self.reserved, early, self.owed)

    def _heads(self) -> list[_Head]:
        """The first item of each line that may come next; what is used up leaves its line."""
        found = []
        for key in list(self.lines):
            _, exempt, touched = key
            line = self.lines[key]
            if not exempt and touched:
                self._hold_back(line, touched)
            if not line:
                del self.lines[key]
            elif exempt or self._too_early(touched) is None:
                found.append((line[0], key))
        return found

    def _hold_back(self, line: deque[int], touched: Sequence[str]) -> None:
        for lever in touched:
            cap = self.caps.get(lever)
            if cap is None:
                continue
            if cap.tests is not None and self.counts[lever] >= cap.tests:
                self.held.update(dict.fromkeys(line, cap))
                line.clear()
            while cap.time_s is not None and line:
                if self.seconds[lever] + self.items[line[0]].cost_s <= cap.time_s:
                    break
                self.held[line.popleft()] = cap

    def _too_early(self, touched: Sequence[str]) -> Directive | None:
        """The cap of a share that one test more of these levers would exceed now."""
        for lever in touched:
            cap = self.caps.get(lever)
            share = None if cap is None else cap.share
            if share is not None and self.counts[lever] + 1 > share * (self.tests + 1) + TINY:
                return cap
        return None

    def _has_come(self, k: int) -> bool:
        """Whether this was moved by hand to a place that the walk has reached."""
        return self.items[k].hold is Hold.MOVED and k <= len(self.order) + len(self.held)

    def _reserved(self, heads: Sequence[_Head], first: _Head) -> _Head:
        """The first of the lever whose minimum share is most urgently behind; the first of all if none is."""
        behind = []
        for lever, reserve in self.reserves.items():
            share = reserve.share or 0.0
            if self.counts[lever] < share * (self.tests + 1) - TINY:
                due = math.ceil((self.counts[lever] + 1) / share - TINY)
                behind.append((due, reserve.event_id, lever, reserve))
        for _, _, lever, reserve in sorted(behind, key=lambda each: each[:2]):
            own = [head for head in heads if head[1][0] is Hold.FREE and lever in head[1][2]]
            if own:
                chosen = min(own, key=lambda head: head[0])
                self.reserved[chosen[0]] = reserve
                return chosen
        return first

    def _place(self, k: int, key: _Kind) -> None:
        self.lines[key].popleft()
        self.order.append(k)
        self.tests += 1
        for lever in key[2]:
            self.counts[lever] += 1
            self.seconds[lever] += self.items[k].cost_s
