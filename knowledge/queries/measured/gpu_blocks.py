"""What the GPU did while the launches of an experiment were timed, by launch. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean, median

from db.models.base import JsonObject
from db.states import Arm
from experiments.measurement.gpu_block import EITHER_BESIDE, PUT_OFF_BESIDE, TIMED_AGAIN_BESIDE
from knowledge.queries.view import View
from knowledge.stored import number


class GpuBlocksView(View):
    """The timed blocks of a launch: clocks in MHz (the median of the blocks' medians, the lowest and the
    highest), mean power, the whole GPU's energy an output token, the highest temperature; None where the
    driver did not tell.

    `repeated` counts blocks that were run anew because the GPU throttled, `throttled` those in which it
    throttled every time, whose last attempt counts; `causes` says why. `disturbed` counts those that were
    put off, or measured again, because something else was on the GPU; `guests` says what. `put_off` and
    `measured_again` count each of the two, a block to which both happened in both; blocks that were recorded
    before the two were told apart are in neither, but in `put_off_or_measured_again`.
    """

    arm: Arm
    index: int
    stage: str
    attempt: int
    blocks: int
    sm_mhz: float | None
    sm_mhz_min: float | None
    sm_mhz_max: float | None
    memory_mhz: float | None
    power_w: float | None
    energy_j_per_output_token: float | None
    temperature_c: float | None
    repeated: int
    throttled: int
    causes: tuple[str, ...]
    disturbed: int
    put_off: int
    measured_again: int
    put_off_or_measured_again: int
    guests: tuple[str, ...]

    @property
    def disturbed_told(self) -> str:
        """A sentence about the blocks that were not measured beside a guest; for those that have any."""
        both = self.put_off + self.measured_again + self.put_off_or_measured_again - self.disturbed
        counted = (
            (self.put_off - both, "put off"),
            (self.measured_again - both, "measured again"),
            (both, "both put off and measured again"),
            (self.put_off_or_measured_again, "put off or measured again"),
        )
        told = [
            f"{count} block was {what}" if count == 1 else f"{count} blocks were {what}"
            for count, what in counted
            if count
        ]
        beside = "; ".join(self.guests)
        return f"{' and '.join(told)}, for something else was on the GPU: {beside}."


def gpu_blocks(
    arm: Arm, index: int, stage: str, attempt: int, environment: Mapping[str, object]
) -> GpuBlocksView | None:
    """The view of one launch from its stored environment; None where no GPU was read."""
    told = told_of_blocks(environment.get("blocks"))
    if not told:
        return None
    beside = [_guests(during) for during in _during(environment.get("blocks"))]
    repeats = [each.get("repeated") or [] for each in told]
    attempts = [each for each in told if each.get("throttled")]
    attempts += [each for one in repeats if isinstance(one, list) for each in one if isinstance(each, dict)]
    lowest, highest = numbers(told, "sm_mhz", "min"), numbers(told, "sm_mhz", "max")
    sm_mhz, memory_mhz = numbers(told, "sm_mhz", "median"), numbers(told, "memory_mhz", "median")
    power_w, energy_j = numbers(told, "power_w"), numbers(told, "energy_j_per_output_token")
    return GpuBlocksView(
        arm=arm,
        index=index,
        stage=stage,
        attempt=attempt,
        blocks=len(told),
        sm_mhz=median(sm_mhz) if sm_mhz else None,
        sm_mhz_min=min(lowest, default=None),
        sm_mhz_max=max(highest, default=None),
        memory_mhz=median(memory_mhz) if memory_mhz else None,
        power_w=fmean(power_w) if power_w else None,
        energy_j_per_output_token=median(energy_j) if energy_j else None,
        temperature_c=max(numbers(told, "temperature_c"), default=None),
        repeated=sum(bool(each) for each in repeats),
        throttled=sum(bool(each.get("throttled")) for each in told),
        causes=tuple(sorted({str(each.get("throttled")) for each in attempts})),
        disturbed=sum(map(bool, beside)),
        put_off=sum(PUT_OFF_BESIDE in each for each in beside),
        measured_again=sum(TIMED_AGAIN_BESIDE in each for each in beside),
        put_off_or_measured_again=sum(EITHER_BESIDE in each for each in beside),
        guests=tuple(sorted({guest for each in beside for guests in each.values() for guest in guests})),
    )


def told_of_blocks(blocks: object) -> list[JsonObject]:
    """What is stored of a GPU with the blocks of a launch, of the attempts that count; empty where none was
    read."""
    return [gpu for during in _during(blocks) if isinstance(gpu := during.get("gpu"), dict)]


def _during(blocks: object) -> list[JsonObject]:
    """What is stored beside the samples of each block that has anything beside them."""
    return [
        during
        for block in (blocks if isinstance(blocks, list) else [])
        if isinstance(block, dict) and isinstance(during := block.get("during"), dict)
    ]


def _guests(during: JsonObject) -> dict[str, list[str]]:
    """What else was on the GPU before or after a block, by where it is kept; without what is not told."""
    kept = {place: during.get(place) for place in (PUT_OFF_BESIDE, TIMED_AGAIN_BESIDE, EITHER_BESIDE)}
    return {
        place: [str(each) for each in told] for place, told in kept.items() if told and isinstance(told, list)
    }


def numbers(blocks: Iterable[JsonObject], name: str, part: str | None = None) -> list[float]:
    """The figures of that name, or that `part` of each, where the driver told them."""
    found = []
    for block in blocks:
        value = block.get(name)
        if part is not None:
            value = value.get(part) if isinstance(value, dict) else None
        if (known := number(value)) is not None:
            found.append(known)
    return found
