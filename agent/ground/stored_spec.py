"""What a stored campaign's spec holds: what was asked for, and what was found on its ground."""

from __future__ import annotations

from typing import Any

from configs.campaign import CHECKPOINT, DUMMY
from db.models import Campaign
from knowledge.acts.approvals import approve_above_s

FOUND = "found"
"""What of a stored campaign's spec was not asked for but found on the ground."""

AT_ONCE = "at_once"
"""What of the ground tells how many launches may be up at once, where that is limited."""

START = "start"
"""What of the ground tells from which configuration the campaign begins, where that is not the default."""

THEN = "then"
"""What of a beginning tells from what the campaign begins next, where that does not run."""

HUB, GPU = "hub", "gpu"
"""What of the ground tells where a model of the hub came from, and what a GPU is."""

REFERENCE = "reference"
"""The name of the packaged model, which every installation has at a place of its own."""


def keep_found(campaign: Campaign, name: str, value: object) -> None:
    """Keep with a stored campaign what is found on its ground by now, in place of what was kept by that name;
    nothing (None, or empty) where there is nothing to keep."""
    others = {each: kept for each, kept in campaign.spec.get(FOUND, {}).items() if each != name}
    campaign.spec = {**campaign.spec, FOUND: {**others, **({name: value} if value else {})}}


def asked_of(campaign: Campaign) -> dict[str, Any]:
    """What a stored campaign was started with, as data of a `CampaignSpec`.

    A model is named by the absolute folder that was found, whatever was typed: jobs run elsewhere than in
    the folder from which the campaign was started.
    """
    asked = {name: value for name, value in campaign.spec.items() if name != FOUND}
    found = campaign.spec.get(FOUND, {})
    packaged = is_packaged(str(asked.get("model")), str(asked.get("weights", CHECKPOINT)))
    if not packaged and "checkpoint" in found:
        asked["model"] = found["checkpoint"]
    return asked


def is_packaged(model: str, weights: str) -> bool:
    """Whether a campaign's model is the packaged one with its weights, which lies elsewhere in each
    installation."""
    return model == REFERENCE and weights != DUMMY


def terms_now(campaign: Campaign) -> dict[str, Any]:
    """The terms that may change while a campaign goes on, as they are by now."""
    above_s = approve_above_s(campaign.budget)
    return {
        "budget": {"wall_s": campaign.budget["wall_s"]},
        "approve_above": None if above_s is None else {"wall_s": above_s},
    }
