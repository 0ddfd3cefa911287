"""The ground that previews are made on, and what would follow on it, kept until an event could change it."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock

from sqlalchemy.orm import Session

from agent.asking.assumed import Assumed
from agent.asking.preview import Ground, read_ground
from agent.asking.what_if import Consequence, what_if
from agent.campaign.queue.order import newest_cause
from agent.ground.legal import Legal

MOST_KEPT = 4
MOST_CONSEQUENCES = 64
"""Questions of a ground, each a hypothesis and verdicts, whose answers are kept."""


@dataclass
class _Known:
    ground: Ground
    consequences: dict[tuple[int, tuple[Assumed, ...]], tuple[Consequence, ...]] = field(default_factory=dict)


_kept: OrderedDict[tuple[str, int, int], _Known] = OrderedDict()
_lock = Lock()  # held while one is made: it takes seconds of a long campaign, and all who wait want the same


def ground_of(session: Session, campaign_id: int) -> Ground:
    """The ground of a campaign that exists, read anew after each event that may change the order."""
    with _lock:
        return _known(session, campaign_id).ground


def legal_of(session: Session, campaign_id: int) -> Legal:
    """What a campaign that exists may ask for, on its ground as `ground_of` has it."""
    return ground_of(session, campaign_id).legal


def consequences(
    session: Session, campaign_id: int, hypothesis_id: int, verdicts: tuple[Assumed, ...]
) -> tuple[Consequence, ...]:
    """What each of these verdicts on a queued hypothesis would do, as `what_if` on its ground; none
    before anything is ranked. Raises `UsageError` as `what_if`."""
    with _lock:
        known = _known(session, campaign_id)
        if known.ground.desk is None:
            return ()
        asked = hypothesis_id, verdicts
        if asked not in known.consequences:
            if len(known.consequences) >= MOST_CONSEQUENCES:
                known.consequences.clear()
            known.consequences[asked] = what_if(known.ground.desk, hypothesis_id, verdicts)
        return known.consequences[asked]


def _known(session: Session, campaign_id: int) -> _Known:
    key = (str(session.get_bind().engine.url), campaign_id, newest_cause(session, campaign_id))
    if key not in _kept:
        _kept[key] = _Known(read_ground(session, campaign_id))
        while len(_kept) > MOST_KEPT:
            _kept.popitem(last=False)
    _kept.move_to_end(key)
    return _kept[key]
