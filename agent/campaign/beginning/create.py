"""Writing a campaign down, or finding the one that never came to its end."""

from __future__ import annotations

from pydantic import ValidationError
from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from agent.campaign.resources.allowance import asked_above, set_dollars
from agent.ground.stored_spec import FOUND, asked_of
from agent.plan.at_once import IN_TURN
from agent.plan.ground import Ground, found_on, spec_on, target_on
from configs.asked_over import HTTP
from configs.campaign import ApprovalSpec, BudgetSpec, CampaignSpec
from configs.quantities import format_duration, format_usd
from db import events
from db.campaign_owner import free_from_the_dead
from db.clock import now
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Campaign
from db.noise import SERIES_NAME
from db.states import CampaignState
from knowledge.figures import margin
from knowledge.latency_only import LATENCY_ONLY, UNKNOWN_QUALITY, model_words

SHORT_COMMIT = 12
"""Digits of a commit in a sentence."""


def interrupted(
    session: Session, spec: CampaignSpec, ground: Ground, *, of_any_budget: bool = False
) -> int | None:
    """The newest campaign of the same spec on the same ground that never came to its end and that nobody
    drives, if there is one. `of_any_budget`: its budget of time may be another."""
    same_ground = (
        Campaign.name != SERIES_NAME,
        Campaign.state != CampaignState.STOPPED,
        Campaign.model_fingerprint == ground.fingerprint,
        Campaign.target == ground.target_key,
    )
    for row in session.scalars(select(Campaign).where(*same_ground).order_by(Campaign.id.desc())):
        free_from_the_dead(session, row)
    free = or_(Campaign.owner.is_(None), Campaign.owner_lease_expires_at <= now())
    rows = session.scalars(select(Campaign).where(*same_ground, free).order_by(Campaign.id.desc()))
    wanted = spec_on(spec, ground)
    for row in rows:
        stored = stored_spec(row)
        if stored is not None and of_any_budget:
            stored = stored.model_copy(update={"budget": wanted.budget})
        if stored == wanted:
            return row.id
    return None


def budget_of_interrupted(session: Session, spec: CampaignSpec, ground: Ground) -> BudgetSpec | None:
    """The budget of time that an interrupted campaign of this spec was begun with; None where there is
    none."""
    found = interrupted(session, spec, ground, of_any_budget=True)
    stored = None if found is None else stored_spec(session.get_one(Campaign, found))
    return None if stored is None else stored.budget


def stored_spec(campaign: Campaign) -> CampaignSpec | None:
    """What a stored campaign was started with; None for one that this version does not understand."""
    try:
        return CampaignSpec.model_validate(asked_of(campaign))
    except ValidationError:
        return None


def create_campaign(session: Session, spec: CampaignSpec, ground: Ground) -> int:
    """Write the campaign and its first event; returns its id."""
    plan = spec.plan
    campaign = Campaign(
        name=spec.name,
        model=model_words(spec.model, made_up=spec.latency_only),
        model_fingerprint=ground.fingerprint,
        target=ground.target_key,
        objective={"metric": plan.metric, "concurrency": plan.workload.concurrency},
        limits={
            "min_effect": plan.min_effect,
            **({"quality": UNKNOWN_QUALITY} if spec.latency_only else _margins(spec)),
            "alpha": plan.alpha,
        },
        budget={"wall_s": spec.budget.wall_s, "spent_s": 0.0, **asked_above(spec.approve_above)},
        seed=spec.seed,
        spec={
            **spec.model_dump(mode="json"),
            "drafter": ground.drafter,
            "target": target_on(spec, ground),
            FOUND: found_on(ground),
        },
    )
    session.add(campaign)
    session.flush()
    campaign.started_at = now()
    set_dollars(session, campaign.id, spec.budget_usd, spec.approve_above_usd)
    events.append(
        session,
        EventKind.CAMPAIGN_STARTED,
        f"{spec.plan.metric.removesuffix('_ms').upper()} of {_model_words(spec, ground)} at concurrency "
        f"{plan.workload.concurrency}{_over_http(spec)} on {_on(ground)}: worth having from "
        f"{margin(plan.min_effect)} on, {quality_asked(spec)}, budget {format_duration(spec.budget.wall_s)}"
        f"{_dollars(spec)}, "
        f"{_asks(spec.approve_above)}seed {spec.seed}"
        + ("; launches run in turn" if ground.at_once == IN_TURN else "")
        + "".join(f"{mark} {each}" for mark, each in zip((".", ""), _to_know(ground), strict=False)),
        subject=format_label(Noun.CAMPAIGN, campaign.id),
        campaign_id=campaign.id,
    )
    return campaign.id


def _to_know(ground: Ground) -> list[str]:
    """What the user should know before it begins, in sentences."""
    return [each for each in (ground.start_told, ground.warning) if each]


def _margins(spec: CampaignSpec) -> dict[str, float]:
    margins = spec.plan.margins
    return {"bits_per_byte": margins.bits_per_byte, "task_points": margins.task_points}


def quality_asked(spec: CampaignSpec) -> str:
    """The campaign's limits of quality, as a clause; of made-up weights that there are none."""
    if spec.latency_only:
        return f"{LATENCY_ONLY}, {UNKNOWN_QUALITY}"
    margins = spec.plan.margins
    return (
        f"bits per byte at most +{margin(margins.bits_per_byte)}, tasks at most "
        f"−{margins.task_points:g} points"
    )


def _over_http(spec: CampaignSpec) -> str:
    return " over HTTP" if spec.plan.workload.asked_over == HTTP else ""


def _dollars(spec: CampaignSpec) -> str:
    return "" if spec.budget_usd is None else f" and {format_usd(spec.budget_usd)}"


def _asks(approve_above: ApprovalSpec | None) -> str:
    if approve_above is None:
        return ""
    return f"what is expected to take more than {format_duration(approve_above.wall_s)} waits for approval, "


def _on(ground: Ground) -> str:
    """What a campaign measures on, without the kind of it: its device, or how many of it."""
    name = ground.target_key.partition(":")[2] or ground.target_key
    return name if len(ground.devices) < 2 else f"{len(ground.devices)} × {name}"


def _model_words(spec: CampaignSpec, ground: Ground) -> str:
    """The model as it was asked for, and the commit that this was."""
    if ground.hub is None:
        return model_words(spec.model, made_up=spec.latency_only)
    return f"{spec.model} (commit {ground.hub['commit'][:SHORT_COMMIT]})"
