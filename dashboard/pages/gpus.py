"""GPUs: what every device does now and did within ten minutes, and the experiment on it."""

from __future__ import annotations

from datetime import UTC, datetime

from pydantic import Field
from sqlalchemy.orm import Session

from dashboard.device_views import DeviceView, device_views, remote_view
from dashboard.devices import Devices
from dashboard.page import READING_S, Filters, Ground, Page, Request, Table
from experiments.telemetry.reading import DeviceKind
from knowledge.queries.devices import OnDevice, on_devices
from knowledge.queries.view import View

BUSY_PERCENT = 5.0
"""Utilization from which a GPU counts as working."""

NO_GPU = "No GPU here."
"""What leads the page where there is none."""


class GpusFilters(Filters):
    """How fine the history is."""

    step_s: int = Field(default=10, ge=1, le=60, description="Seconds that each value of `series` averages.")


class GpusView(View):
    """All devices, and in two sentences what they do.

    `series_end` is when the last step of every series ends. `replay` says what the readings are where they
    are not those of now; `missing` why there is no GPU.
    """

    now: datetime
    lead: str
    rest: str
    missing: str | None
    replay: str | None
    interval_s: float
    series_end: datetime
    step_s: int
    devices: tuple[DeviceView, ...]


def read(session: Session, request: Request[GpusFilters], ground: Ground) -> GpusView:
    """Read the devices from memory, and from the database what runs on them; one statement."""
    return gpus_view(ground.devices, on_devices(session), datetime.now(UTC), request.filters.step_s)


def gpus_view(devices: Devices, running: dict[str, OnDevice], now: datetime, step_s: int) -> GpusView:
    """The view at an instant."""
    views = device_views(devices, running, now, step_s)
    known = {each.id for each in views}
    views += tuple(remote_view(job) for key, job in running.items() if key not in known)
    gpus = [each for each in views if each.kind is DeviceKind.GPU]
    missing = None if gpus else devices.history.note(devices.host)
    lead, rest = _sentences(gpus, missing, bool(views))
    step = int(now.timestamp()) // step_s + 1
    return GpusView(
        now=now,
        lead=lead,
        rest=rest,
        missing=missing,
        replay=devices.title,
        interval_s=devices.interval_s,
        series_end=datetime.fromtimestamp(step * step_s, UTC),
        step_s=step_s,
        devices=views,
    )


def _sentences(gpus: list[DeviceView], missing: str | None, any_device: bool) -> tuple[str, str]:
    if not any_device:
        return "No reading yet.", "The first comes within seconds."
    if not gpus:
        return NO_GPU, "The processors and the memory of this machine are read all the same."
    stale = [each for each in gpus if each.stale]
    held = [each for each in gpus if each.throttle and not each.stale]
    busy = [each for each in gpus if _works(each)]
    idle = len(gpus) - len(busy) - len(stale)
    count = "One GPU" if len(gpus) == 1 else f"{len(gpus)} GPUs"
    parts = [f"{len(found)} {word}" for found, word in ((busy, "at work"), (stale, "stale")) if found]
    if idle:
        parts.append(f"{idle} idle")
    if len(gpus) == 1:
        parts = [parts[0].partition(" ")[2]]
    lead = f"{count}, {', '.join(parts)}."
    if len(stale) == len(gpus):
        return lead, "Sampling stopped: these readings are old."
    if all(each.throttle is None for each in gpus if not each.stale):
        return lead, "Whether anything holds their clocks down is not told."
    if not held:
        return lead, "Nothing holds their clocks down." if len(gpus) > 1 else "Nothing holds its clocks down."
    first = held[0]
    return lead, f"{first.place}: {', '.join(first.throttle or ())}."


def _works(device: DeviceView) -> bool:
    utilization = device.reading("utilization")
    return not device.stale and (
        device.on is not None or (utilization is not None and (utilization.value or 0) >= BUSY_PERCENT)
    )


def command(request: Request[GpusFilters]) -> str:
    """The same on the command line."""
    return "autoinfer devices"


def table(view: GpusView) -> Table:
    """A row a reading of a device."""
    columns = ("device", "host", "model", "at", "stale", "reading", "value", "unit", "of", "experiment")
    return Table(
        columns,
        (
            (
                device.id,
                device.host,
                device.model,
                None if device.at is None else device.at.isoformat(),
                device.stale,
                reading.name,
                reading.value,
                reading.unit,
                reading.of,
                None if device.on is None else device.on.experiment,
            )
            for device in view.devices
            for reading in device.readings
        ),
    )


PAGE = Page(
    name="gpus",
    title="GPUs",
    path="/gpus",
    filters=GpusFilters,
    shows=GpusView,
    read=read,
    command=command,
    table=table,
    kinds=(),
    ticks=True,
    lasts_s=READING_S,
)
