"""Who drives a campaign; moved to `db.campaign_owner`."""

from __future__ import annotations

from db.campaign_owner import free_from_the_dead, is_dead, new_owner

__all__ = ["free_from_the_dead", "is_dead", "new_owner"]
