"""Which values of the space are legal here, and why the others aren't: a row a value. Pure."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice, product

from agent.ground.legal import Legal
from configs.errors import UsageError
from experiments.engines.port import Infeasible
from experiments.engines.single_changes import fitting_changes
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.knob import Knob, is_among, listed, same_value, written
from experiments.space.legality import LAYERS
from experiments.space.space import Space

MOST_WITNESSES = 12
"""Configurations that are tried for a value before it is called impossible."""

OUT_OF_MEMORY = "out_of_memory"
"""The kind of what is infeasible for want of memory."""

Check = Callable[[Configuration], object]
"""An engine's static check of a configuration: raises `Infeasible` when it can't run."""


class Standing(StrEnum):
    """Whether a value may be had: yes, no, only where a user names what it lacks, only with layers taken out
    that pay for it, only beside another value of one other knob, or that nothing is against it and it is not
    known whether the engine takes it on the target."""

    YES = "yes"
    NO = "no"
    WHEN_GIVEN = "when given"
    WITH_PRUNING = "with fewer layers"
    WITH_ANOTHER = "beside another value"
    NOT_KNOWN = "not known"


@dataclass(frozen=True)
class LeverRow:
    """One value of one knob; `why` says why not, or why that is not known, None for one that is legal."""

    knob: str
    lever: str
    value: KnobValue
    standing: Standing
    why: str | None = None


def lever_rows(
    whole: Space, legal: Legal, check: Check | None = None, start: Configuration | None = None
) -> tuple[LeverRow, ...]:
    """A row for each enumerated value of `whole`, the space before anything was taken out of it.

    A value is legal when some configuration has it that neither the model nor the parameter budget refuses,
    nor `check` where it is given. Of one that is not, that reason is told which comes last: what only `check`
    is against, such as memory, before what is against the other ways to have it. In all else the
    configurations are `start`, the engine's own default if not given.
    """
    base = start or legal.space.configuration({})
    return tuple(_row(knob, value, legal, check, base) for knob in whole.knobs for value in knob.values)


def _row(knob: Knob, value: KnobValue, legal: Legal, check: Check | None, start: Configuration) -> LeverRow:
    for each in legal.withheld:
        if each.knob == knob.name and same_value(each.value, value):
            standing = Standing.WHEN_GIVEN if each.when_given else Standing.NO
            return LeverRow(knob.name, knob.lever, value, standing, each.why)
    doubt = legal.unsure.get((knob.name, value))
    refused: list[tuple[Standing, str]] = []
    checked: list[tuple[Infeasible, Configuration]] = []
    for configuration in islice(witnesses(legal.space, knob.name, value, start), MOST_WITNESSES):
        reason = legal.refused(configuration)
        found = None if reason is not None else refused_by(check, configuration)
        if found is not None:
            checked.append((found, configuration))
            continue
        if reason is None:
            standing = Standing.YES if doubt is None else Standing.NOT_KNOWN
            return LeverRow(knob.name, knob.lever, value, standing, doubt)
        paid = any(legal.refused(each) is None for each in _pruned(legal.space, configuration))
        if not paid:
            way, stays = _way_there(legal, configuration, knob.name, check)
            if way is not None:
                had = f"{reason.rstrip('.')}; it can be had with {way.words}."
                refused.append(
                    (Standing.WITH_ANOTHER, had) if doubt is None else (Standing.NOT_KNOWN, f"{had} {doubt}")
                )
                continue
            if stays is not None:
                checked.append((stays, configuration))
                continue
        refused.append((Standing.WITH_PRUNING if paid else Standing.NO, reason))
    checked.sort(key=lambda each: each[0].missing_bytes or 0)  # of several ways, what is nearest to fitting
    refused = [*(_told(legal, knob.name, check, *each) for each in checked[:1]), *refused]
    if not refused:
        needs = " and ".join(f"{other} {listed(values)}" for other, values in knob.when)
        return LeverRow(
            knob.name, knob.lever, value, Standing.NO, f"Nothing is left of what it needs: {needs}."
        )
    standing, why = next((each for each in refused if each[0] is not Standing.NO), refused[0])
    return LeverRow(knob.name, knob.lever, value, standing, why)


def _told(
    legal: Legal, name: str, check: Check | None, refused: Infeasible, configuration: Configuration
) -> tuple[Standing, str]:
    """What is told of a value that a check refuses: for want of memory with the first change of one other
    knob with which it fits, fewer sequences before narrower weights."""
    if refused.kind == OUT_OF_MEMORY:
        with suppress(UsageError):
            ways = fitting_changes(
                legal.space,
                configuration,
                lambda each: 0 if refusal_of(check, each) is None else 1,
                0,
                lambda each: legal.refused(each),
            )
            for way in ways:
                changed = legal.space.with_change(configuration, {way.knob: way.value})
                if way.knob != name and changed.get(name) == configuration.get(name):
                    had = f"{refused.cause.rstrip('.')}; it can be had with {way.knob}={written(way.value)}."
                    doubt = legal.unsure.get((name, configuration[name]))
                    if doubt is None:
                        return Standing.WITH_ANOTHER, had
                    return Standing.NOT_KNOWN, f"{had} {doubt}"
    return Standing.NO, refused.cause


def _pruned(space: Space, configuration: Configuration) -> Iterator[Configuration]:
    """The same with layers taken out, the fewest first; nothing where the space has no such knob."""
    for knob in space.knobs:
        if knob.name == LAYERS and LAYERS not in configuration:
            for count in knob.values:
                with suppress(UsageError):
                    yield space.with_change(configuration, {"pruning.method": "depth", LAYERS: count})


@dataclass(frozen=True)
class Beside:
    """A change of one knob, as `KNOB=VALUE`, and the configuration that it makes."""

    words: str
    made: Configuration


def beside(legal: Legal, configuration: Configuration, kept: Container[str]) -> Iterator[Beside]:
    """Each change of one knob, none of those that are `kept`, with which nothing of `legal` is against the
    configuration; `kept` ones that are part of it stay so."""
    for other in legal.space.knobs:
        if other.name in kept or other.name not in configuration:
            continue
        for value in other.values:
            with suppress(UsageError):
                changed = legal.space.with_change(configuration, {other.name: value})
                stays = all(
                    changed.get(name) == configuration[name] for name in configuration if name in kept
                )
                if stays and legal.refused(changed) is None:
                    yield Beside(f"{other.name}={written(value)}", changed)


def _way_there(
    legal: Legal, configuration: Configuration, name: str, check: Check | None
) -> tuple[Beside | None, Infeasible | None]:
    """The first change of one other knob with which the configuration can be; where there is none, what the
    check has against it as against each of these changes, None where that differs."""
    against = refused_by(check, configuration)
    changed = False
    for way in beside(legal, configuration, (name,)):
        refused, changed = refused_by(check, way.made), True
        if refused is None:
            return way, None
        if against is not None and refused.cause != against.cause:
            against = None
    return None, against if changed else None


def refusal_of(check: Check | None, configuration: Configuration) -> str | None:
    """Why an engine's check refuses a configuration; None where it does not, or there is none."""
    refused = refused_by(check, configuration)
    return None if refused is None else refused.cause


