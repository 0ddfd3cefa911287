"""The space: knobs, their values, and which of them are active under which others.

A space is a value and its questions are pure functions. A *legal* configuration holds exactly the knobs that
are active under it, each with a value that it may hold. Some values, such as paths, are legal when they are
given and are never enumerated: no neighbour and no point has one that was not there before.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property

from configs.errors import UsageError
from experiments.space.configuration import Change, Configuration, KnobValue
from experiments.space.knob import WITH_EXPERTS, ByType, Knob, Same, SameBeside, by_type, listed, same_value

__all__ = ["Knob", "Space"]

NEAR = 0.75
"""Likeness from which on a knob is suggested; above difflib's 0.6, because groups share their beginning."""


@dataclass(frozen=True)
class Space:
    """All knobs of an engine and model on one target.

    Raises `UsageError` for two knobs of one name, a condition on a knob that is not there, and conditions
    that go in a circle.
    """

    knobs: tuple[Knob, ...]

    def __post_init__(self) -> None:
        names = [knob.name for knob in self.knobs]
        for name in names:
            if names.count(name) > 1:
                raise UsageError(f"The knob {name} is defined twice.", "Define it once.")
        for knob in self.knobs:
            for condition in knob.when:
                other, _ = condition
                if other not in names and condition != WITH_EXPERTS:
                    raise UsageError(
                        f"The condition of the knob {knob.name} names {other}, which is no knob.",
                        _did_you_mean(other, names),
                    )
        _ = self.in_order

    @cached_property
    def in_order(self) -> tuple[Knob, ...]:
        """All knobs, each after those its conditions name; otherwise in the order they were given."""
        names = {knob.name for knob in self.knobs}
        placed: dict[str, Knob] = {}
        left = list(self.knobs)
        while left:
            ready = next((k for k in left if not _names(k) & names - placed.keys()), None)
            if ready is None:
                circle = ", ".join(knob.name for knob in left)
                raise UsageError(f"The conditions of {circle} go in a circle.", "Break it at one of them.")
            placed[ready.name] = ready
            left.remove(ready)
        return tuple(placed.values())

    @cached_property
    def _by_name(self) -> Mapping[str, Knob]:
        return {knob.name: knob for knob in self.knobs}

    @property
    def levers(self) -> tuple[str, ...]:
        """The names of all levers, in the order in which the knobs first name them."""
        return tuple(dict.fromkeys(knob.lever for knob in self.knobs))

    def knob(self, name: str) -> Knob:
        """The knob of this name; raises `UsageError` with the nearest names when there is none."""
        if name not in self._by_name:
            raise UsageError(f"There is no knob {name!r}.", _did_you_mean(name, self._by_name))
        return self._by_name[name]

    def configuration(self, knobs: Mapping[str, KnobValue]) -> Configuration:
        """A legal configuration: active knobs that are not given get their defaults.

        Raises `UsageError` for an unknown knob, a value outside the space, and a knob whose condition does
        not hold under the others.
        """
        return self._settled(knobs, {})

    def with_change(self, configuration: Configuration, changes: Mapping[str, KnobValue]) -> Configuration:
        """The configuration with these knobs set.

        Knobs that the changes make inactive are dropped, those they make active get their defaults, all
        others stay. Raises `UsageError` as `configuration` does, also where a changed knob is inactive in
        the result.
        """
        return self._settled(changes, configuration)

    def _settled(self, given: Mapping[str, KnobValue], kept: Mapping[str, KnobValue]) -> Configuration:
        for name, value in (*given.items(), *kept.items()):
            if value not in self._enumerated.get(name, {}).get(type(value), ()):
                self.knob(name).check(value)  # what is open, and what is refused
        wanted = {**dict(kept.items()), **given}
        chosen: dict[str, KnobValue] = {}
        for name, knob, conditions in self._conditioned:
            for other, held in conditions:
                now = chosen.get(other)
                if now not in held.get(type(now), ()):
                    if name in given and (unmet := knob.unmet(chosen)) is not None:
                        raise _contradiction(knob, unmet, chosen)
                    break
            else:
                had = wanted.get(name, knob.default)
                chosen[name] = _value(knob) if had is None else had
        return Configuration.of(chosen)

    @cached_property
    def _enumerated(self) -> Mapping[str, ByType]:
        """The values that each knob has: planners ask for them by the million."""
        return {knob.name: by_type(knob.values) for knob in self.knobs}

    @cached_property
    def _conditioned(self) -> tuple[tuple[str, Knob, tuple[tuple[str, ByType], ...]], ...]:
        """The knobs in their order, each with the values of others under which it is active."""
        return tuple(
            (knob.name, knob, tuple((other, by_type(values)) for other, values in knob.when))
            for knob in self.in_order
        )

    def is_legal(self, configuration: Configuration) -> bool:
        """Whether the configuration holds exactly its active knobs, each with one of its values."""
        try:
            return self.configuration(configuration) == configuration
        except UsageError:
            return False

    def active(self, configuration: Mapping[str, KnobValue]) -> tuple[Knob, ...]:
        """The knobs that are active under these values, in the order of the space."""
        chosen: dict[str, KnobValue] = {}
        for knob in self.in_order:
            if knob.unmet(chosen) is None:
                with suppress(UsageError):  # one that must be given and is not
                    chosen[knob.name] = _value(knob, configuration)
        return tuple(knob for knob in self.knobs if knob.name in chosen)

    def neighbours(self, configuration: Configuration) -> tuple[Configuration, ...]:
        """Every legal configuration that one knob's change leads to, by knob and value in the space's order.

        Knobs that the change makes active come with their defaults; a change that makes one active which must
        be given leads nowhere, nor does one to what does the same (`why_same`).
        """
        found = (
            self._changed(configuration, {knob.name: value})
            for knob in self.active(configuration)
            for value in knob.values
            if not same_value(value, configuration.get(knob.name))
        )
        return tuple(
            each for each in found if each is not None and self.why_same(configuration, each) is None
        )

    def why_same(self, one: Configuration, other: Configuration) -> str | None:
        """That two configurations differ by values alone that do the same beside the rest of them, in a
        sentence; None where they do more, or are equal."""
        all_changes = {change.knob: change for change in one.changes_to(other)}
        changes = [
            change
            for name, change in all_changes.items()
            if not _follows(self.knob(name), change, all_changes)
        ]
        if not changes or not {change.knob for change in changes} <= self._with_same:
            return None
        if self._as_done(one) != self._as_done(other):
            return None
        return next(
            same.why
            for change in changes
            for value in (change.after, change.before)
            for same in self._same_of(change.knob)
            if same_value(value, same.value)
        )

    def named_as(self, named: Configuration, configuration: Configuration) -> Configuration:
        """The configuration, each value that does the same as that of `named` as it is there."""
        for knob in self._with_same & named.keys() & configuration.keys():
            as_there = self._changed(configuration, {knob: named[knob]})
            if as_there is not None and self._as_done(as_there) == self._as_done(configuration):
                configuration = as_there
        return configuration

    def as_offered(self, named: Configuration, configuration: Configuration) -> Configuration:
        """The configuration, each value that does what another one does as that of `named` where they do the
        same, else as the one that is offered."""
        return self.named_as(named, self._as_done(configuration))

    @cached_property
    def _with_same(self) -> frozenset[str]:
        """The knobs of which some values do what others do."""
        return frozenset(knob.name for knob in self.knobs if knob.same or knob.same_beside)

    def _same_of(self, name: str) -> tuple[Same, ...]:
        knob = self.knob(name)
        return (*knob.same, *knob.same_beside)

    def _as_done(self, configuration: Configuration) -> Configuration:
        """The configuration, each value that does there what another one does as that one."""
        done = {
            name: same.like
            for name in self._with_same
            for same in self._same_of(name)
            if same_value(configuration.get(name), same.value) and same.holds(configuration)
        }
        return (self._changed(configuration, done) if done else None) or configuration

    def _changed(
        self, configuration: Configuration, changes: Mapping[str, KnobValue]
    ) -> Configuration | None:
        try:
            return self.with_change(configuration, changes)
        except UsageError:
            return None

    def crossing(
        self, configuration: Configuration, knobs: Iterable[str] | Mapping[str, Sequence[KnobValue]]
    ) -> tuple[Configuration, ...]:
        """Every configuration that comes of setting these knobs to each combination of their values, or of
        those values that a mapping names.

        The first knob varies slowest; of several that do the same (`why_same`) one alone is there. Where a
        value of a knob before it makes a knob inactive, it is not set.
        Raises `UsageError` for an unknown knob and for one that is active nowhere.
        """
        crossed = [configuration]
        for name in knobs:
            values = knobs[name] if isinstance(knobs, Mapping) else self.knob(name).values
            nowhere = all(name not in each for each in crossed)
            crossed = [
                self.with_change(each, {name: value})
                if name in each or nowhere  # which raises
                else each
                for each in crossed
                for value in values
            ]
        found: dict[Configuration, Configuration] = {}
        for each in crossed:
            done = self._as_done(each)
            if done == each or done not in found:
                found[done] = each
        return tuple(found.values())

    def levers_between(self, before: Configuration, after: Configuration) -> tuple[str, ...]:
        """The levers that differ between two configurations, in the space's order; empty for equal ones.

        A knob that comes up or falls away because another one changed, and for which nothing is chosen, is no
        change of its lever: drafting by MTP brings a choice of the output head, and left to the engine that
        is drafting alone.
        """
        changes = {change.knob: change for change in before.changes_to(after)}
        return tuple(
            dict.fromkeys(
                knob.lever
                for knob in self.knobs
                if knob.name in changes and not _follows(knob, changes[knob.name], changes)
            )
        )

    def pinning(self, key: str) -> tuple[Knob, ...]:
        """The knobs that fix this key of the resolved configuration, in the space's order."""
        return tuple(knob for knob in self.knobs if any(pin.covers(key) for pin in knob.pins))

    def pinned_keys(self, before: Configuration, after: Configuration) -> tuple[str, ...]:
        """The resolved keys that the knobs pin in which two configurations differ, sorted."""
        changed = {change.knob for change in before.changes_to(after)}
        return tuple(sorted({pin.key for knob in self.knobs if knob.name in changed for pin in knob.pins}))

    def parse_assignment(self, text: str) -> tuple[str, KnobValue]:
        """Knob and typed value of an assignment such as `quantization.group_size=32`.

        Raises `UsageError` for a missing `=`, an unknown knob and a value the knob cannot hold.
        """
        name, value = split_assignment(text)
        knob = self.knob(name)
        return knob.name, knob.parse(value)

    def parse_assignments(self, texts: Iterable[str]) -> dict[str, KnobValue]:
        """The assignments by knob; raises `UsageError` as `parse_assignment`, and for a knob set twice."""
        parsed: dict[str, KnobValue] = {}
        for text in texts:
            name, value = self.parse_assignment(text)
            if name in parsed:
                raise UsageError(f"{name} is set twice.", "Set each knob once.")
            parsed[name] = value
        return parsed

    def restrict(self, keep: Mapping[str, Iterable[KnobValue]]) -> Space:
        """The space with only these values of the named knobs, such as no more threads than there are cores.

        Values that a knob does not have are passed over; a default that is lost is replaced by the nearest.
        What is legal only when given stays so, and of a knob that has such values all others may go. Raises
        `UsageError` for an unknown knob and where a knob would be left without a value.
        """
        kept = {self.knob(name).name: tuple(values) for name, values in keep.items()}
        return Space(tuple(k.restricted(kept[k.name]) if k.name in kept else k for k in self.knobs))

    def taking(self, name: str, value: KnobValue) -> Space:
        """The space in which this knob has one more value, which is its default; raises as `Knob.taking`."""
        wanted = self.knob(name).taking(value)
        return Space(tuple(wanted if knob.name == name else knob for knob in self.knobs))

    def without_condition(self, name: str, other: str) -> Space:
        """The space in which this knob is active whatever `other` is; raises `UsageError` for an unknown
        knob."""
        free = self.knob(name)
        free = replace(free, when=tuple(each for each in free.when if each[0] != other))
        return Space(tuple(free if knob.name == name else knob for knob in self.knobs))

    def of_experts(self) -> Space:
        """The space of a Mixture of Experts, in which the knobs that are of one alone are active."""
        return Space(
            tuple(
                replace(knob, when=tuple(each for each in knob.when if each != WITH_EXPERTS))
                for knob in self.knobs
            )
        )

    def that_has(self, names: Container[str]) -> Space:
        """The space in which a configuration with these knobs may be: that of a Mixture of Experts where it
        has one that is of experts alone."""
        return self.of_experts() if any(k.of_experts and k.name in names for k in self.knobs) else self

    def without_experts(self) -> Space:
        """The space less the knobs that mean nothing in it, for it is of dense models."""
        return Space(tuple(knob for knob in self.knobs if not knob.of_experts))

    def only_when_given(self, values: Mapping[str, Iterable[KnobValue]]) -> Space:
        """The space where these values of the named knobs are legal when given, but never enumerated.

        Raises `UsageError` for an unknown knob and where a knob would be left without a value.
        """
        held_back = {self.knob(name).name: tuple(each) for name, each in values.items()}
        return Space(
            tuple(k.only_when_given(held_back[k.name]) if k.name in held_back else k for k in self.knobs)
        )

    def passing_over(self, values: Mapping[str, Iterable[Same]]) -> Space:
        """The space as of `only_when_given`, and with these values known to do what another one does. Raises
        as it does."""
        same = {self.knob(name).name: tuple(each) for name, each in values.items()}
        held_back = self.only_when_given({name: [each.value for each in told] for name, told in same.items()})
        return Space(tuple(replace(k, same=same[k.name]) if k.name in same else k for k in held_back.knobs))

    def with_same_beside(self, name: str, same: SameBeside) -> Space:
        """The space in which a knob's value is known to do what another one does beside a value of another
        knob: as it is where it lacks one of the two knobs."""
        if not {name, same.knob} <= {knob.name for knob in self.knobs}:
            return self
        return Space(
            tuple(
                replace(knob, same_beside=(*knob.same_beside, same)) if knob.name == name else knob
                for knob in self.knobs
            )
        )

    def points(self) -> Iterator[Configuration]:
        """Every legal configuration of enumerated values once, lazily, in a fixed order.

        See `size` before you take them all.
        """
        return (Configuration.of(chosen) for chosen in _choices(self.in_order))

    @cached_property
    def size(self) -> int:
        """How many legal configurations of enumerated values there are."""
        knobs = self.in_order
        asked = [
            frozenset(other for knob in knobs[at:] for other, _ in knob.when) for at in range(len(knobs))
        ]
        known: dict[tuple[int, Configuration], int] = {}

        def count(at: int, chosen: Mapping[str, KnobValue]) -> int:
            """How many ways there are to go on; only what later conditions ask for matters."""
            if at == len(knobs):
                return 1
            chosen = {name: value for name, value in chosen.items() if name in asked[at]}
            key = (at, Configuration.of(chosen))
            if key not in known:
                knob = knobs[at]
                ways = knob.values if knob.unmet(chosen) is None else (None,)
                known[key] = sum(
                    count(at + 1, chosen if value is None else {**chosen, knob.name: value}) for value in ways
                )
            return known[key]

        return count(0, {})


