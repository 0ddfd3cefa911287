"""`autoinfer run`: an autonomous campaign, told as it goes."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from cli.confirm_on import keep, terms_of, workers_there
from cli.opening import database_of, settings_of
from cli.options import Json
from cli.output import print_json, say

if TYPE_CHECKING:
    from agent.campaign.create import Ground
    from agent.campaign.worker_process import WorkerProcess
    from agent.plan.plan import Plan
    from agent.plan.price import Prices
    from agent.plan.price_elsewhere import ConfirmTerms
    from configs.campaign import CampaignSpec
    from configs.settings import Settings
    from db.session import Database

WORKER_LOG = "worker.log"
"""The file in the log folder that the campaign's worker writes to."""


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
class Beside:
    """What runs beside a campaign."""

    worker: bool
    dashboard: bool
    leave_running: bool = False


@dataclass(frozen=True)
class Dollars:
    """What may be spent on rented machines, and above which price of a job the user is asked."""

    budget_usd: float | None = None
    approve_above_usd: float | None = None


@dataclass(frozen=True)
class Begun:
    """A campaign that is to be driven, and the plan and the warning to tell before, if there are any."""

    spec: CampaignSpec
    campaign_id: int
    plan: Plan | None = None
    warning: str | None = None
    absent: tuple[str, ...] = ()
    """Devices of it that are not there now."""
    prices: Prices | None = None
    """What its jobs cost on a rented target."""
    there: ConfirmTerms | None = None
    """What is known of the targets that it confirms on."""


def worker_log(device: str, devices: tuple[str, ...]) -> str:
    """The file in the log folder that a device's worker writes to; of several devices each has its own."""
    return WORKER_LOG if len(devices) == 1 else f"worker-{device.replace(':', '-')}.log"


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
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of prompts, order and proposers.")] = None,
    min_effect: Annotated[
        str | None, typer.Option("--min-effect", metavar="SHARE", help="Smallest gain worth having: 3%.")
    ] = None,
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
    from agent.campaign.create import survey
    from agent.campaign.shape import SHAPES
    from cli.asked import campaign_asked
    from cli.executor import check_folders
    from configs.quality_tasks import split_tasks
    from configs.quantities import parse_duration_s, parse_usd

    beside = Beside(worker, not json if dashboard is None else dashboard, leave_running)
    dollars = Dollars(
        *(None if each is None else parse_usd(each) for each in (budget_usd, approve_above_usd))
    )
    if resume is not None:
        _refuse_beside_resume(ctx, resume)
        _resume(ctx, resume, budget, approve_above, dollars, beside, as_json=json)
        return
    asked = _one_of(name, campaign)
    for given in (budget, approve_above):
        if given is not None:
            parse_duration_s(given)  # refused in its own words, not as a field of a campaign
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
            "seed": seed,
            "plan.min_effect": min_effect,
            "plan.workload.evaluation_tasks": None if tasks is None else split_tasks(tasks),
            "plan.workload.evaluation_thinking": thinking,
        },
    )
    settings = settings_of(ctx)
    with database_of(ctx, create=True, upgrade=True) as database:
        if worker:
            check_folders(settings)
        ground = survey(found.spec, found.where, settings.data_dir / SHAPES)
        spec = found.spec.model_copy(update={"target": ",".join(ground.devices)})
        check_leaves(spec, beside)
        going_on = None if new else _interrupted(database, spec, ground)
        prices = _priced(database, settings, spec, ground, going_on)
        there = terms_of(database, settings, spec, ground, going_on)
        campaign_id = _start_or_continue(database, spec, ground, new=new)
        keep(database, campaign_id, there)
        plan = None if json else _planned(database, spec, ground)
        begun = Begun(spec, campaign_id, plan, ground.warning, prices=prices, there=there)
        _drive(ctx, database, settings, begun, beside, as_json=json)


def _one_of(name: str | None, option: str | None) -> str:
    from configs.errors import UsageError

    if name is not None and option is not None:
        raise UsageError(
            f"The campaign is named twice: {name} and --campaign {option}.",
            "Name it once: autoinfer run NAME",
        )
    return name or option or "default"


