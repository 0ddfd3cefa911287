"""`autoinfer dashboard`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.console.options import Json

LARGEST_PORT = 65_535

STANDARD_INPUT = 0

READ_ONLY = (
    "The dashboard shows what is stored, and refuses what would be written until there is room: free some, "
    "with autoinfer artifacts prune --unused-for 1d where artifacts lie there too."
)
"""What follows the sentence that tells of a full disk."""


def dashboard(
    ctx: typer.Context,
    host: Annotated[
        str | None,
        typer.Option(
            "--host",
            metavar="ADDRESS",
            help="The address to serve on; this machine alone if not given, and with a token on any other.",
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            min=0,
            max=LARGEST_PORT,
            help="The port; the first free one from 8420 on if not given, any free one for 0.",
        ),
    ] = None,
    replay_devices: Annotated[
        Path | None,
        typer.Option(
            "--replay-devices",
            metavar="FILE",
            help="Show a recording by `autoinfer devices --record` in place of this machine's devices, or "
            "a packaged one of real GPUs: h200, h200-x2.",
        ),
    ] = None,
    beside: Annotated[
        int | None,
        typer.Option(
            "--beside",
            metavar="FD",
            min=0,
            help="For `autoinfer run`: serve on this socket of its, and end with standard input.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Serve the dashboard until Ctrl C: what runs, what was found, and why the queue is in its order.

    With --json the address is one JSON object on a line of its own, once the dashboard answers.
    """
    if beside is not None:
        from experiments.executors.guard import watch

        watch(STANDARD_INPUT)  # before what takes its time to import

    from experiments.engines.garbage import unsearched

    with unsearched():
        from cli.console.opening import database_of, settings_of
        from cli.console.output import print_json, say
        from cli.executors.executor import remote_executors
        from dashboard.app import create_app
        from dashboard.devices import Devices
        from dashboard.listening import DEFAULT_HOST, listen, taken_over
        from dashboard.server import serve
        from dashboard.web.opening import Opened, opened_by
        from experiments.telemetry.trace import named_recording, read_trace

    settings = settings_of(ctx)
    devices = None if replay_devices is None else Devices(read_trace(named_recording(replay_devices)))
    listening = listen(host or DEFAULT_HOST, port) if beside is None else taken_over(beside)
    with database_of(ctx, reads_when_full=True) as database:
        opened = opened_by(database, settings.dashboard_token_file) if listening.is_open else Opened()
        app = create_app(settings, database, opened.access, devices, remote_executors(settings))
        address = f"{listening.address}{opened.suffix}"

        def told() -> None:
            if database.found_full:
                typer.echo(f"{database.found_full} {READ_ONLY}", err=True)
            if as_json:
                print_json({"address": address}, line=True)
            else:
                say(f"The dashboard is at {address}", *opened.told)

        serve(app, listening, told)
