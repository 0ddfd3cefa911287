"""`autoinfer worker`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from cli.console.options import Json

if TYPE_CHECKING:
    from db.session import Database

_DEVICE = re.compile(r"cpu|cuda(?::[0-9]{1,3})?", re.ASCII)
"""A device that jobs can be for, as PyTorch names it."""


def worker(
    ctx: typer.Context,
    device: Annotated[
        str,
        typer.Option("--device", metavar="DEVICE", help="The device to run jobs on, such as cpu or cuda:0."),
    ] = "cpu",
    executor: Annotated[
        str | None,
        typer.Option(
            "--executor", metavar="NAME", help="Which executor runs the jobs; local, or the target's own."
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--target", metavar="TARGET", help="Rented machines instead, such as modal:H100!."),
    ] = None,
    at_once: Annotated[
        int, typer.Option("--at-once", min=1, max=5000, help="The most runs in flight on rented machines.")
    ] = 20,
    leave_running: Annotated[
        bool,
        typer.Option("--leave-running", help="Leave what runs on rented machines to the next worker."),
    ] = False,
    campaign: Annotated[
        str | None,
        typer.Option("--campaign", metavar="C-ID", help="On rented machines: the jobs of this one alone."),
    ] = None,
    beside: Annotated[
        str | None,
        typer.Option(
            "--beside",
            metavar="COMMAND",
            help="Run this beside the pairs of a series of `autoinfer aa --beside` with the same command.",
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="End as soon as no job is waiting.")] = False,
    end_with_parent: Annotated[
        int | None,
        typer.Option("--end-with-parent", metavar="PID", help="End when this is no longer its parent."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Take jobs from the queue and run them on this machine, one at a time, or many on rented ones.

    Ctrl C, or a terminal that is closed, ends it, and what runs: its jobs go back to the queue.
    """
    import signal
    from contextlib import nullcontext
    from functools import partial

    from agent.campaign.rerun.confirm import conclude_ended
    from agent.plan.job_time import planned_seconds
    from cli.console.opening import database_of, settings_of
    from cli.console.output import print_json, say
    from cli.executors.executor import JOBS_FOLDER, LOCAL, make_executor, make_remote_executor, worker_times
    from cli.running.beside import command_beside
    from db.labels import Noun
    from experiments.remote.settings import RemoteTimes
    from experiments.remote.worker import RemoteWorker
    from experiments.stop_flag import StopFlag
    from experiments.telemetry.beside import kept_beside
    from experiments.telemetry.turns import FOLDER
    from experiments.worker.settings import WorkerName
    from experiments.worker.target import target_of
    from experiments.worker.worker import run_worker
    from knowledge.queries.lookup import labelled

    words = command_beside(beside)
    settings = settings_of(ctx)
    stop = StopFlag()
    if target is None:
        _check_device(ctx, device)
    with database_of(ctx) as database:
        name = WorkerName.here(device if target is None else target)
        where = target or device
        chosen = executor or (LOCAL if target is None else target.partition(":")[0])
        campaign_id = None
        if target is None:
            runs_jobs = make_executor(settings, chosen, words)
        else:
            check_target(ctx, target)
            runs_jobs = make_remote_executor(settings, chosen, target)
            check_budget(database, target)
            if campaign is not None:
                with database.read() as session:
                    campaign_id = labelled(session, Noun.CAMPAIGN, campaign)
        ends = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # with nohup a closed terminal ends nothing
            ends.append(signal.SIGHUP)
        for number in ends:
            signal.signal(number, lambda *_: stop.set())
        if not as_json:
            say(f"{name.owner} takes jobs from {database.shown}; Ctrl C ends it.")
        after_job = partial(conclude_ended, database)
        if target is None:
            # Pairs with a command beside are compared with pairs that have nothing beside.
            with nullcontext() if words else kept_beside(database, settings.data_dir / FOLDER):
                ended = run_worker(
                    database,
                    runs_jobs,
                    where,
                    times=worker_times(settings),
                    stop=stop,
                    once=once,
                    end_with_parent=end_with_parent,
                    target=target_of(device) if chosen == LOCAL else None,
                    after_job=after_job,
                )
        else:
            ended = RemoteWorker(
                database,
                runs_jobs,
                where,
                times=RemoteTimes(lease_s=settings.lease_s),
                at_once=at_once,
                logs_root=settings.data_dir / JOBS_FOLDER,
                stop=stop,
                leave_running=leave_running,
                campaign_id=campaign_id,
                end_with_parent=end_with_parent,
                planned_s=planned_seconds,
                after_job=after_job,
            ).run(once=once)
    if as_json:
        print_json({"worker": name.owner, "device": name.device_key, "jobs_ended": ended})
    else:
        say(f"{name.owner} ended after {ended} {'job' if ended == 1 else 'jobs'}.")


def _check_device(ctx: typer.Context, device: str) -> None:
    from configs.errors import UsageError

    _refuse_beside(
        ctx, ("at_once", "leave_running", "campaign"), "is about rented machines: name them with --target"
    )

    if _DEVICE.fullmatch(device) is None:
        raise UsageError(f"There is no device {device!r}.", "A worker runs jobs on cpu, cuda or cuda:NUMBER.")


def check_target(ctx: typer.Context, target: str) -> None:
    """Raise `UsageError` for what names no rented machines, and for options that are about this one."""
    from configs.errors import UsageError
    from configs.targets import is_rented

    _refuse_beside(ctx, ("device",), "is about this machine, and --target about rented ones")
    if not is_rented(target):
        raise UsageError(f"There is no target {target!r}.", "Write one such as modal:H100!.")


def check_budget(database: Database, target: str) -> None:
    """Raise `UsageError` where no budget could cover any job on the target."""
    from configs.errors import UsageError
    from db.money import budgets
    from db.states import BudgetScope

    with database.read() as session:
        found = budgets(session)
    if not any(each.scope is not BudgetScope.TARGET or each.name == target for each in found):
        raise UsageError(
            f"No budget in dollars covers {target}, so nothing may be submitted there.",
            f"Give one with: autoinfer budget set --target {target} USD",
        )


def _refuse_beside(ctx: typer.Context, names: tuple[str, ...], why: str) -> None:
    from configs.errors import UsageError

    for name in names:
        if str(ctx.get_parameter_source(name)).endswith("COMMANDLINE"):
            raise UsageError(f"--{name.replace('_', '-')} {why}.")
