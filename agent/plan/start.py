"""From which configuration a campaign begins: the engine's own default, or, where that does not fit, another.

Where the default does not fit, and the user names nothing (`baseline.start: auto`), the campaign begins from
the configuration that

1. differs from the default in how weights are stored (`STORED`) and in how many sequences, and how long ones,
   are served (`SERVED`), and in nothing else,
2. is legal here, and fits by the plan's count, one launch alone,
3. keeps the most bits of the weights that a step reads, so that the fewest are lost; of those it leaves room
   to draft a token by MTP, where the model can, for what fills the card with room for sequences could never
   be compared with that; of those it sets the fewest knobs, and of those it takes the most memory, which is
   then for sequences. What is still equal is taken in the space's own order.

It is the least change of the model, not the fastest one: what is faster is the campaign's own question. What
the engine refuses, or what does not run, gives way to what the rule takes of fewer bits. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product

from agent.ground.legal import Legal
from agent.ground.sweep import swept
from agent.plan.fitting import assignments_between, assignments_words
from agent.surrogate.weight_bytes import step_weight_bytes
from configs.campaign import BaselineSpec, CampaignSpec
from configs.errors import UsageError
from configs.models import ModelProfile
from configs.quantities import format_bytes
from experiments.engines.launch_memory import format_words
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.knob import same_value

DEFAULT = "default"
"""In place of knobs: the engine's own default, whatever is counted of it."""

STORED = (
    "serving.dtype",
    "quantization.method",
    "quantization.bits",
    "quantization.group_size",
    "quantization.lm_head",
)
"""Knobs that say in how many bits weights are held. 8-bit floats are not among them (`serving.weight_dtype`):
they are made while 16 bits are read, and whether these ever stand in memory whole was not looked at."""

SERVED = ("serving.max_sequences", "serving.max_model_len")
"""Knobs that say for how many sequences, and how long ones, a cache is kept: they change no text."""


DRAFTED: Mapping[str, KnobValue] = {"drafting.method": "mtp", "drafting.draft_tokens": 1}
"""What there is to be room for beside what a campaign begins from."""

DENSE_BITS = 16
"""Bits of a weight that is not quantized, whatever type it is computed in."""


@dataclass(frozen=True)
class Room:
    """What a campaign may begin from, and where: `count` gives the bytes of a launch, of which `usable` are
    there, on what is called `where`. `scored` is False of made-up weights, of which no quality is known."""

    legal: Legal
    profile: ModelProfile
    count: Callable[[Configuration], int]
    usable: int
    where: str
    scored: bool = True


@dataclass(frozen=True)
class Start:
    """What a campaign begins from.

    `words` is what is set of the default, as a user writes it. `refused` says why it is not the default, as a
    clause, None where it is; `told` the same whole, for the user. `default_bytes` is what a launch of the
    default takes. `fits` is False where nothing was found that does: then it is the default, and `told` says
    how much is missing for the leanest.
    """

    configuration: Configuration
    default: Configuration
    default_bytes: int
    words: str = ""
    refused: str | None = None
    told: str | None = None
    fits: bool = True
    then: Start | None = None
    """What comes next where this does not run: the least change of fewer bits."""

    @property
    def is_default(self) -> bool:
        """Whether it is the engine's own default."""
        return self.configuration == self.default


def find_start(asked: BaselineSpec, room: Room) -> Start:
    """What a campaign begins from that asks for it so.

    Raises `UsageError` for knobs that the user named and that are not legal here.
    """
    default = room.legal.space.configuration({})
    needed = room.count(default)
    start = Start(default, default, needed)
    if not isinstance(asked.start, str):
        return _named(asked.start, room, start)
    if asked.start == DEFAULT or needed <= room.usable:
        return start
    found = _least_changes(room, default)
    if not found:
        return replace(start, fits=False, told=_nothing_fits(room, default))
    why = figures(needed, room.usable, f" of {room.where}")
    begun: Start | None = None
    for each in reversed(found):
        one = _begun(start, each, room, f"it does not fit: {why}")
        takes = f"{format_bytes(room.count(each))}{_bits(each, room)}"
        told = (
            f"The engine's default does not fit: {why}, {format_bytes(needed - room.usable)} too few. The "
            f"campaign begins from {one.words} ({takes}), the least "
            f"change of the model that fits, {_against(one, room)}"
        )
        begun = replace(one, told=told, then=begun)
    assert begun is not None
    return begun


def first_served(start: Start, refused: Callable[[Start], str | None]) -> Start:
    """The start, or, where something is against it, the first after it of which nothing is known; the start
    itself where something is against each."""
    each: Start | None = start
    causes: list[str] = []
    while each is not None:
        cause = refused(each)
        if cause is None:
            told = " ".join([*causes, each.told or ""]) if causes else each.told
            return replace(each, told=told)
        causes.append(f"{each.words} is not served: {cause.rstrip('.')}.")
        each = each.then
    return start


def swept_from(
    start: Start, spec: CampaignSpec, legal: Legal, where: str = "The campaign"
) -> tuple[Configuration, ...]:
    """What the sweep before trial 0 crosses; raises `UsageError` that names `where` for a knob that means
    nothing in what the campaign begins from, and for a value that is not legal here, with the reason."""
    sweep = spec.baseline.sweep
    try:
        return swept(legal.space, start.configuration, sweep)
    except UsageError as error:
        named = (
            [(knob, value) for knob in sweep for value in sweep[knob]] if isinstance(sweep, Mapping) else ()
        )
        why = next((why for knob, value in named if (why := legal.why_not({knob: value})) is not None), None)
        told = error.message if why is None else f"{error.message} {why}"
        raise UsageError(f"{where}: baseline.sweep: {told}", error.hint) from None


