"""`autoinfer dashboard`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.options import Json

LARGEST_PORT = 65_535


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
            help="Show a recording by `autoinfer devices --record` in place of this machine's devices.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Serve the dashboard until Ctrl C: what runs, what was found, and why the queue is in its order.

    With --json the address is one JSON object on a line of its own, once the dashboard answers.
    """
    from cli.opening import settings_of
    from cli.output import print_json, say
    from dashboard.app import create_app
    from dashboard.devices import Devices
    from dashboard.server import DEFAULT_HOST, listen, serve
    from experiments.telemetry.trace import read_trace

    settings = settings_of(ctx)
    devices = None if replay_devices is None else Devices(read_trace(replay_devices))
    listening = listen(DEFAULT_HOST if host is None else host, port)
    app = create_app(settings, access=listening.access, devices=devices)

    def told() -> None:
        if as_json:
            print_json({"address": listening.address}, line=True)
        else:
            say(f"The dashboard is at {listening.address}")

    serve(app, listening, told)
