"""Whether this machine's disks have room for a campaign that is to begin, and what to say of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.plan.ground import Ground
    from configs.campaign import CampaignSpec
    from configs.settings import Settings
    from db.session import Database


@dataclass(frozen=True)
class RoomTold:
    """What to say of disks with room for all that is known of a campaign, and of those that may become
    full."""

    room: tuple[str, ...] = ()
    doubt: tuple[str, ...] = ()


def room_for(database: Database, settings: Settings, spec: CampaignSpec, ground: Ground) -> RoomTold:
    """Hold what a campaign that is to begin will write here against what is free; raises `DiskFull` where
    not even its baseline has room. What runs on rented machines is written there."""
    from pathlib import Path

    from agent.campaign.beginning.disk_needs import disk_needs, loaded_by, records_need
    from agent.ground.checkpoint import Checkpoint
    from agent.ground.target import find_target
    from agent.plan.card import card_of
    from agent.plan.disk import check_room, disks_of, room_doubt, room_told
    from agent.plan.legal_planned import planned_legal
    from agent.plan.model import model_at
    from experiments.artifacts.store import ArtifactStore

    if spec.rented:
        return RoomTold()
    model = model_at(spec.model, Checkpoint(ground.checkpoint))
    legal = planned_legal(spec, model, card_of(find_target(spec.target)), ground.cores)
    loaded = loaded_by(spec, legal, ground.begins_from(legal.space))
    with ArtifactStore(settings.artifacts_dir) as store:
        needs = disk_needs(spec, ground, model, loaded, settings.artifacts_dir, store.list())
    if database.is_file:
        with database.read() as session:
            needs = (*needs, records_need(session, Path(database.shown)))
    disks = disks_of(needs)
    check_room(disks)
    doubts = [room_doubt(each) for each in disks]
    return RoomTold(
        tuple(room_told(disk) for disk, doubt in zip(disks, doubts, strict=True) if doubt is None),
        tuple(each for each in doubts if each is not None),
    )
