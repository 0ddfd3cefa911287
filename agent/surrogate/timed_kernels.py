"""What kernels timed alone say of a configuration's products, and of what the engine refuses. Pure.

The engine's kernels were timed on this device with this model's shapes before anything was loaded
(docs/kernel-timings.md). A configuration's products are put together from their parts: each in the format
that the configuration stores it in, by the kernel that it names, or the engine's own choice; what stands for
a product that was not timed says `timed_products.py`. Nothing here knows a kernel by its name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import fmean

from agent.surrogate.timed_products import AUTO, BITS, Knobs, StandIns, Timed, distance
from experiments.engines.kernel_timings import FORMAT, HEAD, KERNEL, PRODUCTS, KernelTiming, KernelTimings
from experiments.engines.stored_bytes import head_quantized, quantized_bits
from experiments.space.configuration import Configuration, KnobValue

TIMED_SD_LOG = 0.08
"""Standard deviation of what products take in a step over what they took alone, on the log scale, both over
16 bits: in a step other kernels run between them, their inputs lie in a cache, and some are computed together
with what follows. Seen: −0.12, −0.09 and −0.09 of one kernel with groups of 128, 64 and 32 and −0.03 of
another on H200s, −0.02 of a third on an H100."""

OUT_PROJ_BITS, KEEP = "quantization.out_proj_bits", "quantization.keep"
OUT_PROJ, EVERY_LAYER = "out_proj", "gate_up_proj"
OF_ATTENTION = ("qkv_proj", "o_proj")
"""Parts of attention layers; one part stands in every layer."""

EDGES = 2
"""Layers that `quantization.keep=edges` leaves as they are."""


@dataclass(frozen=True)
class Together:
    """What several configurations take, each with or all without the output head: None for one whose
    products were not timed. `with_head` says which."""

    each: tuple[Timed | None, ...]
    with_head: bool


@dataclass(frozen=True)
class TimedEffect:
    """The expected log factor of a part. `sd_log` is the standard deviation of what a step adds to what was
    timed, which all have in common; `open` what is open of products that were not timed themselves, by name:
    what has one name is one unknown, and the sign says which way it moves this factor."""

    mean_log: float
    sd_log: float
    open: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class TimedKernels:
    """Timings, asked by configuration. All of a configuration's knobs are given, not only those that differ
    from another one's."""

    timings: KernelTimings

    def of(self, configuration: Knobs, kind: str = PRODUCTS) -> Timed | None:
        """What a step's products of a kind take alone; None where that was not timed, or of the layers'
        products too little."""
        parts = [each.part for each in self.timings.plain.parts if each.kind == kind]
        found = {part: self._part(configuration, part) for part in parts}
        known = {part: timed for part, timed in found.items() if timed is not None}
        missing = [part for part in parts if part not in known]
        if not missing:
            return Timed.sum(known.values())
        rest = self._rest(configuration, known, missing) if kind == PRODUCTS else None
        return None if rest is None else Timed.sum([*known.values(), rest])

    def effect(self, before: Knobs, after: Knobs, kind: str) -> TimedEffect | None:
        """What products of a kind take after a change, over before; None where one of both was not timed."""
        one, other = self.of(before, kind), self.of(after, kind)
        if one is None or other is None:
            return None
        names = dict.fromkeys((*one.open, *other.open))
        moved = {name: other.open.get(name, 0.0) - one.open.get(name, 0.0) for name in names}
        open_ = {name: sd_log for name, sd_log in moved.items() if sd_log}
        return TimedEffect(math.log(other.us / one.us), TIMED_SD_LOG, open_)

    def together(self, configurations: Sequence[Knobs]) -> Together:
        """What each takes, for one to be held against another: products of the layers, and the output head
        where it was timed of all whose products were. A limit may have cut off the head of one alone."""
        products = [self.of(each) for each in configurations]
        heads = [self.of(each, HEAD) for each in configurations]
        found = [
            None if one is None or head is None else Timed.sum([one, head])
            for one, head in zip(products, heads, strict=True)
        ]
        with_head = all(one is None or head is not None for one, head in zip(products, heads, strict=True))
        return Together(tuple(found if with_head else products), with_head)

    def compiles_s(self, configuration: Knobs) -> float:
        """Seconds that the first calls of a configuration's products take together in a launch: what its
        kernel compiled when it first ran, a launch may compile anew; where another process was asked, by what
        that one took, and a product that was cut off then counts as the others on average. 0 where nothing
        was timed."""
        if quantized_bits(configuration) is None:
            return 0.0
        found, cut_off, asked = [], 0, False
        for part in (each.part for each in self.timings.plain.parts):
            if not self._packs(configuration, part):
                continue
            stand_ins = self._stand_ins(configuration, self._bits(configuration, part))
            timing = stand_ins.nearest(part)
            if timing is None:
                cut_off += stand_ins.is_cut_off(part)
            else:
                found.append(timing.again_share * timing.first_call_s(part))
                asked = asked or timing.later_calls_s is not None
        return math.fsum(found) + (cut_off * fmean(found) if found and asked else 0.0)

    def pair_compiles_s(self, control: Knobs, candidate: Knobs, *, in_turn: bool) -> float:
        """The same of a launch pair, whose arms load at the same time, or, with `in_turn`, one after the
        other."""
        both = self.compiles_s(control), self.compiles_s(candidate)
        return math.fsum(both) if in_turn else max(both)

    def class_of(self, configuration: Knobs) -> str | None:
        """The class of the kernel that multiplied weights of this format, or of the nearest of its bits that
        was timed with this value of the knob; None where none did."""
        near = [
            (distance(configuration, each.knobs), each.kernel)
            for each in self._of_kernel(configuration, configuration.get(BITS))
            if each.kernel
        ]
        return min(near, key=lambda each: each[0])[1] if near else None

    def classes(self, configuration: Knobs) -> Mapping[str, str]:
        """The class of the kernel that multiplied each part that the configuration packs, by the part's name:
        those alone that ran in just this format, with this value of the kernel's knob."""
        if quantized_bits(configuration) is None:
            return {}
        found = {}
        for part in (each.part for each in self.timings.plain.parts):
            if not self._packs(configuration, part):
                continue
            timing = self._exact(configuration, self._bits(configuration, part))
            ran = None if timing is None else timing.part_kernel(part)
            if ran is not None:
                found[part] = ran
        return found

    def refusal(self, configuration: Knobs) -> str | None:
        """Why the engine can't multiply the weights of a configuration, in a sentence; None where nothing is
        known against it."""
        if quantized_bits(configuration) is None:
            return None
        widths = dict.fromkeys((configuration.get(BITS), configuration.get(OUT_PROJ_BITS)))
        for bits in widths:
            found = self._exact(configuration, bits)
            if found is None:
                continue
            why = found.refused or (found.head_refused if head_quantized(configuration) else None)
            if why is not None:
                kernel = configuration.get(KERNEL, AUTO)
                return f"When kernels were timed, {KERNEL}={kernel} was refused with {bits} bits: {why}"
        return None

    def _part(self, configuration: Knobs, part: str) -> Timed | None:
        plain = self.timings.plain.part_us(part)
        if plain is None:
            return None
        if quantized_bits(configuration) is None or not self._packs(configuration, part):
            return Timed(plain)
        found = self._stand_ins(configuration, self._bits(configuration, part)).part(part)
        if found is None or configuration.get(KEEP) != "edges" or part == HEAD:
            return found
        layers = sum(each.count for each in self.timings.plain.parts if each.part == EVERY_LAYER)
        spared = EDGES / layers if layers else 0.0
        return replace(found, us=found.us + spared * (plain - found.us))

    def _rest(self, configuration: Knobs, known: Mapping[str, Timed], missing: Sequence[str]) -> Timed | None:
        """What stands for packed products that were cut off, by the known ones that are packed in as many
        bits; None where nothing does."""
        bits = configuration.get(BITS)
        if any(self._bits(configuration, part) != bits for part in missing):
            return None
        like = [
            each
            for each in known
            if self._packs(configuration, each) and self._bits(configuration, each) == bits
        ]
        known_us = math.fsum(known[part].us for part in like)
        return self._stand_ins(configuration, bits).rest(known_us, like, missing)

    def _stand_ins(self, configuration: Knobs, bits: KnobValue | None) -> StandIns:
        key = (bits, *(configuration.get(knob) for knob in (*FORMAT[1:], KERNEL)))
        if key not in self._known:
            self._known[key] = StandIns.of(self.timings, configuration, bits)
        return self._known[key]

    @cached_property
    def _known(self) -> dict[tuple[KnobValue | None, ...], StandIns]:
        """What was found before: many configurations share a format."""
        return {}

    @staticmethod
    def _packs(configuration: Knobs, part: str) -> bool:
        """Whether a quantized configuration packs the weights of this part."""
        if part == HEAD:
            return head_quantized(configuration)
        return configuration.get(KEEP) != "attention" or part not in OF_ATTENTION

    @staticmethod
    def _bits(configuration: Knobs, part: str) -> KnobValue | None:
        """The bits in which it packs the part."""
        own = configuration.get(OUT_PROJ_BITS) if part == OUT_PROJ else None
        return own or configuration.get(BITS)

    def _exact(self, configuration: Knobs, bits: KnobValue | None) -> KernelTiming | None:
        same = self._of_kernel(configuration, bits)
        return next((each for each in same if not distance(configuration, each.knobs)), None)

    def _of_kernel(self, configuration: Knobs, bits: KnobValue | None) -> list[KernelTiming]:
        """The timings of the configuration's kernel with so many bits."""
        kernel = configuration.get(KERNEL, AUTO)
        return [
            each
            for each in self.timings.packed
            if each.knobs.get(KERNEL, AUTO) == kernel and each.knobs.get(BITS) == bits
        ]


def refused_by(
    timed: TimedKernels | None, refused: Callable[[Configuration], str | None]
) -> Callable[[Configuration], str | None]:
    """What refuses a configuration, and, where kernels were timed, what the engine refused then."""
    if timed is None:
        return refused
    return lambda configuration: refused(configuration) or timed.refusal(configuration)