def _names(knob: Knob) -> set[str]:
    """The names in a knob's conditions."""
    return {other for other, _ in knob.when}


def _choices(knobs: tuple[Knob, ...]) -> Iterator[dict[str, KnobValue]]:
    def extend(chosen: dict[str, KnobValue], at: int) -> Iterator[dict[str, KnobValue]]:
        if at == len(knobs):
            yield dict(chosen)
        elif knobs[at].unmet(chosen) is not None:
            yield from extend(chosen, at + 1)
        else:
            for value in knobs[at].values:
                yield from extend({**chosen, knobs[at].name: value}, at + 1)

    return extend({}, 0)


def _value(knob: Knob, *held: Mapping[str, KnobValue]) -> KnobValue:
    """What the first of these that has the knob holds, else its default."""
    for each in held:
        if knob.name in each:
            return each[knob.name]
    if knob.default is None:
        raise UsageError(f"{knob.name} must be given here.", f"It can be {knob.choices}.")
    return knob.default


def _follows(knob: Knob, change: Change, changed: Collection[str]) -> bool:
    """Whether a knob's change is none of its own: with a knob that its condition names it falls away, or
    comes up with its default."""
    if not any(other in changed for other, _ in knob.when):
        return False
    return change.after is None or (change.before is None and same_value(change.after, knob.default))


