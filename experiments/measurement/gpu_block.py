"""What a GPU did while a block of requests ran: clocks, power, energy a token, heat, throttling. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from experiments.measurement.evidence import Json
from experiments.telemetry.gpus import THROTTLE_REASONS, throttle_words
from experiments.telemetry.watching import GpuReading

POWER_CAP = 0x4
"""NVML's bit for clocks that the power limit holds down."""

HARDWARE_SLOWDOWN, HEAT, POWER_BRAKE = 0x8, 0x20 | 0x40, 0x80
"""NVML's bits of what holds a GPU down from outside of its load; heat is told by driver and by hardware. With
heat by the hardware and with the brake it tells the slowdown too."""

THROTTLING = HARDWARE_SLOWDOWN | HEAT | POWER_BRAKE
"""NVML's bits that always count."""

CLOCKS_FELL = 0.03
"""How far below its highest of the block a clock under the power limit counts as fallen, relative: as much
as the effect that a campaign asks for by default. At full load many GPUs run at their power limit all the
time, at a steady clock: that is how they are, and no disturbance."""

PUT_OFF_BESIDE = "put_off_beside"
"""Where a block keeps what was on the device when it was to begin, so that it began once that was gone."""

TIMED_AGAIN_BESIDE = "timed_again_beside"
"""Where it keeps what was on the device when it ended, so that it was thrown away and measured again."""

EITHER_BESIDE = "measured_again_beside"
"""Where blocks that were recorded before these were told apart keep both."""


def gpu_during(readings: Sequence[GpuReading], output_tokens: int) -> dict[str, Json]:
    """The readings of a block as evidence; whatever no reading tells is None.

    Clocks in MHz, `power_w` the mean over time, `temperature_c` the highest, `energy_j` of the whole GPU by
    the driver's counter (`energy_by` is `counter`) or else the integral of its power (`power`), and over
    `output_tokens`. `throttle` has the share of readings by reason; `throttled` is why the block counts as
    throttled, None where it does not.
    """
    energy_j, energy_by = _energy(readings)
    return {
        "readings": len(readings),
        "wall_s": readings[-1].at_s - readings[0].at_s,
        "sm_mhz": _spread([each.sm_mhz for each in readings]),
        "memory_mhz": _spread([each.memory_mhz for each in readings]),
        "power_w": _mean_power(readings),
        "temperature_c": max(_told([each.temperature_c for each in readings]), default=None),
        "energy_j": energy_j,
        "energy_by": energy_by,
        "energy_j_per_output_token": None if energy_j is None else energy_j / output_tokens,
        "throttle": _shares(readings),
        "throttled": throttled(readings),
    }


def throttled(readings: Sequence[GpuReading]) -> str | None:
    """Why the GPU throttled during a block, in words; None where it did not, or does not tell."""
    bits, highest, lowest = _throttling(readings)
    if not bits:
        return None
    words = ", ".join(throttle_words(bits))
    return f"{words}: {highest:.0f} to {lowest:.0f} MHz" if bits & POWER_CAP else words


def held_down_by(throttled: str) -> int:
    """NVML's bits that always count, of why a block counts as throttled in words; 0 where it was the power
    limit alone."""
    return sum(bit for bit, words in THROTTLE_REASONS.items() if bit & THROTTLING and words in throttled)


def only_power_capped(readings: Sequence[GpuReading]) -> bool:
    """Whether the GPU throttled during a block and its power limit is all the driver names for it."""
    return _throttling(readings)[0] == POWER_CAP


def _throttling(readings: Sequence[GpuReading]) -> tuple[int, float, float]:
    """NVML's bits that count, and the SM clock in MHz: the highest, and the lowest under the power limit."""
    bits = 0
    highest = max(_told([each.sm_mhz for each in readings]), default=0.0)
    lowest = highest
    for each in readings:
        if each.throttle_bits is None:
            continue
        bits |= each.throttle_bits & THROTTLING
        fell = each.sm_mhz is not None and each.sm_mhz < (1 - CLOCKS_FELL) * highest
        if each.throttle_bits & POWER_CAP and fell:
            bits |= POWER_CAP
            lowest = min(lowest, each.sm_mhz or lowest)
    return bits, highest, lowest


def _energy(readings: Sequence[GpuReading]) -> tuple[float | None, str | None]:
    before, after = readings[0].energy_j, readings[-1].energy_j
    if before is not None and after is not None and after > before:
        return after - before, "counter"
    steps = _power_steps(readings)
    if not steps:
        return None, None
    return sum(power_w * seconds for power_w, seconds in steps), "power"


def _mean_power(readings: Sequence[GpuReading]) -> float | None:
    steps = _power_steps(readings)
    seconds = sum(each for _, each in steps)
    return sum(power_w * each for power_w, each in steps) / seconds if seconds else None


def _power_steps(readings: Sequence[GpuReading]) -> list[tuple[float, float]]:
    """Mean power and seconds between neighbouring readings that tell power."""
    told = [(each.at_s, each.power_w) for each in readings if each.power_w is not None]
    return [((one + other) / 2, after - before) for (before, one), (after, other) in pairwise(told)]


def _shares(readings: Sequence[GpuReading]) -> Json:
    told = [throttle_words(each.throttle_bits) for each in readings if each.throttle_bits is not None]
    if not told:
        return None
    reasons = sorted({reason for words in told for reason in words})
    return {reason: sum(reason in words for words in told) / len(told) for reason in reasons}


def _spread(values: Sequence[float | None]) -> Json:
    told = _told(values)
    return {"min": min(told), "median": median(told), "max": max(told)} if told else None


def _told(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]
