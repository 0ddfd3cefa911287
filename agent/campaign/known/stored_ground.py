"""The ground of a stored campaign, by its own row and what its server told of a step: enough to tell what is
legal there, and a hundredth of what the loop decides by."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.orm import Session

from agent.campaign.known.ran import auto_step_tokens
from agent.campaign.known.settling import settled
from agent.campaign.known.within_memory import legal_of
from agent.ground.legal import Legal
from agent.ground.stored_checkpoint import checkpoint_here
from agent.ground.stored_spec import FOUND, GPU, START, asked_of, terms_now
from configs.campaign import CampaignSpec
from db.models import Campaign
from experiments.space.configuration import Configuration


@dataclass(frozen=True)
class StoredGround:
    """What a campaign was started with, on its terms of now, and what was found where it runs; as in
    `Facts`."""

    spec: CampaignSpec
    checkpoint: Path
    cores: int
    compute_capability: str | None
    gpu_memory_bytes: int | None
    gpu_name: str | None
    auto_step_tokens: int | None
    start: Configuration | None


def stored_ground(session: Session, campaign: Campaign) -> StoredGround:
    """Return the ground of a campaign."""
    found = campaign.spec[FOUND]
    spec = CampaignSpec.model_validate({**asked_of(campaign), **terms_now(campaign)})
    gpu, start = found.get(GPU) or {}, found.get(START) or {}
    return StoredGround(
        spec=spec,
        checkpoint=checkpoint_here(campaign),
        cores=found["cores"],
        compute_capability=gpu.get("compute_capability"),
        gpu_memory_bytes=gpu.get("memory_bytes"),
        gpu_name=gpu.get("name"),
        auto_step_tokens=auto_step_tokens(session, campaign.id),
        start=settled(Configuration.of(start["configuration"]), spec.space) if start else None,
    )


def read_legal(session: Session, campaign_id: int) -> Legal:
    """Return what a campaign that there is may ask for; raises as `legal_here`."""
    return legal_of(stored_ground(session, session.get_one(Campaign, campaign_id)))
