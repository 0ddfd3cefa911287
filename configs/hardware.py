"""Hardware profiles: what a GPU's vendor states, validated.

Rates are dense (no structured sparsity) and peak: nothing reaches them, everything is bounded by them.
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from configs.catalog import Kind, packaged_names, read_document
from configs.validation import validated

_MOST_BANDWIDTH = 100e12
"""Bytes per second; above it a figure is a slip of the unit (twelve times a B200)."""

_MOST_RATE = 100e15
"""Operations per second; above it a figure is a slip of the unit (twenty times a B200 in FP8)."""


NEAR = 0.1
"""How far a driver's figure of a GPU's memory may lie from its vendor's, as a share."""


class HardwareProfile(BaseModel):
    """One kind of GPU as its vendor describes it."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    title: str = Field(min_length=1)
    device_names: tuple[str, ...] = Field(min_length=1)
    """What the driver calls this GPU."""
    compute_capability: str = Field(pattern=r"^\d+\.\d$")
    memory_bytes: int = Field(ge=10**9)
    """As the vendor counts it, 10⁹ to the gigabyte; a driver shows a little more or less."""
    bandwidth_bytes_per_s: float = Field(ge=1e10, le=_MOST_BANDWIDTH)
    bf16_flop_per_s: float = Field(ge=1e12, le=_MOST_RATE)
    """Multiply and add count as two; accumulation in FP32. Of a card without bfloat16 that of float16."""
    fp8_flop_per_s: float | None = Field(ge=1e12, le=_MOST_RATE)
    """None where the hardware has no FP8."""
    int8_op_per_s: float = Field(ge=1e12, le=_MOST_RATE)
    power_limit_w: float = Field(ge=10, le=5000)
    source: str = Field(min_length=1)
    """The vendor's document that states the figures."""
    recorded: datetime.date
    """When the figures were entered here; `docs/configuration.md` says which were compared with listings."""

    @model_validator(mode="after")
    def _narrow_is_no_slower(self) -> Self:
        narrow = [rate for rate in (self.fp8_flop_per_s, self.int8_op_per_s) if rate is not None]
        if any(rate < self.bf16_flop_per_s for rate in narrow):
            raise ValueError("an 8-bit rate is below the bf16 rate: is one of them with sparsity?")
        return self

    def has_memory(self, memory_bytes: int) -> bool:
        """Whether a driver that tells so much memory may speak of this GPU."""
        return abs(memory_bytes - self.memory_bytes) <= NEAR * self.memory_bytes

    @property
    def balance_flop_per_byte(self) -> float:
        """The roofline's ridge: below so many bf16 operations a byte read, memory bounds a kernel."""
        return self.bf16_flop_per_s / self.bandwidth_bytes_per_s

    def read_time_s(self, read_bytes: float) -> float:
        """Seconds that reading so many bytes takes at full bandwidth: a floor, not an estimate."""
        return read_bytes / self.bandwidth_bytes_per_s


def load_hardware_profile(name_or_path: str | Path) -> HardwareProfile:
    """The profile of this packaged name or YAML file; raises `UsageError` that names the fault."""
    document = read_document(Kind.HARDWARE, name_or_path)
    return validated(HardwareProfile, document.data, document.where)


def profile_of_device(device_name: str, memory_bytes: int | None = None) -> HardwareProfile | None:
    """The packaged profile of the GPU that the driver calls so; None when there is none.

    Where the driver told the memory too, that of the profile is near it: some cards of one name are sold with
    more or less memory, and then with another bandwidth or other rates.
    """
    profiles = map(load_hardware_profile, packaged_names(Kind.HARDWARE))
    named = (profile for profile in profiles if device_name in profile.device_names)
    return next((each for each in named if memory_bytes is None or each.has_memory(memory_bytes)), None)
