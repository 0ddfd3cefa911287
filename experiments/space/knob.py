"""A knob: a named choice of typed values, and the conditions under which it is active."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from configs.errors import UsageError
from experiments.space.configuration import KnobValue

Condition = tuple[str, tuple[KnobValue, ...]]
"""Another knob, and the values of it under which the conditioned knob is active."""

WITH_EXPERTS: Condition = ("model.experts", (True,))
"""The condition that the model is a Mixture of Experts. No knob says so: a space is of dense models, which
never meet it, until it is asked for one `of_experts`."""

TRUE_WORDS = frozenset({"true", "on", "yes"})
"""What a user may write for a knob that is on."""

FALSE_WORDS = frozenset({"false", "off", "no"})
"""What a user may write for a knob that is off."""


def same_value(left: KnobValue | None, right: KnobValue | None) -> bool:
    """Whether two values are equal and of one type: 1, 1.0, True and "1" all differ."""
    return type(left) is type(right) and left == right


def is_among(value: KnobValue, values: Iterable[KnobValue]) -> bool:
    """Whether `values` holds this value with its type."""
    kind = type(value)
    for each in values:  # noqa: SIM110 – any() takes longer, and planners ask often
        if type(each) is kind and each == value:
            return True
    return False


ByType = Mapping[type, frozenset[KnobValue]]
"""Values by their types, in which one is looked up at once."""


def by_type(values: Iterable[KnobValue]) -> ByType:
    """The values by type, so that `value in by_type(values).get(type(value), ())` is `is_among`."""
    found: dict[type, set[KnobValue]] = {}
    for value in values:
        found.setdefault(type(value), set()).add(value)
    return {kind: frozenset(each) for kind, each in found.items()}


def written(value: KnobValue) -> str:
    """The value as a user writes it after `=`: `true`, `32`, `0.5`, `depth`."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def listed(values: Iterable[KnobValue]) -> str:
    """Values in a sentence: `1, 2 or 4`; text that looks like another type is put in quotes."""
    return in_words([_quoted(value) for value in values])


