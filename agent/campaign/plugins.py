"""Judges and proposers by their entry-point names."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import cast

from agent.proposers.port import Proposer
from configs.errors import UsageError
from experiments.measurement.judging import Judge

JUDGES = "autoinfer.judges"
PROPOSERS = "autoinfer.proposers"


@cache
def load_judge(name: str) -> Judge:
    """The judge of this name; raises `UsageError` when none is registered."""
    return cast(Judge, _load(JUDGES, name)())


@cache
def load_proposer(name: str) -> Proposer:
    """The proposer of this name; raises `UsageError` when none is registered."""
    return cast(Proposer, _load(PROPOSERS, name)())


def _load(group: str, name: str) -> type:
    found = entry_points(group=group, name=name)
    if not found:
        known = ", ".join(sorted(each.name for each in entry_points(group=group))) or "none"
        raise UsageError(
            f"{name!r} is not registered under {group}.",
            f"Registered are: {known}. Is its package installed?",
        )
    return cast(type, next(iter(found)).load())
