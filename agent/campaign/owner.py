"""Who drives a campaign: an owner token that tells host and process, so that a dead one is seen at once."""

from __future__ import annotations

import os
import socket
import uuid

import psutil
from sqlalchemy.orm import Session

from db import campaign_lease
from db.models import Campaign

_MARK = "#"


def new_owner() -> str:
    """A token for this process: host, process id, and a random part, because process ids come again."""
    return _MARK.join((socket.gethostname(), str(os.getpid()), uuid.uuid4().hex[:8]))


def is_dead(owner: str) -> bool:
    """Whether the owner was a process of this host that is gone; an owner elsewhere is believed alive."""
    host, _, rest = owner.partition(_MARK)
    pid = rest.partition(_MARK)[0]
    return host == socket.gethostname() and pid.isdigit() and not psutil.pid_exists(int(pid))


def free_from_the_dead(session: Session, campaign: Campaign) -> None:
    """Release the campaign's lease if its owner is dead, so that nobody waits for it to run out."""
    if campaign.owner is not None and is_dead(campaign.owner):
        campaign_lease.release(session, campaign.id, campaign.owner)
        session.refresh(campaign)
