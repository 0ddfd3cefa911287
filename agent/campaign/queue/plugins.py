"""Proposers by their entry-point names, each made once."""

from __future__ import annotations

from functools import cache
from typing import cast

from agent.proposers.port import Proposer
from configs.registry import Port, registered


@cache
def load_proposer(name: str) -> Proposer:
    """The proposer of this name; raises `UsageError` when none is registered."""
    return cast(Proposer, registered(Port.PROPOSER, name)())
