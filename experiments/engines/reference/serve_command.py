"""The reference engine's server as a command: the process that is measured, with its order on a line."""

from __future__ import annotations

from dataclasses import replace

from experiments.engines.messages import data_of, line
from experiments.engines.one_device import CPU, ORDER
from experiments.engines.reference.drafting.order import PACKAGED
from experiments.engines.reference.launch import SERVER_MODULE, server_environment
from experiments.engines.reference.protocol import LaunchOrder
from experiments.engines.serve_command import ServeCommand
from experiments.reference_model.load import CheckpointMissing, reference_model_path
from experiments.telemetry.visible_device import VISIBLE_DEVICES

CACHE = "compiled"
"""The folder for compiled code, beside the command."""

KEPT = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "GOMP_SPINCOUNT", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
"""Of the environment that a launch has, what decides how it computes, and that nothing is fetched."""

KEPT_ON_GPU = (ORDER, VISIBLE_DEVICES)
"""What lets it see the one GPU that its order is for."""

NOTE = (
    "The reference engine's own process, as it is measured: it reads a line of JSON with its order, then a "
    "line a "
    "request, and answers each with a line (experiments/engines/messages.py). It speaks no HTTP: it is "
    "there to be "
    "measured, and what is found on it is a result on it alone."
)


def reference_serve(order: LaunchOrder) -> ServeCommand:
    """The command of an order; the packaged model goes by its name, for it lies elsewhere in every
    installation."""
    whole = server_environment(order, temporary="")
    kept = KEPT if order.device == CPU else (*KEPT, *KEPT_ON_GPU)
    return ServeCommand(
        ("python", "-m", SERVER_MODULE),
        NOTE,
        first_line=line(data_of(_by_name(order))).decode().rstrip("\n"),
        environment={name: whole[name] for name in kept},
    )


def _by_name(order: LaunchOrder) -> LaunchOrder:
    try:
        packaged = order.checkpoint == str(reference_model_path())
    except CheckpointMissing:  # then no order names it
        return order
    return replace(order, checkpoint=PACKAGED) if packaged else order
