"""`autoinfer reproduce`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli.console.options import Json

if TYPE_CHECKING:
    from agent.campaign.resources.worker_process import WorkerProcess
    from configs.settings import Settings
    from db.models import Campaign
    from db.session import Database

WORKER_LOG = "worker.log"
"""The file in the log folder that the worker of a reproduction writes to."""

AT_ONCE = 1
"""Runs on rented machines that such a worker keeps in flight: its own is all that it is started for."""


def reproduce(
    ctx: typer.Context,
    experiment: Annotated[str, typer.Argument(metavar="E-ID", help="The experiment, such as E-0020.")],
    worker: Annotated[
        bool, typer.Option("--worker/--no-worker", help="Run a worker for it here, or wait for another one.")
    ] = True,
    budget_usd: Annotated[
        str | None,
        typer.Option(
            "--budget-usd",
            metavar="USD",
            help="Add so many dollars to the campaign's budget, for a rented machine.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Run an experiment again in fresh processes, judge it, and say whether it agrees.

    Ends with exit code 1 when it does not.
    """
    import time
    from dataclasses import asdict

    from agent.campaign.rerun.reproduce import allow_reproduction, other_hardware
    from agent.campaign.rerun.reproduce import reproduce as run_again
    from agent.campaign.rerun.software import cannot_run_here, other_versions_here
    from agent.campaign.resources.devices import device_of
    from agent.campaign.resources.fresh_price import price_watch
    from agent.ground.stored_checkpoint import absent_for_jobs
    from cli.console.interrupt import Interrupt
    from cli.console.opening import database_of, settings_of
    from cli.console.output import print_json, say
    from configs.errors import AutoinferError
    from configs.quantities import parse_usd
    from configs.targets import is_rented
    from db.labels import Noun, format_label
    from db.models import Campaign, Experiment
    from knowledge.queries.lookup import labelled

    settings = settings_of(ctx)
    more_usd = 0.0 if budget_usd is None else parse_usd(budget_usd)
    with database_of(ctx) as database:
        with database.read() as session:
            original = labelled(session, Noun.EXPERIMENT, experiment)
            campaign = session.get_one(Campaign, session.get_one(Experiment, original).campaign_id)
            device = device_of(session, original) or str(campaign.spec.get("target", "cpu"))
            target = session.get_one(Experiment, original).target
            session.expunge(campaign)
        label = format_label(Noun.EXPERIMENT, original)
        if worker and not is_rented(device) and (absent := absent_for_jobs(campaign)) is not None:
            raise AutoinferError(
                f"{label} can't run again here: {absent}.",
                "Put the model's folder back in its place, or, where a worker of another host has it, go "
                "without one here: --no-worker",
            )
        with database.write() as session:
            allow_reproduction(session, original, device, more_usd)
        if worker and not is_rented(device) and (other := other_hardware(device, target)) is not None:
            raise AutoinferError(
                f"{label} can't run again here: {other.rstrip('.')}.",
                "Ask where that hardware is, with the same database, or, where a worker of another host has "
                "it, go without one here: --no-worker. Another target confirms: "
                f"autoinfer promote {label} --target TARGET",
            )
        if worker and not is_rented(device):
            with database.read() as session:
                experiment_then = session.get_one(Experiment, original)
                cannot = cannot_run_here(session, experiment_then, device)
                differ = other_versions_here(session, experiment_then, device)
            if cannot is not None:
                raise AutoinferError(
                    f"{label} can't run again here: {cannot}",
                    "Where a worker of another host can, go without one here: --no-worker",
                )
            if differ is not None and not as_json:
                say(f"{label}: {differ}.")
        process = fresh_worker(ctx, settings, campaign, device)

        told = ""
        look_at_price = price_watch(
            database,
            original,
            device,
            lambda why: None if as_json else say(f"{label} runs again {why}"),
        )
        interrupt = Interrupt()

        def wait() -> None:
            nonlocal told
            interrupt.check()
            look_at_price()
            before, told = told, how_it_runs(database, device, with_worker=worker)
            if told != before and not as_json:
                say(f"{label} {told}")
            if worker:
                process.keep_alive()
            (process.wait if worker else time.sleep)(settings.job_poll_s)

        try:
            with interrupt:
                done = run_again(database, original, wait, process.stop)
        finally:
            process.stop()
    if isinstance(done, str):
        raise AutoinferError(done, f"Once that is mended, start it again with: autoinfer reproduce {label}")
    if as_json:
        print_json(asdict(done))
    else:
        say(f"{done.reason}.")
    if not done.agrees:
        raise typer.Exit(1)


def how_it_runs(database: Database, device: str, *, with_worker: bool) -> str:
    """That a fresh run runs on its device, or that it waits for a worker of which none is there."""
    from agent.campaign.resources.waiting import is_served, to_start_one

    if not with_worker:
        with database.read() as session:
            served = is_served(session, device)
        if not served:
            return (
                f"waits: no worker takes jobs for {device}. Start one where that is, with the same "
                f"database: {to_start_one(device)}"
            )
    return f"runs again on {device}; what it does: autoinfer log --follow"


def fresh_worker(ctx: typer.Context, settings: Settings, campaign: Campaign, device: str) -> WorkerProcess:
    """A worker, not yet started, for fresh runs of a campaign's tests on this device."""
    from agent.campaign.resources.worker_process import WorkerProcess
    from cli.executors.worker_command import remote_worker_command, worker_command
    from configs.core_shares import shares_here
    from configs.targets import is_rented

    target = str(campaign.spec.get("target", "cpu"))
    executor = str(campaign.spec.get("executor", "local"))
    command = (
        remote_worker_command(ctx, settings, device, AT_ONCE)
        if is_rented(device)
        else worker_command(ctx, settings, device, executor)
    )
    return WorkerProcess(
        command, settings.log_dir / WORKER_LOG, shares_here(target.split(",")).get(device, ())
    )
