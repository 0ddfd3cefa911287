"""What kernels timed alone say of a configuration's products, and of what the engine refuses. Pure.

The engine's kernels were timed on this device with this model's shapes before anything was loaded
(docs/kernel-timings.md). A configuration's products are put together from their parts: each in the format
that the configuration stores it in, by the kernel that it names, or the engine's own choice. A format that
was not timed stands at the nearest of as many bits that the kernel was timed with. Products that a limit cut
off stand to those that were timed as they do with other kernels of as many bits. Nothing here knows a kernel
by its name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from experiments.engines.kernel_timings import (
    FAR_BEHIND,
    HEAD,
    KERNEL,
    PRODUCTS,
    TIMED_BY,
    KernelTiming,
    KernelTimings,
)
from experiments.engines.stored_bytes import head_quantized, quantized_bits
from experiments.space.configuration import Configuration, KnobValue

AUTO = "auto"
"""The value of the kernel's knob that leaves the choice to the engine."""

TIMED_SD_LOG = 0.08
"""Standard deviation of what products take in a step over what they took alone, on the log scale, both over
16 bits: in a step other kernels run between them, their inputs lie in a cache, and some are computed together
with what follows. Seen: −0.12, −0.09 and −0.09 of one kernel with groups of 128, 64 and 32 and −0.03 of
another on H200s, −0.02 of a third on an H100."""

OTHER_FORMAT_SD_LOG = 0.05
"""The same more for a format that was not timed with this kernel, whose nearest stands for it. Seen of two
kernels in six timings: groups of 32 took 0.014 to 0.042 more than groups of 128, zero points 0.012 to 0.037;
another kernel may feel them more."""

LEAST_TIMED = 0.25
"""Share of the layers' packed products, by what they take with 16 bits, that must have been timed for the
rest to stand as with other kernels."""

AS_OTHERS_SD_LOG = 0.1
"""Standard deviation of products that stand as with other kernels, on the log scale. By the first of six
alone all six together were told within −0.053 and +0.053, of 40 kernels and formats in six timings on H200s
and an H100 (those far behind left out). At the ratio of that one to 16 bits, which small products exceed with
every kernel, they would have been 0.04 to 0.18 below."""

BITS, GROUP_SIZE, SYMMETRIC = "quantization.bits", "quantization.group_size", "quantization.symmetric"
OUT_PROJ_BITS, KEEP = "quantization.out_proj_bits", "quantization.keep"
OUT_PROJ, EVERY_LAYER = "out_proj", "gate_up_proj"
OF_ATTENTION = ("qkv_proj", "o_proj")
"""Parts of attention layers; one part stands in every layer."""

EDGES = 2
"""Layers that `quantization.keep=edges` leaves as they are."""

Knobs = Mapping[str, KnobValue]


@dataclass(frozen=True)
class Timed:
    """Microseconds of a step, and how far off the logarithm may be beyond `TIMED_SD_LOG`; `whole` unless
    products are among them that were not timed."""

    us: float
    sd_log: float = 0.0
    whole: bool = True


@dataclass(frozen=True)
class Together:
    """What several configurations take, each with or all without the output head: None for one whose
    products were not timed. `with_head` says which."""

    each: tuple[Timed | None, ...]
    with_head: bool