def _refuse_beside_resume(ctx: typer.Context, label: str) -> None:
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


def _resume(
    ctx: typer.Context,
    label: str,
    budget: str | None,
    approve_above: str | None,
    dollars: Dollars,
    beside: Beside,
    *,
    as_json: bool,
) -> None:
    from agent.campaign.create import extend, extended_s, more_dollars, survey
    from agent.campaign.facts import read_facts
    from cli.executor import check_folders
    from configs.campaign import ApprovalSpec
    from configs.quantities import parse_duration_s
    from db.labels import Noun
    from knowledge.queries.lookup import labelled

    above = None if approve_above is None else ApprovalSpec(wall_s=parse_duration_s(approve_above))
    more_s = 0.0 if budget is None else parse_duration_s(budget)
    settings = settings_of(ctx)
    with database_of(ctx) as database:
        if beside.worker:
            check_folders(settings)
        with database.read() as session:
            campaign_id = labelled(session, Noun.CAMPAIGN, label)
            extended_s(session, campaign_id, more_s)  # what can't be is told before the checkpoint is read
            spec = read_facts(session, campaign_id).spec
        ground = survey(spec, without_missing=True)
        absent = tuple(each for each in spec.devices if each not in ground.devices)
        check_leaves(spec, beside)
        more_usd = dollars.budget_usd or 0.0
        prices = _priced(database, settings, spec, ground, campaign_id, more_usd)
        there = terms_of(database, settings, spec, ground, campaign_id, more_usd)
        keep(database, campaign_id, there)
        with database.write() as session:
            extend(session, campaign_id, more_s, above)
            if dollars != Dollars():
                more_dollars(session, campaign_id, more_usd, dollars.approve_above_usd)
            spec = read_facts(session, campaign_id).spec
        begun = Begun(spec, campaign_id, warning=ground.warning, absent=absent, prices=prices, there=there)
        _drive(ctx, database, settings, begun, beside, as_json=as_json)


def check_leaves(spec: CampaignSpec, beside: Beside) -> None:
    """Raise `UsageError` for runs to be left running where nothing is rented."""
    from configs.errors import UsageError

    if beside.leave_running and not spec.rented:
        raise UsageError("--leave-running is about rented machines: name them with --target.")


def _interrupted(database: Database, spec: CampaignSpec, ground: Ground) -> int | None:
    from agent.campaign.create import interrupted

    with database.write() as session:
        return interrupted(session, spec, ground)


def _priced(
    database: Database,
    settings: Settings,
    spec: CampaignSpec,
    ground: Ground,
    going_on: int | None,
    more_usd: float = 0.0,
) -> Prices | None:
    """What the jobs of a rented target cost, where a budget has room for them; None of this machine.

    Raises `UsageError` where none has.
    """
    from agent.plan.price import check_affordable, prices_of
    from cli.executor import make_remote_executor
    from configs.targets import executor_of, is_rented

    if not is_rented(spec.target):
        return None
    executor = make_remote_executor(settings, executor_of(spec.target, spec.executor), spec.target)
    with database.read() as session:
        prices = prices_of(session, spec, ground, executor)
        check_affordable(session, spec, prices, going_on, more_usd)
    return prices


def _planned(database: Database, spec: CampaignSpec, ground: Ground) -> Plan:
    from agent.plan.begin import known_times, plan_on

    with database.read() as session:
        target, model = ground.target_key, ground.fingerprint
        stored = known_times(session, target, ground.checkpoint, spec.engine, model)
    return plan_on(spec, ground, stored)


def _start_or_continue(database: Database, spec: CampaignSpec, ground: Ground, *, new: bool) -> int:
    from agent.campaign.create import create_campaign, interrupted

    with database.write() as session:
        found = None if new else interrupted(session, spec, ground)
        return create_campaign(session, spec, ground) if found is None else found


