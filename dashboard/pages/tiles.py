"""Devices in small: what other pages show of them, by a stream of its own beside that of their events."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy.orm import Session

from dashboard.device_views import STEP_S, DeviceView, device_views
from dashboard.page import READING_S, Filters, Ground, Page, Request
from experiments.telemetry.reading import DeviceKind
from knowledge.queries.devices import on_devices
from knowledge.queries.view import View

MOST_TILES = 4
"""Tiles beside something else; the page of devices has all."""


class TilesView(View):
    """The devices that matter most beside other things; `more` are not among them."""

    replay: str | None
    devices: tuple[DeviceView, ...]
    more: int


def read(session: Session, request: Request[Filters], ground: Ground) -> TilesView:
    """Read the GPUs, those with a job first, and processors that have a job or stand for want of a GPU."""
    found = device_views(ground.devices, on_devices(session), datetime.now(UTC), STEP_S)
    gpus = [each for each in found if each.kind is DeviceKind.GPU]
    hosts = [each for each in found if each.kind is DeviceKind.CPU and (each.on or not gpus)]
    chosen = sorted([*gpus, *hosts], key=lambda each: each.on is None)
    return TilesView(
        replay=ground.devices.title,
        devices=tuple(chosen[:MOST_TILES]),
        more=max(0, len(chosen) - MOST_TILES),
    )


def command(request: Request[Filters]) -> str:
    """The same on the command line."""
    return "autoinfer devices"


PAGE = Page(
    name="tiles",
    title="Devices",
    path="/gpus/tiles",
    filters=Filters,
    shows=TilesView,
    read=read,
    command=command,
    kinds=(),
    ticks=True,
    lasts_s=READING_S,
)
