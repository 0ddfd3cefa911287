"""From which configuration a campaign begins: the engine's own default, or, where that does not fit, another.

Where the default does not fit, and the user names nothing (`baseline.start: auto`), the campaign begins from
the configuration that

1. differs from the default in how weights are stored (`STORED`) and in how many sequences, and how long ones,
   are served (`SERVED`), and in nothing else,
2. is legal here, and fits by the plan's count, one launch alone,
3. keeps the most bits of the weights that a step reads, so that the fewest are lost; of those it sets the
   fewest knobs, and of those it takes the most memory, which is then for sequences. What is still equal is
   taken in the space's own order.

It is the least change of the model, not the fastest one: what is faster is the campaign's own question. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product

from agent.campaign.legal import Legal
from agent.campaign.sweep import swept
from agent.plan.fitting import assignments_between, assignments_words
from agent.surrogate.weight_bytes import step_weight_bytes
from configs.campaign import BaselineSpec, CampaignSpec
from configs.errors import UsageError
from configs.models import ModelProfile
from configs.quantities import format_bytes
from experiments.engines.launch_memory import format_words
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.space import Space

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
    default takes. `fits` is False where nothing was found that does: then it is the default.
    """

    configuration: Configuration
    default: Configuration
    default_bytes: int
    words: str = ""
    refused: str | None = None
    told: str | None = None
    fits: bool = True

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
    found = _least_change(room, default)
    if found is None:
        return replace(start, fits=False)
    why = figures(needed, room.usable, f" of {room.where}")
    begun = _begun(start, found, room, f"it does not fit: {why}")
    told = (
        f"The engine's default does not fit: {why}, {format_bytes(needed - room.usable)} too few. The "
        f"campaign begins from {begun.words} ({format_bytes(room.count(found))}"
        f"{_bits(found)}), the least change of the model that fits, {_against(begun, room)}"
    )
    return replace(begun, told=told)


def swept_from(start: Start, spec: CampaignSpec, space: Space, where: str) -> tuple[Configuration, ...]:
    """What the sweep before trial 0 crosses; raises `UsageError` that names `where` for a knob that means
    nothing in what the campaign begins from."""
    try:
        return swept(space, start.configuration, spec.baseline.sweep)
    except UsageError as error:
        raise UsageError(f"{where}: baseline.sweep: {error.message}", error.hint) from None


def figures(needed: int, usable: int, of: str = "") -> str:
    """What is needed and what may be taken, as a clause."""
    return f"it needs {format_bytes(needed)}, and {format_bytes(usable)}{of} may be taken"


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


def _bits(begun: Configuration) -> str:
    quantized = begun.get("quantization.method", "none") != "none"
    return f", {format_words(begun)}" if quantized else ""


def _against(start: Start, room: Room) -> str:
    """What is compared with what, as the rest of a sentence, and of quality in one more."""
    told = "so every claim is against that, and not against the default."
    changed = {change.knob for change in start.default.changes_to(start.configuration)}
    if changed <= set(SERVED):
        return f"{told} It is the same model."
    if not room.scored:
        return told
    return f"{told} Quality too is compared with it: what it lost against the default is not measured."


def _least_change(room: Room, default: Configuration) -> Configuration | None:
    """The configuration that the rule of this module takes; None where nothing fits."""
    best: tuple[tuple[float, int, int], Configuration] | None = None
    for knobs, each in _candidates(room.legal, default):
        needed = room.count(each)
        if needed > room.usable:
            continue
        key = (-step_weight_bytes(room.profile, each).mean, knobs, -needed)
        if best is None or key < best[0]:  # the earlier one wins a tie: the space's own order
            best = (key, each)
    return None if best is None else best[1]


def _candidates(legal: Legal, default: Configuration) -> Iterator[tuple[int, Configuration]]:
    """Each legal configuration that differs from the default in the rule's knobs alone, and how many of these
    lead to it at least."""
    space = legal.space
    knobs = [knob for knob in space.knobs if knob.name in (*STORED, *SERVED)]
    found: dict[Configuration, int] = {}
    for values in product(*((None, *knob.values) for knob in knobs)):
        given = {knob.name: value for knob, value in zip(knobs, values, strict=True) if value is not None}
        with suppress(UsageError):  # a knob that means nothing beside the others
            each = space.with_change(default, given)
            if each != default:
                found[each] = min(len(given), found.get(each, len(given)))
    yield from ((count, each) for each, count in found.items() if legal.refused(each) is None)
