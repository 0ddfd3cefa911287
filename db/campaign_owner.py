"""Who drives a campaign: an owner token that tells host and process, so that a dead one is seen at once.

A process id means something only where it was given: on one running kernel, in one namespace of process ids.
Two containers may well have one host name and one database, so a token names its kernel and namespace too,
and an owner elsewhere is believed alive until its lease runs out.
"""

from __future__ import annotations

import hashlib
import os
import socket
import uuid
from datetime import datetime
from functools import cache

import psutil
from sqlalchemy import select
from sqlalchemy.orm import Session

from db import campaign_lease
from db.clock import now
from db.kernel import kernel_here
from db.models import Campaign

_MARK = "#"


def new_owner() -> str:
    """A token for this process: where its id means something, its id, and a random part, because process ids
    come again."""
    return _MARK.join((*_here(), str(os.getpid()), uuid.uuid4().hex[:8]))


def is_dead(owner: str) -> bool:
    """Whether the owner was a process of this host that is gone; an owner elsewhere is believed alive."""
    *where, pid, _ = owner.split(_MARK) if owner.count(_MARK) > 1 else ("", "", "")
    return tuple(where) == _here() and pid.isdigit() and not psutil.pid_exists(int(pid))


def is_driven(session: Session, campaign: Campaign) -> bool:
    """Whether a loop has the campaign's lease and, as far as can be told from here, lives."""
    return is_driven_at(campaign, session.scalars(select(now())).one())


def is_driven_at(campaign: Campaign, present: datetime) -> bool:
    """As `is_driven`, where it is known what time it is by the database's clock: asks it for nothing."""
    if campaign.owner is None or campaign.owner_lease_expires_at is None or is_dead(campaign.owner):
        return False
    return campaign.owner_lease_expires_at > present


def free_from_the_dead(session: Session, campaign: Campaign) -> None:
    """Release the campaign's lease if its owner is dead, so that nobody waits for it to run out."""
    if campaign.owner is not None and is_dead(campaign.owner):
        campaign_lease.release(session, campaign.id, campaign.owner)
        session.refresh(campaign)


def place_mark() -> str:
    """Six hexadecimal digits for the host, its running kernel and the namespace of process ids: a name that
    has the same is of a process that can be looked for here."""
    return hashlib.sha256(_MARK.join(_here()).encode()).hexdigest()[:6]


@cache
def _here() -> tuple[str, ...]:
    """Host name, running kernel and namespace of process ids; the last two are empty where nothing tells."""
    return socket.gethostname(), *kernel_here()
