"""What a worker's device is, in the words in which a campaign says what it measures on."""

from __future__ import annotations

from configs.cpu import probe_cpu
from configs.targets import CPU, CUDA
from experiments.telemetry.identity import NoSuchDevice, identify


def target_of(device: str) -> str | None:
    """The key of the target that `device` is on this machine, such as `cuda:NVIDIA H200:151 GB`.

    None for a GPU that can't be identified, and for `cuda` without a number, which may be any: a job that
    comes to it finds out.
    """
    if device == CPU:
        return probe_cpu().target_key
    if device == CUDA:
        return None
    try:
        return identify(device).target_key
    except NoSuchDevice:
        return None
