"""A history whose campaign runs on a model that this machine does not have."""

from __future__ import annotations

from db.models import Campaign
from db.session import Database

FOLDER = "/srv/models/mine"


def move_model_away(database: Database) -> None:
    """Let the first campaign have found its model in a folder that there is not."""
    with database.write() as session:
        campaign = session.get_one(Campaign, 1)
        found = {**campaign.spec["found"], "checkpoint": FOLDER}
        campaign.spec = {**campaign.spec, "model": FOLDER, "found": found}
