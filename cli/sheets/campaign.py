"""The sheet of a campaign: what it is asked for, what became of it, what steers it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cli.console.output import console, fields, state, when
from cli.console.words import configuration_words
from cli.sheets.target import target_rows
from configs.quantities import format_duration, format_usd
from db.agreed_prices import AGREED_USD_PER_S
from knowledge.queries.claims.discovery import discovery_sentence, outside_sentence
from knowledge.telling.budget import budget_words
from knowledge.telling.energy_words import energy_told
from knowledge.telling.spent_words import experiments_told

if TYPE_CHECKING:
    from knowledge.queries.campaigns import CampaignView
    from knowledge.queries.found.verification import VerificationView

GB = 1e9
HOUR_S = 3600

MOST_NAMED = 5
"""Hypotheses that wait for approval and are named, the first in the queue."""


def print_campaign(campaign: CampaignView, verification: VerificationView) -> None:
    """Print everything about a campaign but its lists."""
    out = console()
    out.print(campaign.id, state(campaign.standing), campaign.name, sep="  ")
    spent = campaign.spent
    counts = ", ".join(f"{count} {name}" for name, count in campaign.standings.items())
    found = campaign.discovery
    said = []
    if found is not None:
        said = [each for each in (discovery_sentence(found), outside_sentence(found)) if each]
    out.print(
        fields(
            [
                ("model", campaign.model),
                ("revision", _revision(campaign)),
                ("fingerprint", campaign.model_fingerprint),
                *target_rows(campaign.target),
                ("device", _device(campaign)),
                ("devices", _devices(campaign)),
                ("begins from", _start(campaign)),
                ("objective", configuration_words(campaign.objective)),
                ("limits", configuration_words(campaign.limits)),
                ("budget", budget_words(campaign.budget)),
                ("agreed to", _agreed(campaign) or None),
                ("approval", _approval(campaign)),
                ("seed", str(campaign.seed)),
                ("started", when(campaign.started_at)),
                ("ended", None if campaign.ended_at is None else when(campaign.ended_at)),
                ("stopped because", campaign.stopped_because),
                ("hypotheses", counts),
                ("of the supported", said[0] if said else None),
                *(("", each) for each in said[1:]),
                ("spent", experiments_told(spent)),
                ("energy", energy_told(spent.energy)),
                ("best", campaign.best_experiment),
                ("verified", f"{verification.sentence}." if verification.verdicts else None),
                *(("directive", f"{each.id}  {each.text}") for each in campaign.directives),
                ("see", f"autoinfer {_more(campaign)}"),
            ]
        )
    )


def _agreed(campaign: CampaignView) -> str | None:
    """The prices that the user was told of rented targets, above which they are asked anew."""
    found = campaign.budget.get(AGREED_USD_PER_S)
    told = found if isinstance(found, Mapping) else {}
    return ", ".join(f"{format_usd(each * HOUR_S)} an hour on {target}" for target, each in told.items())


def _approval(campaign: CampaignView) -> str | None:
    """What waits for the user: the term, and what waits for it now."""
    if campaign.approve_above_s is None:
        return None
    named, more = ", ".join(campaign.awaiting[:MOST_NAMED]), len(campaign.awaiting) - MOST_NAMED
    now = f"now {named}{f' and {more} more' if more > 0 else ''}" if named else "nothing waits now"
    return f"of what is expected to take more than {format_duration(campaign.approve_above_s)}; {now}"


def _revision(campaign: CampaignView) -> str | None:
    """What a model of the hub was pinned to."""
    hub = campaign.hub
    return None if hub is None else f"commit {hub.commit} of {hub.repo} ({hub.revision})"


def _start(campaign: CampaignView) -> str | None:
    """What it begins from in place of the engine's own default, and why."""
    start = campaign.begins_from
    return None if start is None else f"{start.words}, not the engine's default: {start.why}"


def _device(campaign: CampaignView) -> str | None:
    """What the driver said of a GPU."""
    gpu = campaign.gpu
    if gpu is None:
        return None
    capability = "" if gpu.compute_capability is None else f", compute capability {gpu.compute_capability}"
    driver = "" if gpu.driver is None else f", driver {gpu.driver}"
    return f"{gpu.name}, {gpu.memory_bytes / GB:.1f} GB{capability}{driver}"


def _devices(campaign: CampaignView) -> str | None:
    """Which devices take part, where they are several or others use the only one."""
    out, rest = campaign.devices_out, campaign.devices_at_rest
    if len(campaign.devices) < 2 and not rest:
        return None
    left_out = f"; left out: {', '.join(out)} (see the log, then resume)" if out else ""
    why = "at rest when it was interrupted"
    if not any(each.interrupted for each in rest):
        why = "used by others, and so at rest"
    used = f"; {why}: {', '.join(each.device for each in rest)}" if rest else ""
    return f"{', '.join(campaign.devices)}{left_out}{used}"


def _more(campaign: CampaignView) -> str:
    from db.noise import SERIES_NAME

    return f"aa {campaign.id}" if campaign.name == SERIES_NAME else f"summary --campaign {campaign.id}"
