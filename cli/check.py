"""`autoinfer check`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.console.options import Json

if TYPE_CHECKING:
    from agent.recipe.checking import Begun

STARTS_S = 30.0
"""Seconds that starting a worker and its job, and ending them, take at most on a quiet machine."""


def check(
    ctx: typer.Context,
    recipe: Annotated[Path, typer.Argument(metavar="RECIPE", help="A recipe's folder, or its recipe.json.")],
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            metavar="DEVICE",
            help="Another device of this machine; the recipe's own if not given.",
        ),
    ] = None,
    within: Annotated[
        str | None,
        typer.Option("--within", metavar="TIME", help="End after so long; 5m if not given."),
    ] = None,
    worker: Annotated[
        bool, typer.Option("--worker/--no-worker", help="Run a worker for it here, or wait for another one.")
    ] = True,
    as_json: Json = False,
) -> None:
    """Measure a recipe against its baseline again in fresh processes, and say whether it still holds.

    Ends with exit code 1 where it does not, and where that is left open; with 3 where its time was up before.
    """
    import shlex
    import time
    from dataclasses import asdict
    from math import ceil, inf

    from agent.campaign.resources.worker_process import WorkerProcess
    from agent.recipe.checking import Holding
    from agent.recipe.checking import check as run_check
    from agent.recipe.planning import CHECK_S
    from cli.console.interrupt import Interrupt
    from cli.console.opening import database_of, settings_of
    from cli.console.output import print_json, say
    from cli.executors.worker_command import worker_command
    from cli.recipe_file import recipe_in
    from cli.reproduce import WORKER_LOG
    from configs.core_shares import shares_here
    from configs.errors import EXIT_FAILURE, EXIT_OPEN
    from configs.quantities import SECONDS_IN, format_duration, parse_duration_s

    within_s = CHECK_S if within is None else parse_duration_s(within)
    limit = format_duration(within_s)
    found = recipe_in(recipe)
    settings = settings_of(ctx)
    process: WorkerProcess | None = None
    late_at = inf
    interrupt = Interrupt()

    def begun(asked: Begun) -> None:
        nonlocal process, late_at
        late_at = time.monotonic() + within_s + STARTS_S
        if worker:
            process = WorkerProcess(
                worker_command(ctx, settings, asked.device, "local"),
                settings.log_dir / WORKER_LOG,
                shares_here([asked.device]).get(asked.device, ()),
            )
        if not as_json:
            say(
                f"{asked.label} measures the recipe of {found.experiment} against its baseline on "
                f"{asked.device}: {asked.short.words}.",
                *([f"{asked.otherwise[:1].upper()}{asked.otherwise[1:]}."] if asked.otherwise else []),
                f"It ends {limit} after its checkpoints are there at the latest; what it waits for the "
                "device, and what is built first, comes on top.",
                "What it does: autoinfer log --follow",
            )

    def wait() -> None:
        nonlocal late_at
        interrupt.check()
        if time.monotonic() > late_at:
            late_at = inf
            if not as_json:
                say(f"Its {limit} began later: it waits for the device, or something is built first.")
        if process is not None:
            process.keep_alive()
            process.wait(settings.job_poll_s)
        else:
            time.sleep(settings.job_poll_s)

    def stop() -> None:
        if process is not None:
            process.stop()

    with database_of(ctx) as database:
        try:
            with interrupt:
                done = run_check(database, found, wait, stop, target=target, within_s=within_s, told=begun)
        finally:
            stop()
    if as_json:
        print_json(asdict(done))
    else:
        say(done.reason)
        for what, labels in (("Confirmed", done.confirmed), ("Stale now", done.stale)):
            if labels:
                say(f"{what}: {', '.join(labels)}.")
        if done.holding is Holding.UNSETTLED:
            again = f"autoinfer check {shlex.quote(str(recipe))}"
            longer = f"{ceil(2 * max(within_s, done.expected_s) / SECONDS_IN['m'])}m"
            say(f"Nothing is marked as stale. Give it longer: {again} --within {longer}")
    if done.holding is Holding.UNSETTLED:
        raise typer.Exit(EXIT_OPEN)
    if done.holding is not Holding.HOLDS:
        raise typer.Exit(EXIT_FAILURE)