def _workers(
    ctx: typer.Context, settings: Settings, begun: Begun, beside: Beside
) -> dict[str, WorkerProcess]:
    """A worker for each device, none of them started: one that runs jobs here, or looks after rented ones."""
    from agent.campaign.worker_process import REMOTE_STOP_S, WorkerProcess
    from cli.worker_command import campaign_worker_command, worker_command
    from configs.core_shares import shares_here
    from configs.targets import executor_of
    from db.labels import Noun, format_label

    spec, label = begun.spec, format_label(Noun.CAMPAIGN, begun.campaign_id)
    there = workers_there(ctx, settings, spec, label, leave_running=beside.leave_running)
    if begun.prices is not None:
        command = campaign_worker_command(
            ctx,
            settings,
            spec.target,
            executor_of(spec.target, spec.executor),
            label,
            leave_running=beside.leave_running,
        )
        log = settings.log_dir / WORKER_LOG
        return {spec.target: WorkerProcess(command, log, stop_s=REMOTE_STOP_S), **there}
    shares = shares_here(spec.devices)
    return there | {
        device: WorkerProcess(
            worker_command(ctx, settings, device, spec.executor),
            settings.log_dir / worker_log(device, spec.devices),
            shares.get(device, ()),
        )
        for device in spec.devices
    }


def _still_paid(database: Database, campaign_id: int) -> list[str]:
    """A sentence for each run of the campaign that may still cost money after its worker has ended."""
    from db.labels import Noun, format_label
    from db.remote_runs import open_runs_of

    with database.read() as session:
        runs = open_runs_of(session, campaign_id)
    return [
        f"{format_label(Noun.JOB, run.job_id)} may still run on {run.target} and cost money. "
        "End it with: autoinfer stop --remote"
        for run in runs
    ]


def _drive(
    ctx: typer.Context,
    database: Database,
    settings: Settings,
    begun: Begun,
    beside: Beside,
    *,
    as_json: bool,
) -> None:
    from agent.campaign.loop import CampaignLoop, LoopTimes
    from agent.campaign.outcome import campaign_outcome
    from agent.campaign.worker_process import Workers
    from cli.interrupt import Interrupt
    from cli.run_dashboard import dashboard_beside
    from cli.telling import Teller
    from db.labels import Noun, format_label

    spec, campaign_id = begun.spec, begun.campaign_id
    teller = Teller(database, campaign_id, quiet=as_json)
    interrupt = Interrupt()
    with dashboard_beside(ctx, settings, as_json=as_json) if beside.dashboard else nullcontext() as dashboard:
        address = None if dashboard is None else dashboard.address
        teller.header(spec, database.shown, address, begun.plan, begun.warning, begun.prices, begun.there)
        workers = Workers(_workers(ctx, settings, begun, beside))

        def announce() -> None:
            teller.tell_new()
            if dashboard is not None and (trouble := dashboard.keep()) and not as_json:
                say(trouble)
            interrupt.check()

        loop = CampaignLoop(
            database,
            campaign_id,
            workers=workers if beside.worker else None,
            absent=begun.absent,
            times=LoopTimes(lease_s=settings.lease_s),
            attended=dashboard is not None or sys.stdout.isatty(),
            announce=announce,
        )
        interrupted = False
        try:
            with interrupt:
                if beside.worker:
                    present = [each for each in spec.devices if each not in begun.absent]
                    workers.keep_alive([*present, *spec.confirm_on])
                loop.run()
        except KeyboardInterrupt:
            interrupted = True
        finally:
            workers.stop()
            left = [] if beside.leave_running else _still_paid(database, campaign_id)
            for each in left:
                typer.echo(each, err=True)
        with database.read() as session:
            outcome = campaign_outcome(session, campaign_id)
        if as_json:
            print_json(outcome, line=True)
        elif interrupted:
            label = format_label(Noun.CAMPAIGN, campaign_id)
            say("", f"Interrupted; what was measured is kept. Continue with: autoinfer run --resume {label}")
        if interrupted:
            raise KeyboardInterrupt
        if not as_json:
            teller.result(outcome)
            if dashboard is not None and interrupt.is_heard and sys.stdout.isatty():
                dashboard.stay()
