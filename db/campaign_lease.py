"""The lease of a campaign: one loop drives it at a time, and one that was thought dead writes nothing more.

A loop takes the lease under an owner token of its own (unique to the process), renews it while it works, and
calls `hold` in each of its write transactions. When a loop dies, the next one takes the campaign over once
the lease has run out.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, CursorResult, or_, select, update
from sqlalchemy.orm import Session

from configs.errors import LeaseLost
from db.clock import after, now
from db.labels import Noun, format_label
from db.models.campaign import Campaign


def take(session: Session, campaign_id: int, owner: str, lease_s: float) -> bool:
    """Take or extend the lease for `owner`, for `lease_s` seconds; false while another loop holds it."""
    free = or_(Campaign.owner.is_(None), Campaign.owner == owner, Campaign.owner_lease_expires_at <= now())
    return _set(session, Campaign.id == campaign_id, free, owner=owner, owner_lease_expires_at=after(lease_s))


def renew(session: Session, campaign_id: int, owner: str, lease_s: float) -> bool:
    """Extend the lease to `lease_s` seconds from now; false when `owner` no longer has it."""
    return _set(
        session,
        Campaign.id == campaign_id,
        Campaign.owner == owner,
        owner_lease_expires_at=after(lease_s),
    )


def hold(session: Session, campaign_id: int, owner: str) -> None:
    """Make sure that a write transaction of the loop is still its own.

    Raises `LeaseLost`, which must roll the transaction back, when another loop took the campaign over.
    """
    held = select(Campaign.owner).where(Campaign.id == campaign_id).with_for_update()
    if session.execute(held).scalar_one_or_none() != owner:
        label = format_label(Noun.CAMPAIGN, campaign_id)
        raise LeaseLost(
            f"Another process drives campaign {label} now.", "Follow it with: autoinfer log --follow"
        )


def release(session: Session, campaign_id: int, owner: str) -> None:
    """Give the campaign back, so that the next loop need not wait, if `owner` still has it."""
    _set(
        session,
        Campaign.id == campaign_id,
        Campaign.owner == owner,
        owner=None,
        owner_lease_expires_at=None,
    )


def _set(session: Session, *where: ColumnElement[bool], **values: object) -> bool:
    change = update(Campaign).where(*where).values(**values)
    result = session.execute(change.execution_options(synchronize_session=False))
    assert isinstance(result, CursorResult)
    return result.rowcount == 1
