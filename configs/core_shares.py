"""The processor's cores, shared out among devices that are measured at the same time.

A load on one GPU is mostly work of the processor, and a measurement on another one needs the processor to
schedule its steps. With cores of its own a device is not disturbed by what loads on the next one; memory's
bandwidth and the bus stay shared.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from configs.cpu import usable_cores

LEAST_CORES = 4
"""Cores that a device is given at least; with fewer for each they are shared by all. A server of vLLM keeps
about three processes busy: the one that answers, the one that schedules and the one that drives the GPU."""

_SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


def siblings_of(cpu: int) -> frozenset[int]:
    """The processors that are threads of the same core as this one, itself included; itself alone where the
    system does not tell."""
    try:
        told = Path(_SIBLINGS.format(cpu)).read_text(encoding="ascii").strip()
        found: set[int] = set()
        for part in told.split(","):
            first, _, last = part.partition("-")
            found.update(range(int(first), int(last or first) + 1))
    except (OSError, ValueError):
        return frozenset({cpu})
    return frozenset(found | {cpu})


def usable() -> frozenset[int]:
    """The processors that this process may be put on; none where the system can't tell."""
    try:
        return frozenset(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        return frozenset()


def shares_here(devices: Sequence[str]) -> dict[str, frozenset[int]]:
    """The `core_shares` of this machine."""
    return core_shares(devices, usable(), at_most=usable_cores())


def core_shares(
    devices: Sequence[str],
    processors: Collection[int],
    siblings: Callable[[int], frozenset[int]] = siblings_of,
    at_most: int | None = None,
) -> dict[str, frozenset[int]]:
    """The processors that each device gets: as many whole cores for each, neighbours, none twice.

    Together they are `at_most` so many, the time that a container is allowed, which the devices would else
    take from each other. Nothing for one device, and where fewer than `LEAST_CORES` cores would be left for
    each: whatever runs then may use all. What does not divide evenly stays unused, so that devices are alike.
    """
    cores = sorted({tuple(sorted(siblings(each) & set(processors))) for each in processors})
    while at_most is not None and sum(map(len, cores)) > at_most:
        cores.pop()
    each_has = len(cores) // max(1, len(devices))
    if len(devices) < 2 or each_has < LEAST_CORES:
        return {}
    return {
        device: frozenset(cpu for core in cores[at * each_has : (at + 1) * each_has] for cpu in core)
        for at, device in enumerate(devices)
    }
