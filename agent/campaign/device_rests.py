"""A device of the campaign that others use rests: it gets no test, and is looked at until they are gone.

- It rests as soon as an experiment found others there, which has waited for them before; its hypothesis waits
  again, and other devices go on.
- After the first such experiment it is looked at in `FIRST_LOOK_S`; after each further one in a row in twice
  as long, at most `MOST_REST_S`. From then on it is looked at every `LOOK_EVERY_S`.
- A look asks the driver who else is there and starts nothing. As soon as nobody is, it takes tests again.
  Where the driver can't tell, or the device is another machine's, the next test finds out.
- That it rests, and that it is back, are events: what a loop has at rest, the next one has too, and looks at
  it at once.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.campaign.glance import Seen
from agent.campaign.resources.device_faults import FoundOthers, found_others
from agent.campaign.resources.devices import Devices
from configs.quantities import format_duration
from configs.targets import is_rented
from db import events
from db.clock import now
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Job
from db.session import Database
from experiments.job.device_guard import others_of
from experiments.job.unnamed_memory import allowed_bytes
from experiments.telemetry.free_memory import MemoryUnknown
from experiments.telemetry.occupants import DeviceGone, device_use
from knowledge.queries.devices import AtRest, devices_at_rest

FIRST_LOOK_S = 30.0
"""Seconds after which a device on which an experiment found others is looked at for the first time."""

MOST_REST_S = 600.0
"""Seconds after which it is looked at at the latest, however often they were found there: who comes and goes
is met by an experiment every ten minutes and not by all of a night's."""

LOOK_EVERY_S = 30.0
"""Seconds between two looks at a device that others still use."""


@dataclass(frozen=True)
class Look:
    """What a look at a device found: `others` in words, None where nobody is told to be there; then
    `not_known` says why that is not known, None where it is."""

    others: str | None = None
    not_known: str | None = None


def who_is_on(device: str, key: str | None) -> Look:
    """Who computes on a device of this machine, as its driver says. `key` is what its worker called it, with
    its host; of another machine nothing is known here."""
    host, _, _ = (key or "").rpartition("/")
    if host not in ("", socket.gethostname()):
        return Look(not_known=f"it is on {host}")
    try:
        return Look(others=others_of(device_use(device), frozenset(), 0, allowed_bytes()))
    except DeviceGone as gone:  # the next test finds it lost, and tells what to do
        return Look(not_known=f"the driver says: {gone}")
    except MemoryUnknown as reason:
        return Look(not_known=str(reason).rstrip("."))


def rest_s(in_a_row: int) -> float:
    """Seconds until a device is looked at on which so many experiments in a row found others."""
    return min(FIRST_LOOK_S * 2.0 ** min(in_a_row - 1, 16), MOST_REST_S)


def put_to_rest(session: Session, experiment_id: int, campaign_id: int, devices: Devices) -> None:
    """Let the device of an experiment rest if it found others there, and say so. A rented one does not: there
    each look is paid for."""
    found = found_others(session, experiment_id)
    if found is None or is_rented(found.device):
        return
    if found.device in devices.at_rest:
        return  # one that was sent before it rested
    rest = [each for each in devices.usable if each != found.device and each not in devices.at_rest]
    label = format_label(Noun.CAMPAIGN, campaign_id)
    events.append(
        session,
        EventKind.CAMPAIGN_DEVICE_RESTS,
        f"{found.told}. {_rule(found)}; {_meanwhile(rest)}",
        label,
        campaign_id,
        {"device": found.device, "in_a_row": found.in_a_row, "found": found.told},
    )


def _rule(found: FoundOthers) -> str:
    looked = format_duration(rest_s(found.in_a_row))
    often = f" ({found.in_a_row} experiments in a row found others there)" if found.in_a_row > 1 else ""
    return (
        f"{found.device} rests: it is looked at in {looked}{often}, then every "
        f"{format_duration(LOOK_EVERY_S)}, and takes tests again as soon as nobody else is there"
    )


def _meanwhile(rest: Sequence[str]) -> str:
    if rest:
        return f"the campaign goes on with {' and '.join(rest)}"
    return "until then the campaign waits, which costs none of its time while nothing of it runs elsewhere"


class DeviceRests:
    """Looks at the devices that one campaign has at rest, between two looks of its loop.

    `writing` opens a transaction that holds the campaign's lease; `who` is asked who is on a device, and
    `clock` gives monotonic seconds.
    """

    def __init__(
        self,
        database: Database,
        campaign_id: int,
        writing: Callable[[], AbstractContextManager[Session]],
        who: Callable[[str, str | None], Look] = who_is_on,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._campaign_id = campaign_id
        self._writing = writing
        self._who = who
        self._clock = clock
        self._next_look: dict[str, float] = {}
        self._has_looked = False

    def look(self, devices: Devices) -> None:
        """Look at those for which it is time, and let those on which nobody is take tests again."""
        for device in set(self._next_look) - devices.at_rest:
            del self._next_look[device]
        unseen = devices.at_rest - set(self._next_look)
        resting = self._at_rest() if unseen else ()
        for each in resting:
            if each.device in unseen:  # what an earlier loop had at rest is looked at at once
                in_s = rest_s(each.in_a_row) if self._has_looked else 0.0
                self._next_look[each.device] = self._clock() + in_s
        self._has_looked = True
        for device, due in list(self._next_look.items()):
            if device in devices.usable and self._clock() >= due:
                self._look_at(device, measured_by_others=device in devices.others)

    def _look_at(self, device: str, *, measured_by_others: bool) -> None:
        if measured_by_others:
            found = Look(not_known="another campaign measures there, and its turn comes after")
        else:
            with self._database.read() as session:
                query = select(Job.device).where(
                    Job.campaign_id == self._campaign_id,
                    Job.device_class == device,
                    Job.device.is_not(None),
                )
                key = session.scalar(query.order_by(Job.id.desc()).limit(1))
            found = self._who(device, key)
        if found.others is not None:
            self._next_look[device] = self._clock() + LOOK_EVERY_S
            return
        with self._writing() as session:
            present = session.scalars(select(now())).one()
            (since,) = (
                each.since for each in devices_at_rest(session, self._campaign_id) if each.device == device
            )
            rested = format_duration((present - since).total_seconds())
            why = (
                "nobody else is on it any more"
                if found.not_known is None
                else f"whether others are on it can't be told ({found.not_known}), the next test finds out"
            )
            events.append(
                session,
                EventKind.CAMPAIGN_DEVICE_BACK,
                f"{device} takes tests again after {rested}: {why}",
                format_label(Noun.CAMPAIGN, self._campaign_id),
                self._campaign_id,
                {"device": device, "why": why},
            )
        del self._next_look[device]

    def _at_rest(self) -> tuple[AtRest, ...]:
        with self._database.read() as session:
            return devices_at_rest(session, self._campaign_id)


def waits_for_a_device(seen: Seen) -> bool:
    """Whether a campaign can do nothing until others leave one of its devices."""
    return seen.idle and seen.devices.all_rest