def in_words(words: Sequence[str]) -> str:
    """Words in a sentence: `a, b or c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


@dataclass(frozen=True)
class Pin:
    """A key of the resolved configuration that a knob fixes, and what it reads under each of the knob's
    values.

    `reads` maps values of the knob to the text that the key then shows; a value that is not there leaves the
    choice to the engine (`auto`). Without any, the key reads as the value itself.
    """

    key: str
    reads: tuple[tuple[KnobValue, str], ...] = ()

    def covers(self, key: str) -> bool:
        """Whether this is the pin of that resolved key, or of one above it."""
        return key == self.key or key.startswith(f"{self.key}.")


@dataclass(frozen=True)
class Same:
    """That a knob's `value` does here what its value `like` does: nothing is learnt of both. `why` says so in
    a sentence. `when_given` tells that it is taken all the same from who names it: what does the same by all
    that is known may be looked at; where nothing at all differs there is nothing to look at."""

    value: KnobValue
    like: KnobValue
    why: str
    when_given: bool = field(default=True, kw_only=True)

    def holds(self, beside: Mapping[str, KnobValue]) -> bool:
        """Whether that is so beside these values of other knobs."""
        return True


@dataclass(frozen=True)
class SameBeside(Same):
    """The same wherever the other `knob` is `is_`, and nowhere else."""

    knob: str
    is_: KnobValue

    def holds(self, beside: Mapping[str, KnobValue]) -> bool:
        """Whether the other knob is so."""
        return same_value(beside.get(self.knob), self.is_)


@dataclass(frozen=True)
class Knob:
    """One typed knob.

    `values` are those that are enumerated, `default` one of them. `also` is a regular expression for further
    text that is legal when it is given, such as a path, and that nobody enumerates; `also_like` is how such
    text is written in a sentence. A knob with `also` may have no values; then its default is None, and it
    must be given wherever it is active. `same` tells which of `given` do here what another value does,
    `same_beside` which values do so beside a value of another knob alone. `when` maps other knobs to the
    values under which this one is active; all of them must hold, and a knob whose condition names an inactive
    knob is inactive too. `lever` is the name that directives and findings know it by. `pins` are the keys of
    the resolved configuration that it fixes: two arms that differ there can be made alike by it. `given` are
    values that are legal when they are given and that nobody enumerates.

    Raises `UsageError` for a definition that means nothing: no values, a value twice, two values that are
    written alike, a number that is not finite, a default that is not among the values, an `also` that is no
    regular expression, a pin for a value that the knob can't have, and one that reads alike for two of them.
    """

    name: str
    values: tuple[KnobValue, ...]
    default: KnobValue | None
    lever: str
    when: tuple[Condition, ...] = ()
    help: str = ""
    also: str | None = None
    also_like: str = ""
    pins: tuple[Pin, ...] = ()
    given: tuple[KnobValue, ...] = ()
    same: tuple[Same, ...] = ()
    same_beside: tuple[SameBeside, ...] = ()

    def __post_init__(self) -> None:
        self._check_also()
        if not self.values and self.also is None and not self.given:
            raise UsageError(f"The knob {self.name} has no values.", "Give it at least one.")
        if any(isinstance(value, float) and not math.isfinite(value) for value in self.values):
            raise UsageError(f"The knob {self.name} holds a number that is not finite.", "Leave it out.")
        forms = [written(value + 0.0 if isinstance(value, float) else value) for value in self.values]
        twice = sorted({form for form in forms if forms.count(form) > 1})
        if twice:
            raise UsageError(f"The knob {self.name} has the value {twice[0]} twice.", "List each value once.")
        if self.default is None and self.values:
            raise UsageError(f"The knob {self.name} has no default.", f"Make it {listed(self.values)}.")
        if self.default is not None and not is_among(self.default, self.values):
            raise UsageError(
                f"The default {_quoted(self.default)} of the knob {self.name} is not one of its values.",
                f"Make it {listed(self.values)}." if self.values else "Leave it out.",
            )
        self._check_pins()

    def _check_pins(self) -> None:
        for pin in self.pins:
            for value, _ in pin.reads:
                if not self.allows(value):
                    raise UsageError(
                        f"The knob {self.name} pins {pin.key} by {_quoted(value)}, which it cannot be.",
                        f"It can be {self.choices}.",
                    )
            readings = [reading for _, reading in pin.reads]
            twice = sorted({each for each in readings if readings.count(each) > 1})
            if twice:
                raise UsageError(
                    f"The knob {self.name} pins {pin.key} to {twice[0]} by two of its values.",
                    "Let each value read otherwise.",
                )

    def reads_as(self, key: str, value: KnobValue | None) -> str | None:
        """What the resolved key shows when the knob has this value; None where it fixes nothing then."""
        pin = self._pin_of(key)
        if pin is None or value is None:
            return None
        if not pin.reads:
            return _reading(value)
        return next((reading for each, reading in pin.reads if same_value(each, value)), None)

    def pinning_value(self, key: str, reading: str) -> KnobValue | None:
        """The value under which the resolved key shows `reading`; None where there is none."""
        pin = self._pin_of(key)
        if pin is None:
            return None
        pairs = pin.reads or tuple((value, _reading(value)) for value in self.values)
        return next((value for value, shown in pairs if shown == reading), None)

    def _pin_of(self, key: str) -> Pin | None:
        return next((pin for pin in self.pins if pin.covers(key)), None)

    def _check_also(self) -> None:
        if self.also is None:
            return
        try:
            re.compile(self.also)
        except re.error as error:
            raise UsageError(
                f"The knob {self.name} has an `also` that is no regular expression: {error}.", "Correct it."
            ) from None
        if not self.also_like:
            raise UsageError(
                f"The knob {self.name} has `also` without `also_like`.", "Say in words what it may be, too."
            )

    def allows(self, value: KnobValue) -> bool:
        """Whether the knob may hold this value, enumerated or not; the type counts."""
        return is_among(value, self.values) or self.is_open(value)

    def is_open(self, value: KnobValue) -> bool:
        """Whether the value is legal although it is not enumerated."""
        return is_among(value, self.given) or (
            self.also is not None
            and isinstance(value, str)
            and not is_among(value, self.values)
            and re.fullmatch(self.also, value) is not None
        )

    @property
    def choices(self) -> str:
        """What it may hold, in a sentence: `raw, self or user:PATH`."""
        like = [self.also_like] if self.also is not None else []
        return in_words([*map(_quoted, (*self.values, *self.given)), *like])

    def check(self, value: KnobValue) -> None:
        """Raise `UsageError` when the knob may not hold this value, saying which it may."""
        if not self.allows(value):
            raise UsageError(f"{self.name} cannot be {_quoted(value)}.", f"It can be {self.choices}.")

    def parse(self, text: str) -> KnobValue:
        """The value that this text stands for among the knob's values.

        Numbers may be written in any form (`1`, `1.0` and `1e0` are one float), switches as true/on/yes and
        false/off/no. Raises `UsageError` with the allowed values for anything else.
        """
        text = text.strip()
        for value in (*self.values, *self.given):
            if written(value) == text:
                return value
        for value in (*self.values, *self.given):
            if _reads_as(value, text):
                return value
        if self.is_open(text):
            return text
        raise UsageError(f"{self.name} cannot be {text!r}.", f"It can be {self.choices}.")

    @property
    def of_experts(self) -> bool:
        """Whether it means something for a Mixture of Experts alone."""
        return WITH_EXPERTS in self.when

    def unmet(self, chosen: Mapping[str, KnobValue]) -> Condition | None:
        """The first condition that does not hold under the chosen values; None when the knob is active."""
        for other, values in self.when:
            if other not in chosen or not is_among(chosen[other], values):
                return other, values
        return None

    def restricted(self, keep: Iterable[KnobValue]) -> Knob:
        """This knob with only those values of `keep` that it has, in its own order.

        What is legal only when given stays so. A default that is lost is replaced by the nearest number left
        (the smaller of two), else by the first value left. Raises `UsageError` when nothing is left.
        """
        wanted = tuple(keep)
        left = tuple(value for value in self.values if is_among(value, wanted))
        if not left and (self.also is not None or self.given):
            return replace(self, values=(), default=None, pins=self._pins_of(()))
        if not left:
            raise UsageError(
                f"Nothing is left of the knob {self.name} when it is restricted"
                + (f" to {listed(wanted)}." if wanted else " to no value."),
                f"It can be {listed(self.values)}.",
            )
        return replace(self, values=left, default=_nearest(self.default, left), pins=self._pins_of(left))

    def _pins_of(self, left: tuple[KnobValue, ...]) -> tuple[Pin, ...]:
        """The pins without the values that are gone; a pin that is left without any pins nothing."""
        kept = (
            (pin, tuple(each for each in pin.reads if is_among(each[0], left) or self.is_open(each[0])))
            for pin in self.pins
        )
        return tuple(replace(pin, reads=reads) for pin, reads in kept if reads or not pin.reads)

    def taking(self, value: KnobValue) -> Knob:
        """This knob with one more value, which is its default; raises `UsageError` where it is not legal."""
        self.check(value)
        values = self.values if is_among(value, self.values) else (*self.values, value)
        return replace(self, values=values, default=value)

    def only_when_given(self, held_back: Iterable[KnobValue]) -> Knob:
        """This knob with these of its values no longer enumerated, but still legal when given.

        Raises `UsageError` as `restricted`, where it has no others.
        """
        wanted = tuple(held_back)
        found = tuple(value for value in self.values if is_among(value, wanted))
        left = [value for value in self.values if not is_among(value, found)]
        return replace(self, given=(*self.given, *found)).restricted(left) if found else self


def _reading(value: KnobValue) -> str:
    """The value as a resolved key shows it: 2.0 as the number 2."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else written(value)


def _quoted(value: KnobValue) -> str:
    if isinstance(value, str) and (_is_number(value) or value.lower() in TRUE_WORDS | FALSE_WORDS | {""}):
        return f'"{value}"'
    return written(value)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _reads_as(value: KnobValue, text: str) -> bool:
    if isinstance(value, bool):
        return text.lower() in (TRUE_WORDS if value else FALSE_WORDS)
    if isinstance(value, str):
        return False
    try:
        return int(text) == value if isinstance(value, int) else float(text) == value
    except ValueError:
        return False


def _nearest(default: KnobValue | None, left: tuple[KnobValue, ...]) -> KnobValue:
    if default is not None and is_among(default, left):
        return default
    if isinstance(default, bool) or not isinstance(default, int | float):
        return left[0]
    numbers = [v for v in left if isinstance(v, int | float) and not isinstance(v, bool)]
    return min(numbers, key=lambda v: (abs(v - default), v)) if numbers else left[0]