def figures(needed: int, usable: int, of: str = "") -> str:
    """What is needed and what may be taken, as a clause, in as many digits as tell them apart."""
    digits = 1
    while needed != usable and format_bytes(needed, digits) == format_bytes(usable, digits):
        digits += 1
    return f"it needs {format_bytes(needed, digits)}, and {format_bytes(usable, digits)}{of} may be taken"


def _named(knobs: Mapping[str, KnobValue], room: Room, start: Start) -> Start:
    """The default with the user's knobs, whether that fits or not: of its memory the engine has the word."""
    never = room.legal.why_never(knobs)
    found = start.default if never else room.legal.space.with_change(start.default, knobs)
    why = never or room.legal.refused(found)
    if why is not None:
        raise UsageError(f"The campaign can't begin from that baseline: {why}", "Name another: --baseline")
    if found == start.default:
        return start
    begun = _begun(start, found, room, "the campaign was asked to begin from another")
    return replace(
        begun, told=f"The campaign begins from {begun.words}, as it was asked to, {_against(begun, room)}"
    )


def _begun(start: Start, found: Configuration, room: Room, refused: str) -> Start:
    words = assignments_words(assignments_between(room.legal.space, start.default, found))
    return replace(start, configuration=found, words=words, refused=refused)


def _nothing_fits(room: Room, default: Configuration) -> str:
    """That there is nothing to begin from, with the leanest of what there might have been."""
    counted = [(room.count(each), knobs, each) for knobs, each in _candidates(room.legal, default)]
    least, _, leanest = min(counted, key=lambda it: it[:2], default=(room.count(default), 0, default))
    words = assignments_words(assignments_between(room.legal.space, default, leanest))
    what = (
        f"the least it may begin from is {words}{_bits(leanest, room)}" if words else "it has but the default"
    )
    return (
        f"No campaign can begin here: {what}, and that does not fit: "
        f"{figures(least, room.usable, f' of {room.where}')}, {format_bytes(least - room.usable)} too few."
    )


def _bits(begun: Configuration, room: Room) -> str:
    quantized = begun.get("quantization.method", "none") != "none"
    return f", {format_words(begun, experts=room.profile.experts is not None)}" if quantized else ""


def _against(start: Start, room: Room) -> str:
    """What is compared with what, as the rest of a sentence, and of quality in one more."""
    told = "so every claim is against that, and not against the default."
    changed = {change.knob for change in start.default.changes_to(start.configuration)}
    if changed <= set(SERVED):
        return f"{told} It is the same model."
    if not room.scored:
        return told
    return f"{told} Quality too is compared with it: what it lost against the default is not measured."


def _least_changes(room: Room, default: Configuration) -> list[Configuration]:
    """What the rule of this module takes, and after it what it would take of fewer bits a weight and fewer
    bytes, in case that the former does not run; empty where nothing fits."""
    best: dict[int, tuple[tuple[float, bool, int, int], Configuration]] = {}
    read: dict[tuple[tuple[str, KnobValue], ...], float] = {}  # by all but `SERVED`, which changes no weights
    for knobs, each in _candidates(room.legal, default):
        needed = room.count(each)
        if needed > room.usable:
            continue
        stored = tuple(item for item in each.items_ if item[0] not in SERVED)
        if stored not in read:
            read[stored] = step_weight_bytes(room.profile, each).mean
        kept, bits = read[stored], _weight_bits(each)
        if bits in best and -kept > best[bits][0][0]:
            continue
        key = (-kept, _has_no_room_to_draft(room, each), knobs, -needed)
        if bits not in best or key < best[bits][0]:  # the earlier one wins a tie: the space's own order
            best[bits] = (key, each)
    found: list[Configuration] = []
    for bits in sorted(best, reverse=True):
        each = best[bits][1]
        if not found or room.count(each) < room.count(found[-1]):
            found.append(each)
    return found


def _has_no_room_to_draft(room: Room, each: Configuration) -> bool:
    """Whether memory alone is against drafting beside a configuration."""
    with suppress(UsageError):  # a space, or what is left of it, in which nothing drafts so
        drafting = room.legal.space.with_change(each, DRAFTED)
        return room.legal.refused(drafting) is None and room.count(drafting) > room.usable
    return False


def _weight_bits(configuration: Configuration) -> int:
    """Bits of a projection's weight."""
    bits = configuration.get("quantization.bits", DENSE_BITS)
    return bits if isinstance(bits, int) else DENSE_BITS


def _candidates(legal: Legal, default: Configuration) -> Iterator[tuple[int, Configuration]]:
    """Each legal configuration that differs from the default in the rule's knobs alone, and how many of these
    lead to it at least."""
    space = legal.space
    knobs = [knob for knob in space.knobs if knob.name in (*STORED, *SERVED)]
    found: dict[Configuration, int] = {}
    # a value that a knob has anyhow leads to what leaving it alone leads to
    others = (
        (
            None,
            *(value for value in knob.values if not same_value(value, default.get(knob.name, knob.default))),
        )
        for knob in knobs
    )
    for values in product(*others):
        given = {knob.name: value for knob, value in zip(knobs, values, strict=True) if value is not None}
        with suppress(UsageError):  # a knob that means nothing beside the others
            each = space.with_change(default, given)
            if each != default:
                found[each] = min(len(given), found.get(each, len(given)))
    yield from ((count, each) for each, count in found.items() if legal.refused(each) is None)
