"""`autoinfer run`: an autonomous campaign, told as it goes."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from cli.console.opening import database_of, settings_of
from cli.console.options import Baseline, Concurrency, Json, Memory, NewTokens, PromptTokens
from cli.executors.prices import keep_agreed, prices_there
from cli.running.confirm_on import keep, terms_of
from cli.running.disk_room import RoomTold, room_for
from cli.running.driving import Begun, Beside, check_leaves, drive
from cli.running.model_endpoint import endpoint_there, with_language_model
from cli.running.run_resume import Dollars, refuse_beside_resume, resume_campaign

if TYPE_CHECKING:
    from agent.plan.ground import Ground
    from agent.plan.plan import Plan
    from configs.campaign import CampaignSpec
    from db.session import Database


def run(
    ctx: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[CAMPAIGN]", help="What to run: a packaged name or a YAML file.", show_default=False
        ),
    ] = None,
    campaign: Annotated[
        str | None,
        typer.Option(
            "--campaign", metavar="NAME|FILE", help="The same as an option; `default` if not given."
        ),
    ] = None,
    budget: Annotated[
        str | None, typer.Option("--budget", metavar="TIME", help="Wall-clock time, such as 30m or 8h.")
    ] = None,
    approve_above: Annotated[
        str | None,
        typer.Option(
            "--approve-above",
            metavar="TIME",
            help="Ask before an experiment that is expected to take more, such as 10m.",
        ),
    ] = None,
    budget_usd: Annotated[
        str | None,
        typer.Option(
            "--budget-usd", metavar="USD", help="Dollars that rented machines may cost, such as 20."
        ),
    ] = None,
    approve_above_usd: Annotated[
        str | None,
        typer.Option(
            "--approve-above-usd", metavar="USD", help="Ask before a rented job that may cost more than this."
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="HF_ID[@REVISION]|DIR",
            help="A model of the hub, a checkpoint folder, or `reference`.",
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            "--weights",
            metavar="dummy",
            help="Made-up weights: times alone, of a model that need not be here, such as qwen3.5-9b.",
        ),
    ] = None,
    drafter: Annotated[
        str | None,
        typer.Option(
            "--drafter", metavar="DIR|HF_ID", help="A drafter for the model: a folder, or a model of the hub."
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            metavar="DEVICE[,DEVICE]",
            help="Where to measure: cpu, cuda:0; several of a kind: cuda:0,cuda:1, cuda:all; or modal:H100!.",
        ),
    ] = None,
    confirm_on: Annotated[
        str | None,
        typer.Option(
            "--confirm-on",
            metavar="TARGET[,TARGET]",
            help="Confirm there what is supported, in the same queue: cuda:1, modal:H100!.",
        ),
    ] = None,
    usd_per_hour: Annotated[
        str | None,
        typer.Option(
            "--usd-per-hour",
            metavar="USD",
            help="What an hour is worth to you, by which prices and times of several targets are weighed.",
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine", metavar="NAME", help="What serves the model; the target's own if not given."
        ),
    ] = None,
    space: Annotated[
        str | None,
        typer.Option(
            "--space",
            metavar="NAME|FILE",
            help="The knobs that may be turned; the engine's own if not given.",
        ),
    ] = None,
    baseline: Baseline = None,
    memory: Memory = None,
    concurrency: Concurrency = None,
    prompt_tokens: PromptTokens = None,
    new_tokens: NewTokens = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of prompts, order and proposers.")] = None,
    min_effect: Annotated[
        str | None, typer.Option("--min-effect", metavar="SHARE", help="Smallest gain worth having: 3%.")
    ] = None,
    language_model: Annotated[
        str | None,
        typer.Option(
            "--language-model",
            metavar="SHARE",
            help="Let the language model of the settings propose at most this share of all tests: 30%.",
        ),
    ] = None,
    ask_again: Annotated[
        bool,
        typer.Option(
            "--ask-again", help="Test the questions too that another campaign answered in the same scope."
        ),
    ] = False,
    tasks: Annotated[
        str | None,
        typer.Option(
            "--tasks",
            metavar="TASK:ITEMS,…",
            help="Tasks of lm-eval that quality is judged by too: gsm8k:200,ifeval:100.",
        ),
    ] = None,
    thinking: Annotated[
        bool | None,
        typer.Option(
            "--thinking/--no-thinking",
            help="Let the model think before it answers a task; it does not if not given.",
            show_default=False,
        ),
    ] = None,
    new: Annotated[
        bool, typer.Option("--new", help="Start a new campaign even where one was interrupted.")
    ] = False,
    resume: Annotated[
        str | None,
        typer.Option("--resume", metavar="C-ID", help="Go on with this campaign; --budget adds to it."),
    ] = None,
    worker: Annotated[
        bool, typer.Option("--worker/--no-worker", help="Run a worker beside the campaign, or use others.")
    ] = True,
    leave_running: Annotated[
        bool,
        typer.Option("--leave-running", help="Leave what runs on rented machines to the next worker."),
    ] = False,
    dashboard: Annotated[
        bool | None,
        typer.Option(
            "--dashboard/--no-dashboard",
            help="Serve the dashboard beside the campaign; done if not given, but not with --json.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Run an autonomous campaign until its budget ends or nothing left is worth its price.

    A campaign that was interrupted or paused is continued when the same one is asked for. Ctrl-C stops it in
    good order. The dashboard's address is printed first; on a terminal it stays after the campaign until
    Ctrl-C.
    """
    from agent.campaign.beginning.survey import survey
    from agent.ground.positions import TooMuch
    from agent.ground.shape import SHAPES
    from agent.plan.workload_options import check_questions_served, in_options, of_workload
    from cli.executors.executor import check_folders
    from cli.running.asked import campaign_asked
    from configs.quality_tasks import split_tasks
    from configs.quantities import parse_bytes, parse_usd

    beside = Beside(worker, not json if dashboard is None else dashboard, leave_running)
    dollars = Dollars(
        *(None if each is None else parse_usd(each) for each in (budget_usd, approve_above_usd))
    )
    if resume is not None:
        refuse_beside_resume(ctx, resume)
        resume_campaign(ctx, resume, budget, approve_above, dollars, beside, as_json=json)
        return
    workload = of_workload(concurrency, prompt_tokens, new_tokens)
    asked = _one_of(name, campaign)
    found = campaign_asked(
        asked,
        {
            "budget": budget,
            "approve_above": approve_above,
            "budget_usd": dollars.budget_usd,
            "approve_above_usd": dollars.approve_above_usd,
            "model": model,
            "weights": weights,
            "drafter": drafter,
            "target": target,
            "confirm_on": confirm_on,
            "usd_per_hour": None if usd_per_hour is None else parse_usd(usd_per_hour),
            "engine": engine,
            "space": space,
            "memory": None if memory is None else parse_bytes(memory),
            "seed": seed,
            "plan.min_effect": min_effect,
            "ask_again": ask_again or None,
            **workload,
            "plan.workload.evaluation_tasks": None if tasks is None else split_tasks(tasks),
            "plan.workload.evaluation_thinking": thinking,
        },
        baseline or (),
    )
    found = with_language_model(found, language_model)
    settings = settings_of(ctx)
    with database_of(ctx, create=True, upgrade=True) as database:
        if worker:
            check_folders(settings, found.spec.devices)
        endpoint_there(found.spec, settings, os.environ)
        try:
            check_questions_served(found.spec, workload)
            ground = survey(found.spec, found.where, settings.data_dir / SHAPES, worked_here=worker)
        except TooMuch as refused:
            raise in_options(refused, workload) from None
        spec = found.spec.model_copy(update={"target": ",".join(ground.devices)})
        check_leaves(spec, beside)
        budget_told = None
        if found.raises_budget:
            spec, budget_told = _reaching(database, spec, ground, new=new)
        going_on = None if new else _interrupted(database, spec, ground)
        prices = prices_there(database, settings, spec, ground, going_on)
        there = terms_of(database, settings, spec, ground, going_on)
        is_here = worker and going_on is None
        room = room_for(database, settings, spec, ground) if is_here else RoomTold()
        campaign_id = _start_or_continue(database, spec, ground, new=new)
        keep(database, campaign_id, there)
        keep_agreed(database, campaign_id, prices, there)
        plan = _planned(database, spec, ground)
        plan = replace(plan, notes=(*plan.notes, *room.room))
        if json and plan.advice is not None:
            typer.echo(f"budget: {plan.advice}", err=True)
        for each in room.doubt if json else ():
            typer.echo(each, err=True)
        warning = " ".join(filter(None, (ground.warning, budget_told, *room.doubt))) or None
        begun = Begun(spec, campaign_id, None if json else plan, warning, prices=prices, there=there)
        drive(ctx, database, settings, begun, beside, as_json=json)


