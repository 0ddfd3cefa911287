"""What was timed of an engine's products, and what stands for those that were not. Pure.

A limit may cut a timing off, and few formats are timed at all. Then stands, for a product in one format,

- the nearest format of as many bits that the same class of kernel was timed with, under whatever value of
  the knob it ran; the engine's own choice may be another class in each format;
- for a product that was cut off altogether, what it takes with other classes of as many bits by what the
  products that were timed take with them: how kernels differ they differ on all products, and small products
  are slower with every kernel.

How far off that may be is told by name: what has one name is one unknown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from experiments.engines.kernel_timings import (
    FAR_BEHIND,
    FORMAT,
    KERNEL,
    PRODUCTS,
    KernelTiming,
    KernelTimings,
    packed_words,
)
from experiments.space.configuration import KnobValue

AUTO = "auto"
"""The value of the kernel's knob that leaves the choice to the engine."""

BITS, GROUP_SIZE, SYMMETRIC = FORMAT

OTHER_FORMAT_SD_LOG = 0.05
"""Standard deviation of what a class of kernel takes in a format that it was not timed with over the nearest
that it was, on the log scale. Seen, where both were timed on H200s and an H100: 0.014 to 0.042 with groups of
32 over 128 of one class, 0.012 to 0.037 with zero points of two; another may feel them more."""

KERNEL_SD_LOG = 0.3
"""Standard deviation of what one kernel for packed weights has over another, of products: three of them
reached 32 to 49 % of the bandwidth of an H200. Which is which is not known before it is measured. What
multiplies 8-bit weights is one such kernel, and as little is known of it."""

AS_OTHERS_SD_LOG = 0.08
"""Standard deviation, on the log scale, between classes of kernels of what the products that were cut off
take over those that were timed, before a class was seen. By the first of six alone all six together were told
within −0.053 and +0.053, of 76 kernels and formats of a dense model in ten timings on H200s and an H100
(`tests/device/by_one_product.py`; those far behind left out). At the ratio of that one to 16 bits, which
small products exceed with every kernel, they would have been 0.04 to 0.18 below."""

AS_OTHERS_SEEN = 1
"""As how many classes that deviation counts beside those that were timed. Classes differ by more where
products are small: of a Mixture of Experts, on an H200, by 0.2, and nine kernels and formats were told within
−0.198 and +0.229."""

LEAST_TIMED = 0.25
"""Share of the layers' packed products, by what they take with 16 bits, that must have been timed for the
rest to stand as with other kernels."""

Knobs = Mapping[str, KnobValue]


@dataclass(frozen=True)
class Timed:
    """Microseconds of a step, and by name how far off their logarithm may be for what was not timed itself,
    as standard deviations; `whole` unless a product among them was timed in no format."""

    us: float
    open: Mapping[str, float] = field(default_factory=dict)
    whole: bool = True

    @property
    def sd_log(self) -> float:
        """How far off the logarithm may be in all."""
        return math.hypot(*self.open.values())

    @classmethod
    def sum(cls, timed: Iterable[Timed]) -> Timed | None:
        """All of them together; None where they take no time."""
        each = tuple(timed)
        us = math.fsum(one.us for one in each)
        if us <= 0:
            return None
        found: dict[str, float] = {}
        for one in each:
            for name, sd_log in one.open.items():
                found[name] = found.get(name, 0.0) + sd_log * one.us / us
        return cls(us, found, all(one.whole for one in each))


