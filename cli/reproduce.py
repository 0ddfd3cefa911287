"""`autoinfer reproduce`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.options import Json

WORKER_LOG = "worker.log"
"""The file in the log folder that the worker of a reproduction writes to."""


def reproduce(
    ctx: typer.Context,
    experiment: Annotated[str, typer.Argument(metavar="E-ID", help="The experiment, such as E-0020.")],
    worker: Annotated[
        bool, typer.Option("--worker/--no-worker", help="Run a worker for it here, or wait for another one.")
    ] = True,
    as_json: Json = False,
) -> None:
    """Run an experiment again in fresh processes, judge it, and say whether it agrees.

    Ends with exit code 1 when it does not.
    """
    import time
    from dataclasses import asdict

    from agent.campaign.devices import device_of
    from agent.campaign.reproduce import reproduce as run_again
    from agent.campaign.worker_process import WorkerProcess
    from cli.interrupt import Interrupt
    from cli.opening import database_of, settings_of
    from cli.output import print_json, say
    from cli.worker_command import worker_command
    from configs.core_shares import shares_here
    from db.labels import Noun, format_label
    from db.models import Campaign, Experiment
    from knowledge.queries.lookup import labelled

    settings = settings_of(ctx)
    with database_of(ctx) as database:
        with database.read() as session:
            original = labelled(session, Noun.EXPERIMENT, experiment)
            campaign = session.get_one(Campaign, session.get_one(Experiment, original).campaign_id)
            device = device_of(session, original) or str(campaign.spec.get("target", "cpu"))
        executor = str(campaign.spec.get("executor", "local"))
        process = WorkerProcess(
            worker_command(ctx, settings, device, executor),
            settings.log_dir / WORKER_LOG,
            shares_here(str(campaign.spec.get("target", "cpu")).split(",")).get(device, ()),
        )

        label = format_label(Noun.EXPERIMENT, original)
        waits = 0

        interrupt = Interrupt()

        def wait() -> None:
            nonlocal waits
            interrupt.check()
            if waits == 0 and not as_json:
                say(f"{label} runs again on {device}; what it does: autoinfer log --follow")
            waits += 1
            if worker:
                process.keep_alive()
            (process.wait if worker else time.sleep)(settings.job_poll_s)

        try:
            with interrupt:
                done = run_again(database, original, wait, process.stop)
        finally:
            process.stop()
    if as_json:
        print_json(asdict(done))
    else:
        say(f"{done.reason}.")
    if not done.agrees:
        raise typer.Exit(1)
