"""`autoinfer worker`."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from cli.options import Json

_DEVICE = re.compile(r"cpu|cuda(?::[0-9]{1,3})?", re.ASCII)
"""A device that jobs can be for, as PyTorch names it."""


def worker(
    ctx: typer.Context,
    device: Annotated[
        str,
        typer.Option("--device", metavar="DEVICE", help="The device to run jobs on, such as cpu or cuda:0."),
    ] = "cpu",
    executor: Annotated[
        str, typer.Option("--executor", metavar="NAME", help="Which executor runs the jobs.")
    ] = "local",
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
    """Take jobs from the queue and run them on this machine, one at a time.

    Ctrl C ends it: the job that runs goes back to the queue.
    """
    import signal
    import threading

    from cli.beside import command_beside
    from cli.executor import make_executor, worker_times
    from cli.opening import database_of, settings_of
    from cli.output import print_json, say
    from experiments.worker.settings import WorkerName
    from experiments.worker.worker import run_worker

    _check_device(device)
    words = command_beside(beside)
    settings = settings_of(ctx)
    stop = threading.Event()
    with database_of(ctx) as database:
        runs_jobs = make_executor(settings, executor, words)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        name = WorkerName.here(device)
        if not as_json:
            say(f"{name.owner} takes jobs from {database.shown}; Ctrl C ends it.")
        ended = run_worker(
            database,
            runs_jobs,
            device,
            times=worker_times(settings),
            stop=stop,
            once=once,
            end_with_parent=end_with_parent,
        )
    if as_json:
        print_json({"worker": name.owner, "device": name.device_key, "jobs_ended": ended})
    else:
        say(f"{name.owner} ended after {ended} {'job' if ended == 1 else 'jobs'}.")


def _check_device(device: str) -> None:
    from configs.errors import UsageError

    if _DEVICE.fullmatch(device) is None:
        raise UsageError(f"There is no device {device!r}.", "A worker runs jobs on cpu, cuda or cuda:NUMBER.")
