"""A configuration: one immutable, canonical, hashable point of the space."""

from __future__ import annotations

import hashlib
import json
from collections.abc import ItemsView, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import TypeVar, overload

KnobValue = str | int | float | bool
"""What a knob may hold. Whole floats are not integers: 1.0 and 1 are different values."""

Other = TypeVar("Other")


@dataclass(frozen=True, order=True)
class Change:
    """One knob's difference between two configurations; `None` stands for a knob that is not active."""

    knob: str
    before: KnobValue | None
    after: KnobValue | None

    def __str__(self) -> str:
        return f"{self.knob} {_shown(self.before)} → {_shown(self.after)}"


@dataclass(frozen=True)
class Configuration(Mapping[str, KnobValue]):
    """Active knobs and their values, sorted by knob name.

    Build one with `Space.configuration(...)`, which validates; `of` only puts into canonical form.
    Two configurations are equal exactly when their digests are.
    """

    items_: tuple[tuple[str, KnobValue], ...]

    @classmethod
    def of(cls, knobs: Mapping[str, KnobValue]) -> Configuration:
        """The canonical form of a mapping of dotted knob names to values; −0.0 becomes 0.0."""
        items = [(name, value + 0.0 if isinstance(value, float) else value) for name, value in knobs.items()]
        return cls(tuple(sorted(items, key=itemgetter(0))))

    def __getitem__(self, knob: str) -> KnobValue:
        return self._values[knob]

    @overload
    def get(self, knob: str, /) -> KnobValue | None: ...

    @overload
    def get(self, knob: str, /, default: KnobValue | Other) -> KnobValue | Other: ...

    def get(self, knob: str, /, default: KnobValue | Other | None = None) -> KnobValue | Other | None:
        """The value of a knob, `default` where it is not active: planners ask by the million."""
        return self._values.get(knob, default)

    def __contains__(self, knob: object) -> bool:
        return knob in self._values

    def items(self) -> ItemsView[str, KnobValue]:
        """The knobs and their values; a mapping's own way would look up each anew."""
        return self._values.items()

    @cached_property
    def _values(self) -> dict[str, KnobValue]:
        return dict(self.items_)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.items_)

    def __len__(self) -> int:
        return len(self.items_)

    def canonical_json(self) -> str:
        """The text that is hashed and stored: sorted keys, no spaces, types kept apart."""
        return json.dumps(dict(self.items_), sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON, 64 hexadecimal characters."""
        return hashlib.sha256(self.canonical_json().encode()).hexdigest()

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self.items_)

    def __getstate__(self) -> dict[str, object]:
        """Without what was derived: the hash of text is another one in each process."""
        return {"items_": self.items_}

    def __eq__(self, other: object) -> bool:
        """By the items and their types, which is what digests say, and takes no JSON to be made."""
        if self is other:
            return True
        if not isinstance(other, Configuration) or self.items_ != other.items_:
            return False
        return all(type(mine[1]) is type(its[1]) for mine, its in zip(self.items_, other.items_, strict=True))

    def changes_to(self, other: Configuration) -> tuple[Change, ...]:
        """What differs from here to `other`, by knob name; empty when they are equal."""
        return tuple(Change(knob, self.get(knob), other.get(knob)) for knob in self.differing(other))

    def differing(self, other: Configuration) -> list[str]:
        """The names of the knobs in which `other` differs, sorted."""
        mine, theirs = self._values, other._values
        differing = [
            knob
            for knob, before in mine.items()
            if (after := theirs.get(knob)) is not before
            and (type(before) is not type(after) or before != after)
        ]
        differing += theirs.keys() - mine.keys()
        return sorted(differing)

    def __str__(self) -> str:
        return ", ".join(f"{name}={_shown(value)}" for name, value in self.items_)


def _shown(value: KnobValue | None) -> str:
    if value is None:
        return "—"
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