@dataclass(frozen=True)
class TimedEffect:
    """The expected log factor of a part, the standard deviation of what all that were timed have in common,
    and by name of what was not timed itself, which is open of that alone: what has one name is one unknown,
    with the sign in which it moves this effect."""

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
        if not known or (missing and kind != PRODUCTS):
            return None
        us = math.fsum(each.us for each in known.values())
        unsure_us = math.fsum(each.us * each.sd_log for each in known.values())
        if missing:
            rest_us = self._as_others(configuration, known, missing)
            if rest_us is None:
                return None
            us, unsure_us = us + rest_us, unsure_us + rest_us * AS_OTHERS_SD_LOG
        return Timed(us, unsure_us / us, whole=not missing)

    def effect(self, before: Knobs, after: Knobs, kind: str) -> TimedEffect | None:
        """What products of a kind take after a change, over before; None where one of both was not timed."""
        one, other = self.of(before, kind), self.of(after, kind)
        if one is None or other is None:
            return None
        open_: dict[str, float] = {}
        for configuration, sd_log in ((before, -one.sd_log), (after, other.sd_log)):
            if sd_log:
                name = _named(configuration)
                open_[name] = open_.get(name, 0.0) + sd_log
        return TimedEffect(math.log(other.us / one.us), TIMED_SD_LOG, open_)

    def together(self, configurations: Sequence[Knobs]) -> Together:
        """What each takes, for one to be held against another: products of the layers, and the output head
        where it was timed of all whose products were. A limit may have cut off the head of one alone."""
        products = [self.of(each) for each in configurations]
        heads = [self.of(each, HEAD) for each in configurations]
        found = [
            None if one is None or head is None else _sum(one, head)
            for one, head in zip(products, heads, strict=True)
        ]
        with_head = all(one is None or head is not None for one, head in zip(products, heads, strict=True))
        return Together(tuple(found if with_head else products), with_head)

    def _as_others(
        self, configuration: Knobs, known: Mapping[str, Timed], missing: Sequence[str]
    ) -> float | None:
        """What the missing packed products take, if they stand to the known ones that are packed in the same
        bits as with other kernels, the geometric mean of these; None where the known ones are too few, where
        no other kernel was timed wholly, or where a product was not cut off but failed or was refused, or has
        other bits."""
        bits = configuration.get(BITS)
        told = [each for timing in self._of_kernel(configuration, bits) for each in timing.parts]
        for part in missing:
            cut_off = [each.left for each in told if each.part == part]
            if not cut_off or not all(cut_off) or self._bits(configuration, part) != bits:
                return None
        like = [
            each
            for each in known
            if self._packs(configuration, each) and self._bits(configuration, each) == bits
        ]
        plain = self.timings.plain
        if not like or _us(plain, like) < LEAST_TIMED * _us(plain, [*like, *missing]):
            return None
        shares = [_us(each, missing) / _us(each, like) for each in self._wholly_timed(configuration)]
        if not shares:
            return None
        share = math.exp(fmean(math.log(each) for each in shares))
        return share * math.fsum(known[part].us for part in like)

    def _wholly_timed(self, configuration: Knobs) -> list[KernelTiming]:
        """A timing of each class of kernel of which all products of the layers were timed with as many bits,
        in the format nearest to the configuration's; none that is far behind the fastest."""
        bits = configuration.get(BITS)
        same = [each for each in self.timings.packed if each.knobs.get(BITS) == bits]
        whole = [each for each in same if each.products_us is not None]
        nearest_last = sorted(whole, key=lambda each: _distance(configuration, each.knobs), reverse=True)
        by_class = {each.kernel: each for each in nearest_last}
        fastest_us = min((each.products_us or 0.0 for each in by_class.values()), default=0.0)
        return [each for each in by_class.values() if (each.products_us or 0.0) <= FAR_BEHIND * fastest_us]

    def compiles_s(self, configuration: Knobs) -> float:
        """Seconds that the first calls of a configuration's products take together in a launch: what its
        kernel compiled when it first ran, a launch may compile anew; where another process was asked, by what
        that one took. A product that was not timed takes as long as the others on average. 0 where nothing
        was timed."""
        if quantized_bits(configuration) is None:
            return 0.0
        parts = [each.part for each in self.timings.plain.parts]
        packed = [part for part in parts if part != HEAD or head_quantized(configuration)]
        found = []
        for part in packed:
            near = [
                (_distance(configuration, each.knobs), each.again_share * timed.first_call_s)
                for each in self._of_kernel(configuration, self._bits(configuration, part))
                for timed in each.parts
                if timed.part == part and timed.us is not None
            ]
            found += [min(near)[1]] if near else []
        return len(packed) * fmean(found) if found else 0.0

    def pair_compiles_s(self, control: Knobs, candidate: Knobs, *, in_turn: bool) -> float:
        """The same of a launch pair, whose arms load at the same time, or, with `in_turn`, one after the
        other."""
        both = self.compiles_s(control), self.compiles_s(candidate)
        return math.fsum(both) if in_turn else max(both)

    def class_of(self, configuration: Knobs) -> str | None:
        """The class of the kernel that multiplied weights of this format, or of the nearest of its bits that
        was timed with this value of the knob; None where none did."""
        near = [
            (_distance(configuration, each.knobs), each.kernel)
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
        found = self._nearest(configuration, self._bits(configuration, part), part)
        if found is None or configuration.get(KEEP) != "edges" or part == HEAD:
            return found
        layers = sum(each.count for each in self.timings.plain.parts if each.part == EVERY_LAYER)
        spared = EDGES / layers if layers else 0.0
        return Timed(found.us + spared * (plain - found.us), found.sd_log)

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

    def _nearest(self, configuration: Knobs, bits: KnobValue | None, part: str) -> Timed | None:
        """The part by the configuration's kernel in the nearest format that was timed."""
        near = [
            (_distance(configuration, each.knobs), us)
            for each in self._of_kernel(configuration, bits)
            if (us := each.part_us(part)) is not None
        ]
        if not near:
            return None
        distance, us = min(near, key=lambda each: each[0])
        return Timed(us, OTHER_FORMAT_SD_LOG if distance else 0.0)

    def _exact(self, configuration: Knobs, bits: KnobValue | None) -> KernelTiming | None:
        same = self._of_kernel(configuration, bits)
        return next((each for each in same if not _distance(configuration, each.knobs)), None)

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


def _named(configuration: Knobs) -> str:
    """What is open of products that were not timed, by what they would be timed by."""
    told = {KERNEL: AUTO, **configuration}
    return f"not timed with {', '.join(f'{knob}={told.get(knob)!r}' for knob in TIMED_BY)}"


def _sum(products: Timed, head: Timed) -> Timed:
    return Timed(products.us + head.us, max(products.sd_log, head.sd_log), products.whole)


def _us(timing: KernelTiming, parts: Sequence[str]) -> float:
    """Microseconds of these parts together in a step, those that were timed."""
    return math.fsum(timing.part_us(part) or 0.0 for part in parts)


def _distance(one: Knobs, other: Knobs) -> float:
    """How unlike two formats of as many bits are: doublings of the group, and one for zero points."""
    sizes = [each.get(GROUP_SIZE) for each in (one, other)]
    groups = [size for size in sizes if isinstance(size, int) and size > 0]
    doublings = abs(math.log2(groups[0] / groups[1])) if len(groups) == len(sizes) else 1.0
    return doublings + (one.get(SYMMETRIC) != other.get(SYMMETRIC))
