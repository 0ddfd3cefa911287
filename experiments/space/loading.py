"""Reading a space from YAML, packaged or the user's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator
from pydantic.types import StrictBool, StrictFloat, StrictInt, StrictStr

from configs.catalog import Document, Kind, packaged_names, read_document
from configs.errors import UsageError
from configs.validation import validated
from experiments.space.configuration import KnobValue
from experiments.space.knob import WITH_EXPERTS, Knob, Pin, listed
from experiments.space.space import Space

MOST_VALUES = 10_000
"""The most values a range may expand to; a longer one is a mistake of writing."""

KNOB_NAME = r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+$"
"""A dotted knob name: a group, a dot and a name, in lower case."""

Value = Annotated[StrictBool | StrictInt | StrictFloat | StrictStr, Field(union_mode="smart")]
Built = TypeVar("Built")


class _Range(BaseModel):
    """Integers from `from` to `to`, both included, `step` apart."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    first: StrictInt = Field(alias="from")
    last: StrictInt = Field(alias="to")
    step: StrictInt = Field(default=1, ge=1)

    @model_validator(mode="after")
    def _is_finite(self) -> _Range:
        if not 0 < len(self.values()) <= MOST_VALUES:
            raise ValueError(f"a range holds 1 to {MOST_VALUES} values")
        return self

    def values(self) -> range:
        """All integers of the range."""
        return range(self.first, self.last + 1, self.step)


class _KnobEntry(BaseModel):
    """One knob as the file has it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=KNOB_NAME)
    lever: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    values: Annotated[
        Annotated[tuple[Value, ...], Field(min_length=1), Tag("list")] | Annotated[_Range, Tag("range")],
        Discriminator(lambda given: "range" if isinstance(given, dict | _Range) else "list"),
    ]
    default: Value
    also: StrictStr | None = None
    also_like: StrictStr = ""
    when: dict[str, Value | tuple[Value, ...]] = {}
    pins: dict[Annotated[str, Field(min_length=1)], dict[Value, Annotated[str, Field(min_length=1)]]] = {}
    help: str = Field(min_length=1)

    def knob(self) -> Knob:
        """The knob this entry defines."""
        values = tuple(self.values.values()) if isinstance(self.values, _Range) else self.values
        conditions = tuple(
            (other, allowed if isinstance(allowed, tuple) else (allowed,))
            for other, allowed in self.when.items()
        )
        return Knob(
            self.name,
            values,
            self.default,
            self.lever,
            conditions,
            self.help,
            self.also,
            self.also_like,
            tuple(Pin(key, tuple(reads.items())) for key, reads in self.pins.items()),
        )


class _SpaceFile(BaseModel):
    """A space as the file has it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    knobs: tuple[_KnobEntry, ...] = Field(min_length=1)


def load_space(name_or_path: str | Path) -> Space:
    """The space of this packaged name or YAML file.

    Raises `UsageError` that names the file for anything a space cannot be: see `Knob`, `Space`, and
    conditions on values that the other knob never has.
    """
    if name_or_path in packaged_names(Kind.SPACES):
        return _packaged(str(name_or_path))
    return space_of(read_document(Kind.SPACES, name_or_path))


@cache
def _packaged(name: str) -> Space:
    """A packaged space, read once: a campaign asks for it at every step."""
    return space_of(read_document(Kind.SPACES, name))


def parse_assignments_in(name_or_path: str | Path, texts: Iterable[str]) -> dict[str, KnobValue]:
    """The assignments by knob, as `Space.parse_assignments` in the space of this name.

    A knob that only other packaged spaces have is refused with their names.
    """
    space, assignments = load_space(name_or_path), tuple(texts)
    for text in assignments:
        knob = text.partition("=")[0].strip()
        if any(knob == each.name for each in space.knobs):
            continue
        having = [
            name
            for name in packaged_names(Kind.SPACES)
            if any(knob == each.name for each in load_space(name).knobs)
        ]
        if having:
            raise UsageError(
                f"There is no knob {knob!r} in the space {name_or_path} of this campaign.",
                f"The packaged space {listed(having)} has it; a campaign in it: autoinfer run {having[0]}",
            )
    return space.parse_assignments(assignments)


def space_of(document: Document) -> Space:
    """The space of a document; raises `UsageError` as `load_space`."""
    entries = validated(_SpaceFile, document.data, document.where).knobs
    knobs = tuple(_in(document.where, entry.knob) for entry in entries)
    space = _in(document.where, lambda: Space(knobs))
    for knob in space.knobs:
        for other, allowed in knob.when:
            if (other, allowed) == WITH_EXPERTS:
                continue
            never = _never(space.knob(other), allowed)
            if never or not allowed:
                what = f"{other} to be {listed(never)}" if never else f"{other} to have no value"
                raise UsageError(
                    f"{document.where}: the knob {knob.name} asks {what}, which cannot be.",
                    f"{other} can be {space.knob(other).choices}.",
                )
    return space


def _never(other: Knob, allowed: tuple[KnobValue, ...]) -> tuple[KnobValue, ...]:
    return tuple(value for value in allowed if not other.allows(value))


def _in(where: str, build: Callable[[], Built]) -> Built:
    try:
        return build()
    except UsageError as error:
        raise UsageError(f"{where}: {error.message}", error.hint) from None
