"""What packages register under an entry point: engines, executors, judges, planners, proposers."""

from __future__ import annotations

import sys
from enum import StrEnum
from functools import lru_cache
from importlib.metadata import EntryPoints, entry_points
from typing import Any

from configs.errors import UsageError


class Port(StrEnum):
    """The entry-point groups; a member's name is its noun."""

    ENGINE = "autoinfer.engines"
    EXECUTOR = "autoinfer.executors"
    JUDGE = "autoinfer.judges"
    PLANNER = "autoinfer.planners"
    PROPOSER = "autoinfer.proposers"


def names(port: Port) -> list[str]:
    """What is registered for a port, by name; loads nothing."""
    return sorted(_entry_points(port, tuple(sys.path)).names)


def check_registered(port: Port, name: str) -> None:
    """Raise `UsageError` with the names that are when nothing is registered under `name`; loads nothing."""
    known = names(port)
    if name not in known:
        told = ", ".join(known) or "none"
        raise UsageError(
            f"There is no {port.name.lower()} {name!r}.", f"Registered are: {told}. Is its package installed?"
        )


def registered(port: Port, name: str) -> Any:
    """Load what is registered under `name`, a class; the caller knows the port it fulfils.

    Raises `UsageError` when nothing is, or when it needs a package that is not installed.
    """
    check_registered(port, name)
    noun = port.name.lower()
    try:
        return _loaded(port, tuple(sys.path), name)
    except (Exception, SystemExit) as error:  # a package of others may do anything when it is imported
        missing = isinstance(error, ImportError) and port == Port.ENGINE
        why = f"it ends the process (exit code {error})" if isinstance(error, SystemExit) else error
        raise UsageError(
            f"The {noun} {name!r} can't be loaded: {why}.",
            "Install what it needs: pip install 'autoinfer[reference]'"
            if missing
            else "Install what its package needs, or mend it.",
        ) from error


@lru_cache
def _loaded(port: Port, path: tuple[str, ...], name: str) -> Any:
    """What is registered under `name`; a failure is not kept, for what lacks may be installed meanwhile."""
    return _entry_points(port, path)[name].load()


@lru_cache
def _entry_points(port: Port, path: tuple[str, ...]) -> EntryPoints:
    """What is registered for `port` in the folders of `path`."""
    return _of_every_port(path).select(group=port.value)


@lru_cache
def _of_every_port(path: tuple[str, ...]) -> EntryPoints:
    """What is registered for any port, read once for all: it opens every installed package."""
    found = entry_points()
    return EntryPoints(each for port in Port for each in found.select(group=port.value))
