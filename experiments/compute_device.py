"""The device of a name, for what trains and measures in this process."""

from __future__ import annotations

import torch

from configs.errors import UsageError


def compute_device(name: str | None) -> torch.device:
    """Return the device of this name, or without one a GPU if there is one, else the CPU.

    Raises:
        UsageError: there is no such device here.
    """
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):
        raise UsageError(
            f"There is no device {name!r} here.", "Give cpu, or cuda where there is a GPU."
        ) from None
    return device