def _contradiction(
    knob: Knob, unmet: tuple[str, tuple[KnobValue, ...]], chosen: Mapping[str, KnobValue]
) -> UsageError:
    other, values = unmet
    if unmet == WITH_EXPERTS:
        return UsageError(
            f"{knob.name} is set, but it only means something for a Mixture of Experts, and this model has "
            "no experts.",
            f"Leave {knob.name} out.",
        )
    now = f"it is {listed([chosen[other]])}" if other in chosen else "it is not active itself"
    return UsageError(
        f"{knob.name} is set, but it only means something when {other} is {listed(values)}, and {now}.",
        f"Set {other} to {listed(values)} too, or leave {knob.name} out.",
    )


def _did_you_mean(name: str, names: Iterable[str]) -> str:
    known = sorted(names)
    # A user may leave the group out (`threads`), which the ratio alone would not find.
    by_last_part = [each for each in known if each.rsplit(".", 1)[-1] == name.rsplit(".", 1)[-1]]
    near = list(dict.fromkeys([*by_last_part, *get_close_matches(name, known, n=3, cutoff=NEAR)]))[:3]
    return f"Did you mean {listed(near)}?" if near else f"The knobs are {', '.join(known)}."


def split_assignment(text: str) -> tuple[str, str]:
    """The two sides of an assignment `KNOB=VALUE`; raises `UsageError` where one is missing."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip() or not value.strip():
        raise UsageError(
            f"{text!r} is not an assignment.", "Write KNOB=VALUE, such as serving.dtype=bfloat16."
        )
    return name.strip(), value
