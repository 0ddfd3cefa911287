"""The command line of a worker that is started beside another command, with the same settings."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from cli.console.opening import same_settings

if TYPE_CHECKING:
    from configs.settings import Settings


def campaign_worker_command(
    ctx: typer.Context,
    settings: Settings,
    target: str,
    executor: str,
    campaign: str,
    *,
    leave_running: bool,
) -> list[str]:
    """Return the words that start a worker for a campaign's jobs on rented machines, which ends with this
    process, and with it every run, unless they are to be left."""
    command = [*same_settings(ctx, settings), "worker", "--target", target]
    command += ["--executor", executor, "--campaign", campaign]
    if leave_running:
        command.append("--leave-running")
    return [*command, "--end-with-parent", str(os.getpid())]


def worker_command(
    ctx: typer.Context, settings: Settings, device: str, executor: str, beside: Sequence[str] = ()
) -> list[str]:
    """Return the words that start a worker for `device` which runs jobs by `executor` and ends with this
    process; `beside` is the command that pairs may have run beside them."""
    command = same_settings(ctx, settings)
    command += ["worker", "--device", device, "--executor", executor]
    if beside:
        command += ["--beside", shlex.join(beside)]
    return [*command, "--end-with-parent", str(os.getpid())]


def remote_worker_command(ctx: typer.Context, settings: Settings, target: str, at_once: int) -> list[str]:
    """Return the words that start a worker for rented machines, which ends with this process and ends what it
    runs then."""
    command = [*same_settings(ctx, settings), "worker", "--target", target, "--at-once", str(at_once)]
    return [*command, "--end-with-parent", str(os.getpid())]
