"""What packages register under an entry point: engines, executors, judges, proposers."""

from __future__ import annotations

from enum import StrEnum
from importlib.metadata import entry_points
from typing import Any

from configs.errors import UsageError


class Port(StrEnum):
    """The entry-point groups; a member's name is its noun."""

    ENGINE = "autoinfer.engines"
    EXECUTOR = "autoinfer.executors"
    JUDGE = "autoinfer.judges"
    PROPOSER = "autoinfer.proposers"


def registered(port: Port, name: str) -> Any:
    """Load what is registered under `name`, a class; the caller knows the port it fulfils.

    Raises `UsageError` when nothing is, or when it needs a package that is not installed.
    """
    noun = port.name.lower()
    found = entry_points(group=port.value)
    if name not in found.names:
        known = ", ".join(sorted(found.names)) or "none"
        raise UsageError(
            f"There is no {noun} {name!r}.", f"Registered are: {known}. Is its package installed?"
        )
    try:
        return found[name].load()
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"The {noun} {name!r} can't be loaded: {error}.",
            "Install what it needs: pip install 'autoinfer[reference]'",
        ) from error