@dataclass(frozen=True)
class StandIns:
    """Timings that stand for products in one format by one value of the kernel's knob, those of this value
    first, and this format's own among them (None: it was not timed). `kernel` is the class that runs, or the
    value where that is not known, and `sd_log` how far off another format than this one may be."""

    timings: KernelTimings
    knobs: Knobs
    exact: KernelTiming | None
    like: tuple[KernelTiming, ...]
    kernel: str
    sd_log: float

    @classmethod
    def of(cls, timings: KernelTimings, configuration: Knobs, bits: KnobValue | None) -> StandIns:
        """Those for a configuration's products in so many bits: of the class that ran in this format, or that
        ran with a kernel that is named in all that were timed. The engine's own choice may be another class
        in each format: where none ran in this one, or several did, the nearest of this value stands, by
        `sd_log` as open as any kernel."""
        knobs: Knobs = {KERNEL: AUTO, **configuration, BITS: bits or 0}
        same_bits = [each for each in timings.packed if each.knobs.get(BITS) == bits]
        named = [each for each in same_bits if each.knobs.get(KERNEL, AUTO) == knobs[KERNEL]]
        exact = next((each for each in named if not distance(knobs, each.knobs)), None)
        ran = _classes([exact] if exact else [])
        if not ran and knobs[KERNEL] != AUTO:
            ran = _classes(named)
        known = len(ran) == 1
        if not known:
            told = [each for each in named if _classes([each])]
            ran = _classes(sorted(told, key=lambda each: distance(knobs, each.knobs))[:1])
        like = [each for each in same_bits if each is exact or _classes([each]) & ran]
        like.sort(key=lambda each: each.knobs.get(KERNEL, AUTO) != knobs[KERNEL])
        kernel = next(iter(ran)) if known else str(knobs[KERNEL])
        return cls(
            timings, knobs, exact, tuple(like), kernel, OTHER_FORMAT_SD_LOG if known else KERNEL_SD_LOG
        )

    def part(self, part: str) -> Timed | None:
        """A product in the nearest format; None where it was timed in none."""
        timing = self.nearest(part)
        us = None if timing is None else timing.part_us(part)
        if timing is None or us is None:
            return None
        if not distance(self.knobs, timing.knobs):
            return Timed(us)
        return Timed(us, {f"not timed of {self.kernel}, {packed_words(self.knobs)}": self.sd_log})

    def rest(self, known_us: float, known: Sequence[str], missing: Sequence[str]) -> Timed | None:
        """What the missing products take, if they stand to the known ones, which take so long, as with other
        classes of as many bits: the geometric mean of those that take at most `FAR_BEHIND` times as long for
        the known ones, or as short. None where a product was not cut off but failed or was refused, where the
        known ones are too few, or where no such class was timed wholly."""
        plain = self.timings.plain
        base = self.nearest(known[0]) if known else None
        if base is None or not all(map(self.is_cut_off, missing)):
            return None
        if any(plain.part_us(part) is None for part in (*known, *missing)):
            return None
        if _us(plain, known) < LEAST_TIMED * _us(plain, [*known, *missing]):
            return None
        shares = []
        for other in self._wholly_timed(base.knobs):
            others_us, rest_us = _us(other, known), _us(other, missing)
            if rest_us > 0 and known_us / FAR_BEHIND <= others_us <= FAR_BEHIND * known_us:
                shares.append(rest_us / others_us)
        if not shares or known_us <= 0:
            return None
        logs = [math.log(share) for share in shares]
        us = known_us * math.exp(fmean(logs))
        return Timed(
            us, {f"cut off of {self.kernel}, {self.knobs[BITS]} bits": as_others_sd_log(logs)}, whole=False
        )

    def is_cut_off(self, part: str) -> bool:
        """Whether a product was left for a later timing, in this format where that was asked for."""
        told = self.like if self.exact is None else (self.exact,)
        left = [each.left for timing in told for each in timing.parts if each.part == part]
        return bool(left) and all(left)

    def nearest(self, part: str) -> KernelTiming | None:
        """The timing that stands for a product; None where it was timed in none."""
        timed = [each for each in self.like if each.part_us(part) is not None]
        return min(timed, key=lambda each: distance(self.knobs, each.knobs), default=None)

    def _wholly_timed(self, near: Knobs) -> list[KernelTiming]:
        """A timing of each class of which all products of the layers were timed with as many bits, in the
        nearest format."""
        bits = self.knobs[BITS]
        same_bits = [each for each in self.timings.packed if each.knobs.get(BITS) == bits]
        whole = [each for each in same_bits if each.products_us is not None]
        by_class: dict[str, KernelTiming] = {}
        for each in sorted(whole, key=lambda timing: distance(near, timing.knobs)):
            by_class.setdefault(each.kernel, each)
        return list(by_class.values())


def distance(one: Knobs, other: Knobs) -> float:
    """How unlike two formats of as many bits are: doublings of the group, and one for zero points."""
    sizes = [each.get(GROUP_SIZE) for each in (one, other)]
    groups = [size for size in sizes if isinstance(size, int) and size > 0]
    doublings = abs(math.log2(groups[0] / groups[1])) if len(groups) == len(sizes) else 1.0
    return doublings + (one.get(SYMMETRIC) != other.get(SYMMETRIC))


def as_others_sd_log(logs: Sequence[float]) -> float:
    """How far off one class more may be from the mean of these, by how they differ among each other and by
    `AS_OTHERS_SD_LOG`."""
    middle = fmean(logs)
    scatter = math.fsum((each - middle) ** 2 for each in logs)
    variance = (AS_OTHERS_SEEN * AS_OTHERS_SD_LOG**2 + scatter) / (AS_OTHERS_SEEN + len(logs) - 1)
    return math.sqrt(variance * (1 + 1 / len(logs)))


def _classes(timings: Iterable[KernelTiming]) -> frozenset[str]:
    """The classes that ran for products of the layers."""
    parts = (part for timing in timings for part in timing.parts if part.kind == PRODUCTS)
    return frozenset(part.kernel for part in parts if part.kernel)


def _us(timing: KernelTiming, parts: Sequence[str]) -> float:
    """Microseconds of these parts together in a step, those that were timed."""
    return math.fsum(timing.part_us(part) or 0.0 for part in parts)
