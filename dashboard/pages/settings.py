"""Settings: every value with its unit and where it came from; the version, the database, known devices."""

from __future__ import annotations

from importlib.metadata import version

from sqlalchemy import select
from sqlalchemy.orm import Session

from dashboard.page import ALWAYS_S, Filters, Ground, Page, Request, Table
from db.event_kinds import EventKind
from db.models import Worker
from db.schema import HEAD_REVISION
from db.states import WorkerState
from knowledge.queries.view import View

MOST_WORKERS = 50
"""Workers looked at, the newest; each device is told once."""


class SettingView(View):
    """A setting: `origin` says the kind of source, `place` the option, variable or file in it."""

    name: str
    value: str | bool | float | None
    unit: str | None
    about: str
    origin: str
    place: str


class DeviceView(View):
    """A device that a worker takes jobs for, with the state of the last such worker."""

    host: str
    device: str
    worker: str
    state: WorkerState


class SettingsFilters(Filters):
    """Nothing: all settings are shown."""


class SettingsView(View):
    """The settings of this server, its version, its database's dialect and revision, known devices."""

    settings: tuple[SettingView, ...]
    version: str
    database: str
    revision: str
    devices: tuple[DeviceView, ...]

    @property
    def given(self) -> int:
        """How many settings are not at their default."""
        return sum(each.origin != "default" for each in self.settings)


def read(session: Session, request: Request[SettingsFilters], ground: Ground) -> SettingsView:
    """Read the settings as they may be shown, passwords hidden."""
    settings = ground.settings
    values, origins = settings.shown(), settings.origins()
    return SettingsView(
        settings=tuple(
            SettingView(
                name=name,
                value=values[name],
                unit="s" if name.endswith("_s") else None,
                about=field.description or "",
                origin=origins[name].source.value,
                place=origins[name].place,
            )
            for name, field in type(settings).model_fields.items()
        ),
        version=version("autoinfer"),
        database=session.get_bind().dialect.name,
        revision=HEAD_REVISION,
        devices=_devices(session),
    )


def _devices(session: Session) -> tuple[DeviceView, ...]:
    found: dict[str, DeviceView] = {}
    for each in session.scalars(select(Worker).order_by(Worker.id.desc()).limit(MOST_WORKERS)):
        found.setdefault(
            f"{each.host}/{each.device}",
            DeviceView(host=each.host, device=each.device, worker=each.name, state=each.state),
        )
    return tuple(found[key] for key in sorted(found))


def command(request: Request[SettingsFilters]) -> str:
    """The same on the command line."""
    return "autoinfer config show"


def table(view: SettingsView) -> Table:
    """The settings as rows."""
    columns = ("name", "value", "unit", "about", "origin", "place")
    return Table(columns, (tuple(getattr(each, name) for name in columns) for each in view.settings))


PAGE = Page(
    name="settings",
    title="Settings",
    path="/settings",
    filters=SettingsFilters,
    shows=SettingsView,
    read=read,
    command=command,
    table=table,
    kinds=(EventKind.WORKER_STARTED, EventKind.WORKER_STOPPED, EventKind.WORKER_LOST),
    lasts_s=ALWAYS_S,
)
