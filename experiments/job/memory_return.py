"""What a job's launches hold of a GPU, by what a guard sees of it, and whether they gave it back. Pure.

Counted is what is used of the device, less what processes hold that only draw and, once the last launch has
ended, less what processes hold that came since and are not the job's. Stages compute in processes of their
own, so that nothing of it is the job's own process's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from configs.quantities import format_duration
from experiments.telemetry.occupants import GB, DeviceUse, Occupant

IDLE_BYTES = 2**30
"""What may be used of a GPU on which nothing computes: the driver's own, beside what processes that draw
hold. A guess, larger than any seen; a process that computes takes at least as much as its context, told by
its number where the driver lists it."""


@dataclass(frozen=True)
class NotReturned:
    """Bytes that launches held and that are still held after their end: by `holders`, which are the job's
    own, by nobody whom the driver names, or by one of `others`, of whom it does not tell how much."""

    bytes: int
    holders: tuple[Occupant, ...]
    others: tuple[Occupant, ...]

    def told(self, device: str, waited_s: float) -> str:
        """What is not given back, who holds it and what to do, in a sentence."""
        held = f"{self.bytes / GB:.1f} GB of {device} that this job's launches held"
        what = f"{held} were not given back within {format_duration(waited_s)} of the last one's end"
        if self.holders:
            return (
                f"{what}: {_named(self.holders)} and is this job's, which kills its processes as it ends; if "
                "`nvidia-smi` shows it even then, it hangs in the driver: reset the GPU with `nvidia-smi "
                "--gpu-reset`, or restart the machine."
            )
        who = "the driver names no process for them"
        if self.others:
            who = f"{_named(self.others)} and is not this job's"
        return (
            f"{what}: {who}; look with `nvidia-smi` and `fuser -v /dev/nvidia*` for what holds them, end it "
            "if it is yours, or reset the GPU with `nvidia-smi --gpu-reset`."
        )


class SeenMemory:
    """Adds up what is seen of a device while nobody but the job computes there.

    `before_bytes` were used when the job might first have launched, None until that was seen; `most_bytes`
    are the most seen since. `launched` are the numbers by which the driver names the job's launches.
    """

    def __init__(self) -> None:
        self.before_bytes: int | None = None
        self.most_bytes = 0
        self.launched: set[int] = set()

    def add(self, use: DeviceUse, own: frozenset[int], up: int) -> None:
        """Take in one look, with `up` launches up, of the processes `own`.

        Where the driver names none of these, it counts processes otherwise than this machine does (a
        container), and whom it names are they.
        """
        used = use.used_bytes - use.drawn_bytes
        if self.before_bytes is None and not up:
            self.before_bytes = used
        self.most_bytes = max(self.most_bytes, used)
        if up:
            named = {each.pid for each in use.computing or ()}
            self.launched |= named & own or named

    def not_returned(self, use: DeviceUse, own: frozenset[int]) -> NotReturned | None:
        """What is still held now that no launch is up, `own` being the processes that the job still has; None
        where all was given back, as far as is known."""
        if self.before_bytes is None:
            return None
        listed, launched = use.computing or (), self.launched | own
        holders = tuple(each for each in listed if each.pid in launched)
        others = tuple(each for each in listed if each.pid not in launched)
        elsewhere = use.drawn_bytes + sum(each.used_bytes or 0 for each in others)
        more = use.used_bytes - elsewhere - self.before_bytes
        if not holders and more <= IDLE_BYTES:
            return None
        unknown = tuple(each for each in others if each.used_bytes is None)
        return NotReturned(max(more, 0), holders, unknown)


def _named(occupants: Sequence[Occupant]) -> str:
    return "; ".join(map(str, occupants))
