"""`autoinfer stop`: end everything that is paid for."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.console.options import Json
from cli.withdraw import Why


def stop(
    ctx: typer.Context,
    remote: Annotated[bool, typer.Option("--remote", help="End every run on rented machines.")] = False,
    why: Why = None,
    as_json: Json = False,
) -> None:
    """End every run on rented machines that this database knows of, and say what could not be ended.

    Their jobs are cancelled, and so are those that wait with a price.
    """
    from cli.console.opening import database_of, settings_of
    from cli.console.output import print_json, say
    from cli.executors.executor import remote_executors
    from configs.errors import EXIT_FAILURE, UsageError
    from configs.quantities import format_usd
    from experiments.remote.ending import stop_all

    if not remote:
        raise UsageError(
            "Say what is to be stopped.",
            "Everything on rented machines: autoinfer stop --remote; a campaign: autoinfer campaign stop",
        )
    with database_of(ctx) as database:
        stopped, waiting = stop_all(database, remote_executors(settings_of(ctx)), why=why)
    left = [each for each in stopped if each.fault is not None]
    if as_json:
        runs = [
            {
                "job": each.job,
                "key": each.key,
                "executor": each.executor,
                "target": each.target,
                "ended": each.fault is None,
                "usd": None if each.cost is None else each.cost.usd,
                "fault": each.fault,
            }
            for each in stopped
        ]
        print_json({"runs": runs, "cancelled_jobs": waiting})
    else:
        for each in stopped:
            cost = "" if each.cost is None else f", {format_usd(each.cost.usd)} so far"
            told = f"ended{cost}" if each.fault is None else f"NOT ended: {each.fault}"
            say(f"{each.job} on {each.target} ({each.key}): {told}")
        if waiting:
            say(f"Cancelled before they were submitted: {', '.join(waiting)}.")
        if not stopped:
            say("Nothing remote runs that this database knows of.")
            say("What only a provider knows of is listed by: autoinfer reconcile")
    if left:
        raise typer.Exit(EXIT_FAILURE)
