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


def check_registered(port: Port, name: str) -> None:
    """Raise `UsageError` with the names that are when nothing is registered under `name`; loads nothing."""
    known = entry_points(group=port.value).names
    if name not in known:
        told = ", ".join(sorted(known)) or "none"
        raise UsageError(
            f"There is no {port.name.lower()} {name!r}.", f"Registered are: {told}. Is its package installed?"
        )


def registered(port: Port, name: str) -> Any:
    """Load what is registered under `name`, a class; the caller knows the port it fulfils.

    Raises `UsageError` when nothing is, or when it needs a package that is not installed.
    """
    check_registered(port, name)
    noun = port.name.lower()
    found = entry_points(group=port.value)
    try:
        return found[name].load()
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"The {noun} {name!r} can't be loaded: {error}.",
            "Install what it needs: pip install 'autoinfer[reference]'",
        ) from error
