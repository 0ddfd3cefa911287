"""What devices did, averaged: the only readings that outlive ten minutes."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import String
from sqlalchemy.orm import Mapped, mapped_column

from db.clock import Instant
from db.models.base import NAME_LENGTH, Base


class DeviceMean(Base):
    """Means of a device's readings over the five minutes from `started_at` on; see `experiments.telemetry`.

    `host` and `device` are as in `job.device` (`desk`, `cuda:0`). `samples` says how many readings there
    were and `read_s` for how many seconds they stand, null of means of before it was kept; what no reading
    had is null. `throttled_share` is the share of samples with a reason for
    throttling.
    """

    __tablename__ = "device_mean"

    host: Mapped[str] = mapped_column(String(NAME_LENGTH), primary_key=True)
    device: Mapped[str] = mapped_column(String(NAME_LENGTH), primary_key=True)
    started_at: Mapped[datetime] = mapped_column(Instant, primary_key=True)
    model: Mapped[str] = mapped_column(String(NAME_LENGTH))
    samples: Mapped[int]
    utilization_percent: Mapped[float | None]
    memory_used_bytes: Mapped[float | None]
    power_w: Mapped[float | None]
    temperature_c: Mapped[float | None]
    clock_mhz: Mapped[float | None]
    throttled_share: Mapped[float | None]
    read_s: Mapped[float | None]