def refused_by(check: Check | None, configuration: Configuration) -> Infeasible | None:
    """What an engine's check has against the configuration; None where that is nothing, or there is none."""
    if check is None:
        return None
    try:
        check(configuration)
    except Infeasible as refused:
        return refused
    return None


def refused_at_all(check: Check | None, start: Configuration) -> tuple[Check | None, str | None]:
    """The check of values, and what an engine says against `start` itself: a damaged checkpoint, an engine
    that is not there. That is said once and not of every value, so the check then refuses for other causes
    alone.

    Not of memory, of which single values may need less than `start` does.
    """
    if check is None:
        return None, None
    try:
        check(start)
    except Infeasible as refused:
        cause = refused.cause
        if refused.kind == OUT_OF_MEMORY:
            return check, None
    else:
        return check, None

    def checked(each: Configuration) -> None:
        try:
            check(each)
        except Infeasible as refused:
            if refused.cause != cause:
                raise

    return checked, cause


def witnesses(
    space: Space, name: str, value: KnobValue, start: Configuration | None = None
) -> Iterator[Configuration]:
    """Configurations that have this value, those of `start` in everything else (the default if not given), by
    each way its conditions can be met."""
    default = start or space.configuration({})
    seen: set[str] = set()
    for conditions in _ways(space, space.knob(name)):
        try:
            found = space.with_change(default, {**conditions, name: value})
        except UsageError:
            continue
        if found.digest not in seen:
            seen.add(found.digest)
            yield found


def _ways(space: Space, knob: Knob) -> Iterator[dict[str, KnobValue]]:
    """Assignments under which a knob is active, those that keep to the defaults first."""
    choices: list[list[dict[str, KnobValue]]] = []
    for other, allowed in knob.when:
        at = space.knob(other)
        offered = [each for each in allowed if is_among(each, at.values)]
        offered.sort(key=lambda each, at=at: not same_value(each, at.default))  # type: ignore[misc]
        choices.append([{**above, other: each} for each in offered for above in _ways(space, at)])
    for chosen in product(*choices):
        merged: dict[str, KnobValue] = {}
        for each in chosen:
            merged |= each
        yield merged


def count_words(rows: Sequence[LeverRow]) -> str:
    """How many values are legal here, of how many, in words."""
    legal = sum(row.standing is Standing.YES for row in rows)
    others = (Standing.WHEN_GIVEN, Standing.WITH_PRUNING, Standing.WITH_ANOTHER, Standing.NOT_KNOWN)
    counts = [(sum(row.standing is each for row in rows), each) for each in others]
    return f"{legal} of {len(rows)} values are legal here" + "".join(
        f", {n} more {each.value}" for n, each in counts if n
    )
