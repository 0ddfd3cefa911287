"""Driving a campaign that was begun: its workers, the dashboard beside it, what is told, and its end."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from cli.console.output import print_json, say
from cli.running.confirm_on import workers_there
from cli.running.model_endpoint import endpoint_there
from configs.language_model import KEY_VARIABLE

if TYPE_CHECKING:
    from agent.campaign.rerun.price_elsewhere import ConfirmTerms
    from agent.campaign.resources.worker_process import WorkerProcess
    from agent.plan.plan import Plan
    from agent.plan.price import Prices
    from configs.campaign import CampaignSpec
    from configs.settings import Settings
    from db.session import Database

WORKER_LOG = "worker.log"
"""The file in the log folder that the campaign's worker writes to."""


@dataclass(frozen=True)
class Beside:
    """What runs beside a campaign."""

    worker: bool
    dashboard: bool
    leave_running: bool = False


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


def check_leaves(spec: CampaignSpec, beside: Beside) -> None:
    """Raise `UsageError` for runs to be left running where nothing is rented."""
    from configs.errors import UsageError

    if beside.leave_running and not spec.rented:
        raise UsageError("--leave-running is about rented machines: name them with --target.")


def drive(
    ctx: typer.Context,
    database: Database,
    settings: Settings,
    begun: Begun,
    beside: Beside,
    *,
    as_json: bool,
) -> None:
    """Drive the campaign to its end, and say or print what it came to.

    Raises `KeyboardInterrupt` where Ctrl C ended it, once all is in order.
    """
    from agent.campaign.learning.outcome import campaign_outcome
    from agent.campaign.loop import CampaignLoop, LoopTimes
    from agent.campaign.resources.worker_process import Workers
    from cli.console.interrupt import Interrupt
    from cli.running.run_dashboard import dashboard_beside
    from cli.running.telling import Teller
    from configs.core_shares import shares_here
    from db.labels import Noun, format_label

    spec, campaign_id = begun.spec, begun.campaign_id
    endpoint = endpoint_there(spec, settings, os.environ)
    os.environ.pop(KEY_VARIABLE, None)  # no worker, engine or quality task inherits it
    teller = Teller(database, campaign_id, quiet=as_json)
    interrupt = Interrupt()
    with dashboard_beside(ctx, settings, as_json=as_json) if beside.dashboard else nullcontext() as dashboard:
        address = None if dashboard is None else dashboard.address
        told = begun.warning, _come_first(database, begun)
        warning = " ".join(filter(None, told)) or None
        teller.header(spec, database.shown, address, begun.plan, warning, begun.prices, begun.there)
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
            builds_ahead=beside.worker and begun.prices is None and bool(shares_here(spec.devices)),
            endpoint=endpoint,
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
            with interrupt.put_off():
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
            interrupt.check()  # what was put off
            if dashboard is not None and interrupt.is_heard and sys.stdout.isatty():
                dashboard.stay()


def worker_log(device: str, devices: tuple[str, ...]) -> str:
    """The file in the log folder that a device's worker writes to; of several devices each has its own."""
    return WORKER_LOG if len(devices) == 1 else f"worker-{device.replace(':', '-')}.log"


def _workers(
    ctx: typer.Context, settings: Settings, begun: Begun, beside: Beside
) -> dict[str, WorkerProcess]:
    """A worker for each device, none of them started: one that runs jobs here, or looks after rented ones."""
    from agent.campaign.resources.worker_process import REMOTE_STOP_S, WorkerProcess
    from cli.executors.worker_command import campaign_worker_command, worker_command
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


def _come_first(database: Database, begun: Begun) -> str | None:
    """What to say of jobs that run before this campaign's."""
    from agent.campaign.resources.waiting import come_first

    with database.read() as session:
        return come_first(session, begun.campaign_id, begun.spec.devices)


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
