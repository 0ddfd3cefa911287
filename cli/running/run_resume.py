"""`autoinfer run --resume`: a campaign that goes on as it was begun, with more budget."""

from __future__ import annotations

import os
from dataclasses import dataclass

import typer

from cli.console.opening import database_of, settings_of
from cli.executors.prices import keep_agreed, prices_there
from cli.running.confirm_on import keep, terms_of
from cli.running.driving import Begun, Beside, check_leaves, drive
from cli.running.model_endpoint import endpoint_there

MEANT_BESIDE_RESUME = frozenset(
    {
        "resume",
        "budget",
        "approve_above",
        "budget_usd",
        "approve_above_usd",
        "leave_running",
        "worker",
        "dashboard",
        "json",
    }
)
"""Options of a campaign that goes on; the others tell how one is begun."""


@dataclass(frozen=True)
class Dollars:
    """What may be spent on rented machines, and above which price of a job the user is asked."""

    budget_usd: float | None = None
    approve_above_usd: float | None = None


def refuse_beside_resume(ctx: typer.Context, label: str) -> None:
    """A campaign that goes on is the one it was: what it measures, and what it judges by, was fixed then."""
    from configs.errors import UsageError

    for name in ctx.params:
        given = str(ctx.get_parameter_source(name)).endswith("COMMANDLINE")
        if given and name not in MEANT_BESIDE_RESUME:
            what = "CAMPAIGN" if name == "name" else f"--{name.replace('_', '-')}"
            raise UsageError(
                f"{label} goes on as it was begun, so {what} has no meaning beside --resume.",
                "Leave it out, or start another campaign without --resume.",
            )


def resume_campaign(
    ctx: typer.Context,
    label: str,
    budget: str | None,
    approve_above: str | None,
    dollars: Dollars,
    beside: Beside,
    *,
    as_json: bool,
) -> None:
    """Go on with the campaign of this label, with so much more of each budget; raises `UsageError` for one
    that can't."""
    from agent.campaign.beginning.missing import keep_missing
    from agent.campaign.beginning.survey import survey
    from agent.campaign.known.reading_facts import read_facts
    from agent.campaign.resources.allowance import extend, extended_s, more_dollars
    from cli.executors.executor import check_folders
    from configs.campaign import ApprovalSpec
    from configs.quantities import parse_duration_s
    from db.labels import Noun
    from knowledge.queries.lookup import labelled

    above = None if approve_above is None else ApprovalSpec(wall_s=parse_duration_s(approve_above))
    more_s = 0.0 if budget is None else parse_duration_s(budget)
    settings = settings_of(ctx)
    with database_of(ctx) as database:
        with database.read() as session:
            campaign_id = labelled(session, Noun.CAMPAIGN, label)
            extended_s(session, campaign_id, more_s)  # what can't be is told before the checkpoint is read
            spec = read_facts(session, campaign_id).spec
        if beside.worker:
            check_folders(settings, spec.devices)
        endpoint_there(spec, settings, os.environ)
        ground = survey(spec, without_missing=True, worked_here=beside.worker)
        absent = tuple(each for each in spec.devices if each not in ground.devices)
        check_leaves(spec, beside)
        more_usd = dollars.budget_usd or 0.0
        prices = prices_there(database, settings, spec, ground, campaign_id, more_usd)
        there = terms_of(database, settings, spec, ground, campaign_id, more_usd)
        keep(database, campaign_id, there)
        keep_agreed(database, campaign_id, prices, there)
        with database.write() as session:
            extend(session, campaign_id, more_s, above)
            keep_missing(session, campaign_id, ground.missing)
            if dollars != Dollars():
                more_dollars(session, campaign_id, more_usd, dollars.approve_above_usd)
            spec = read_facts(session, campaign_id).spec
        begun = Begun(spec, campaign_id, warning=ground.warning, absent=absent, prices=prices, there=there)
        drive(ctx, database, settings, begun, beside, as_json=as_json)
