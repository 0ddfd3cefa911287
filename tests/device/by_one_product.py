"""Holds what one product tells of a kernel against what all of them took, by timings that are kept.

    python -m tests.device.by_one_product docs/results/campaigns/*-9b*-kernels.json

A file holds the timings of one device (`KernelTimings.data`), or several by its name. Of each kernel and
format that was timed wholly, all but the first product are taken for cut off, in every format of its bits and
under every name of its class, and what `TimedKernels` then says of the layers' products is held against what
they took. Kernels far behind the fastest are left out: nothing is decided by them.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist, fmean

from agent.surrogate.timed_kernels import TimedKernels
from experiments.engines.kernel_timings import (
    FAR_BEHIND,
    FORMAT,
    KERNEL,
    KernelTiming,
    KernelTimings,
    packed_words,
)

BITS = FORMAT[0]
LIMIT = "The limit was reached."
INSIDE_80 = NormalDist().inv_cdf(0.9)


@dataclass(frozen=True)
class Told:
    """One kernel and format: the log of what was told over what it took, the same at the product's own ratio
    to 16 bits, and the standard deviation that goes with what was told."""

    words: str
    off_log: float
    at_ratio_log: float
    sd_log: float

    @property
    def is_inside(self) -> bool:
        """Whether what it took lies inside the 80 % interval that was told."""
        return abs(self.off_log) < INSIDE_80 * self.sd_log


def timings_in(path: Path) -> list[KernelTimings]:
    """The timings that a file keeps."""
    data = json.loads(path.read_text(encoding="utf-8"))
    return [KernelTimings.of_data(each) for each in ([data] if "plain" in data else data.values())]


def told_by_one(timings: KernelTimings) -> Iterator[Told]:
    """Each kernel and format of which all was timed, where another class of as many bits was too."""
    for timing in timings.packed:
        bits, own_us = timing.knobs[BITS], timing.products_us
        same = [each for each in timings.packed if each.knobs[BITS] == bits and each.products_us is not None]
        fastest_us = min((each.products_us or math.inf for each in same), default=math.inf)
        if own_us is None or own_us > FAR_BEHIND * fastest_us:
            continue
        left = replace(timings, packed=tuple(_cut(each, timing) for each in timings.packed))
        told = TimedKernels(left).of({"quantization.method": "awq", **timing.knobs})
        if told is None:  # no other class was timed wholly
            continue
        first = timing.parts[0].part
        ratio = (timing.part_us(first) or 0.0) / (timings.plain.part_us(first) or math.inf)
        at_ratio_us = ratio * (timings.plain.products_us or math.inf)
        words = f"{timing.knobs[KERNEL]} ({timing.kernel}), {packed_words(timing.knobs)}"
        yield Told(words, math.log(told.us / own_us), math.log(at_ratio_us / own_us), told.sd_log)


def _cut(each: KernelTiming, timing: KernelTiming) -> KernelTiming:
    """A timing as a limit would have left it where that of `timing`'s class came to one product: what has the
    same name keeps its first, the class under other names nothing."""
    same_class = each.knobs[BITS] == timing.knobs[BITS] and each.kernel == timing.kernel
    first, *rest = each.parts
    lost = [replace(part, us=None, kernel=None, untimed=LIMIT, left=True) for part in (first, *rest)]
    if each.knobs[KERNEL] == timing.knobs[KERNEL]:
        return replace(each, parts=(first, *lost[1:]))
    return replace(each, parts=tuple(lost)) if same_class else each


def main(arguments: Sequence[str]) -> None:
    """Print a line for each, and what all of them come to."""
    found = []
    for path in map(Path, arguments):
        try:
            kept = timings_in(path)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as reason:
            sys.exit(f"{path} holds no kernel timings that can be read: {reason}")
        for timings in kept:
            for each in told_by_one(timings):
                logs = f"{each.off_log:+.3f} ± {each.sd_log:.3f}, at the ratio {each.at_ratio_log:+.3f}"
                print(f"{logs}  {each.words}")
                found.append(each)
    if not found:
        sys.exit("No file holds a kernel that was timed wholly beside another class of as many bits.")
    off, at_ratio = ([getattr(each, name) for each in found] for name in ("off_log", "at_ratio_log"))
    for words, logs in (("as other kernels", off), ("at the ratio to 16 bits", at_ratio)):
        rms = math.sqrt(math.fsum(log**2 for log in logs) / len(logs))
        print(f"{len(found)} {words}: {min(logs):+.3f} to {max(logs):+.3f}, {rms:.3f} in root mean square")
    inside, said = sum(each.is_inside for each in found), fmean(each.sd_log for each in found)
    print(f"{inside} of {len(found)} lie inside 80 % of what is said of them, ±{said:.3f} on average")


if __name__ == "__main__":
    main(sys.argv[1:])
