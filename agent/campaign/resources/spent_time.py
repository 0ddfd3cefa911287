"""What a campaign has spent of its budget of time, counted by the loop that drives it."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy.orm import Session

from db.models import Campaign
from db.states import CampaignState


class SpentTime:
    """Counts time by a monotonic `clock`, seconds; paused time is free, and so is that of waiting for the
    user (`waits`), and for a device while others use all that the campaign has (`rests`)."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._counted_at = 0.0
        self.waits = False
        self.rests = False

    def begin(self) -> None:
        """Count from now on."""
        self._counted_at = self._clock()

    def go_on(self) -> None:
        """Wait for the user no more; the time until now was nobody's."""
        if self.waits:
            self.waits = False
            self.begin()

    def rest(self, rests: bool, session: Session, campaign_id: int) -> None:
        """Wait for a device from now on, or no more."""
        self.count(session, campaign_id)
        self.rests = rests

    def count(self, session: Session, campaign_id: int) -> None:
        """Add the time since the last count to what the campaign has spent."""
        moment = self._clock()
        campaign = session.get_one(Campaign, campaign_id)
        if campaign.state != CampaignState.PAUSED and not self._is_free:
            spent = float(campaign.budget.get("spent_s", 0.0)) + moment - self._counted_at
            campaign.budget = {**campaign.budget, "spent_s": spent}
        self._counted_at = moment

    def left_s(self, wall_s: float, spent_s: float) -> float:
        """What is left of a budget of `wall_s`, of which `spent_s` were counted."""
        return wall_s - spent_s - (0.0 if self._is_free else self._clock() - self._counted_at)

    @property
    def _is_free(self) -> bool:
        return self.waits or self.rests
