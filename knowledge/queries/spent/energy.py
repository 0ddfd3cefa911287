"""The energy that cards took while jobs of a campaign, or of all, ran on them, from what is kept of their
power: means of five minutes (`knowledge.energy`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from configs.targets import CPU
from db.models import DeviceMean, Job
from experiments.telemetry.means import WINDOW_S
from experiments.telemetry.reading import device_key
from knowledge.energy import DeviceEnergy, PowerMean, Span, device_energy
from knowledge.queries.spent.untimed import signs_of
from knowledge.queries.view import View

J_PER_WH = 3600.0

_JOBS = select(Job.experiment_id, Job.device, Job.started_at, Job.finished_at)

ENERGY_BASIS = (
    "Energy: the whole card's, with what else ran on it meanwhile and without the rest of the machine, while "
    "jobs were on it, each at its last attempt: the mean power of every five minutes, for as long as it was "
    "read; what was not read is not made up."
)
"""How energy is counted."""


class PowerWindowView(View):
    """Five minutes of a card from `began` on: its mean power of `samples` readings, and for how many seconds
    that counts."""

    began: datetime
    power_w: float
    samples: int
    seconds: float


class DeviceEnergyView(View):
    """A card that took `energy_wh` within the `covered_s` of its jobs' `job_s` in which its power was read;
    `windows` are what that is made of, oldest first, where they were asked for."""

    device: str
    model: str | None
    energy_wh: float
    covered_s: float
    job_s: float
    windows: tuple[PowerWindowView, ...]

    @property
    def power_w(self) -> float | None:
        """The mean power; None where none was read."""
        return self.energy_wh * J_PER_WH / self.covered_s if self.covered_s else None


class EnergyView(View):
    """What cards took together, `energy_wh` within the `covered_s` of `job_s` in which their power was read,
    summed over cards; None where none of it was. Of a job the time of its last attempt counts, up to when it
    was heard of last where it has not ended. `basis` says how it is counted."""

    energy_wh: float | None
    covered_s: float
    job_s: float
    devices: tuple[DeviceEnergyView, ...]
    basis: str = ENERGY_BASIS


def energy(session: Session, campaign_id: int | None, *, windows: bool = False) -> EnergyView | None:
    """The energy of a campaign, or of all, with the `windows` that it is made of where they are asked for;
    None where nothing ran on a card. Three statements, and two each for the cards and for their hosts'
    processors where a job there has not ended."""
    spans = _spans(session, campaign_id)
    if not spans:
        return None
    means, models = _means(session, spans)
    measured = _measured(session, spans)
    devices = [
        _view(
            device,
            models.get(device),
            device_energy(means.get(device, ()), spans[device], measured[_host_of(device)]),
            windows,
        )
        for device in sorted(spans)
    ]
    devices = [each for each in devices if each.job_s]
    covered_s = sum(each.covered_s for each in devices)
    return EnergyView(
        energy_wh=sum(each.energy_wh for each in devices) if covered_s else None,
        covered_s=covered_s,
        job_s=sum(each.job_s for each in devices),
        devices=tuple(devices),
    )


def _spans(session: Session, campaign_id: int | None) -> dict[str, list[Span]]:
    """From when to when jobs ran, by the card, such as `desk/cuda:0`."""
    query = _JOBS.where(
        Job.device.not_like(f"%/{CPU}"),
        Job.started_at.is_not(None),
        Job.campaign_id.is_not(None) if campaign_id is None else Job.campaign_id == campaign_id,
    )
    found: dict[str, list[Span]] = defaultdict(list)
    for device, began, ended in _ended(session, query):
        found[device].append((began, ended))
    return found


def _measured(session: Session, spans: Mapping[str, Sequence[Span]]) -> Mapping[str, list[Span]]:
    """When jobs, of whatever campaign, ran on the processors of these cards' hosts, by host: cards were read
    less often then."""
    last = max(end for each in spans.values() for _, end in each)
    query = _JOBS.where(
        Job.device.in_({device_key(_host_of(device), CPU) for device in spans}), Job.started_at < last
    )
    found: dict[str, list[Span]] = defaultdict(list)
    for device, began, ended in _ended(session, query):
        found[_host_of(device)].append((began, ended))
    return found


def _ended(
    session: Session, query: Select[int | None, str | None, datetime | None, datetime | None]
) -> Iterator[tuple[str, datetime, datetime]]:
    """The device of each job, when it began and when it ended: of one that has not, when it was heard of
    last; where nothing tells that, it ended as it began."""
    rows = session.execute(query).all()
    left = [row.experiment_id for row in rows if row.finished_at is None and row.experiment_id is not None]
    signs = signs_of(session, left) if left else {}
    for number, device, began, ended in rows:
        if device is not None and began is not None:
            heard = [] if number is None else [at for at, _ in signs.get(number, ())]
            yield device, began, ended or max(heard, default=began)


def _host_of(device: str) -> str:
    return device.partition("/")[0]


def _means(
    session: Session, spans: Mapping[str, Sequence[Span]]
) -> tuple[dict[str, list[PowerMean]], dict[str, str]]:
    """The means of these cards over the time of all the jobs, and what the cards are."""
    times = [span for each in spans.values() for span in each]
    query = select(
        DeviceMean.host, DeviceMean.device, DeviceMean.model,
        DeviceMean.started_at, DeviceMean.samples, DeviceMean.power_w, DeviceMean.read_s,
    ).where(
        DeviceMean.host.in_({_host_of(device) for device in spans}),
        DeviceMean.started_at > min(begin for begin, _ in times) - timedelta(seconds=WINDOW_S),
        DeviceMean.started_at < max(end for _, end in times),
        DeviceMean.power_w.is_not(None),
    )  # fmt: skip
    means: dict[str, list[PowerMean]] = defaultdict(list)
    models: dict[str, str] = {}
    for host, device, model, began, samples, power_w, read_s in session.execute(query):
        key = device_key(host, device)
        if key in spans and power_w is not None:
            means[key].append(PowerMean(began, samples, power_w, read_s))
            models[key] = model
    return means, models


def _view(device: str, model: str | None, found: DeviceEnergy, windows: bool) -> DeviceEnergyView:
    return DeviceEnergyView(
        device=device,
        model=model,
        energy_wh=found.energy_j / J_PER_WH,
        covered_s=found.covered_s,
        job_s=found.span_s,
        windows=tuple(
            PowerWindowView(
                began=each.mean.began,
                power_w=each.mean.power_w,
                samples=each.mean.samples,
                seconds=each.seconds,
            )
            for each in (found.parts if windows else ())
        ),
    )
