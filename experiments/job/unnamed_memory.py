"""Memory of a GPU that is held though the driver names no process that computes, and how much of it may be.

A driver on Windows, under WSL too, and one of a desktop, may name no process for what is drawn, so that it
can't be told from what somebody computes with. How much may be held so, a user says who knows what it is.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping

from configs.errors import UsageError
from configs.quantities import format_bytes, parse_bytes
from experiments.job.memory_return import IDLE_BYTES
from experiments.telemetry.occupants import GB

SETTING = "unnamed_gpu_memory"

VARIABLE = "AUTOINFER_UNNAMED_GPU_MEMORY"
"""Gives a job, and the campaign's loop, the setting."""

ROOM_GB = 0.5
"""What is allowed beyond what is held now, where an allowance is proposed: what a desktop holds changes."""


def allowed_bytes(environment: Mapping[str, str] = os.environ) -> int:
    """How much may be held so: what the user allows, else what a driver itself takes. A word that is no size
    allows no more than that; the settings refuse it before."""
    try:
        return parse_bytes(environment[VARIABLE])
    except (KeyError, UsageError):
        return IDLE_BYTES


def told_of_unnamed(held_bytes: int, may_be_bytes: int) -> str:
    """What is held by nobody who is named, and what to do about it, as a clause."""
    more = math.ceil(held_bytes / GB + ROOM_GB)
    return (
        f"{held_bytes / GB:.1f} GB are held, and the driver names no process that computes; where it is a "
        f"desktop, Windows or WSL that holds them, {VARIABLE}={more}GB (the setting {SETTING}) allows it, in "
        f"place of {format_bytes(may_be_bytes)}"
    )