def _one_of(name: str | None, option: str | None) -> str:
    from cli.running.asked import UNNAMED
    from configs.errors import UsageError

    if name is not None and option is not None:
        raise UsageError(
            f"The campaign is named twice: {name} and --campaign {option}.",
            "Name it once: autoinfer run NAME",
        )
    return name or option or UNNAMED


def _reaching(
    database: Database, spec: CampaignSpec, ground: Ground, *, new: bool
) -> tuple[CampaignSpec, str | None]:
    """The campaign with a budget that reaches verdicts by its plan, and what to say of it; with the one that
    it was begun with, and nothing to say, where it goes on. Raises as `raised`."""
    from agent.campaign.beginning.create import budget_of_interrupted

    with database.write() as session:
        begun_with = None if new else budget_of_interrupted(session, spec, ground)
    if begun_with is not None:
        return spec.model_copy(update={"budget": begun_with}), None
    return raised(spec, replace(_planned(database, spec, ground), raises_budget=True))


def raised(spec: CampaignSpec, plan: Plan) -> tuple[CampaignSpec, str | None]:
    """The campaign with a budget that reaches verdicts by its plan, and what to say of it.

    Raises `UsageError` for one that is too long to be taken unasked.
    """
    from agent.plan.duration import is_too_long_unasked, reaching_s
    from configs.errors import UsageError

    wall_s = reaching_s(plan.first_verdict, spec.budget.wall_s)
    if is_too_long_unasked(wall_s):
        raise UsageError(str(plan.advice), "No campaign was begun.")
    budget = spec.budget.model_copy(update={"wall_s": wall_s})
    return spec.model_copy(update={"budget": budget}), plan.advice


def _interrupted(database: Database, spec: CampaignSpec, ground: Ground) -> int | None:
    from agent.campaign.beginning.create import interrupted

    with database.write() as session:
        return interrupted(session, spec, ground)


def _planned(database: Database, spec: CampaignSpec, ground: Ground) -> Plan:
    from agent.plan.begin import known_times, plan_on

    with database.read() as session:
        target, model = ground.target_key, ground.fingerprint
        workload = spec.plan.workload
        stored = known_times(session, target, ground.checkpoint, spec.engine, workload, model)
    return plan_on(spec, ground, stored)


def _start_or_continue(database: Database, spec: CampaignSpec, ground: Ground, *, new: bool) -> int:
    from agent.campaign.beginning.create import create_campaign, interrupted
    from agent.campaign.beginning.missing import keep_missing

    with database.write() as session:
        found = None if new else interrupted(session, spec, ground)
        campaign_id = create_campaign(session, spec, ground) if found is None else found
        keep_missing(session, campaign_id, ground.missing)
    return campaign_id
