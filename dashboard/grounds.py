"""The ground that previews are made on, kept until an event could change it."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from sqlalchemy.orm import Session

from agent.campaign.order import newest_cause
from agent.campaign.preview import Ground, read_ground

MOST_KEPT = 4

_kept: OrderedDict[tuple[str, int, int], Ground] = OrderedDict()
_lock = Lock()


def ground_of(session: Session, campaign_id: int) -> Ground:
    """The ground of a campaign that exists, read anew after each event that may change the order."""
    key = (str(session.get_bind().engine.url), campaign_id, newest_cause(session, campaign_id))
    with _lock:
        if key in _kept:
            _kept.move_to_end(key)
            return _kept[key]
    found = read_ground(session, campaign_id)
    with _lock:
        _kept[key] = found
        while len(_kept) > MOST_KEPT:
            _kept.popitem(last=False)
    return found
