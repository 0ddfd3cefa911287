"""What a failure is put down to, in a clause beside its cause. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from experiments.engines.port import Infeasible
from experiments.space.configuration import Configuration

BLAMES = "blames"
"""Where what an experiment ended with, the verdict's `judge` and the detail of a sweep keep what a failure is
put down to (`engines.port.Blames`)."""


def put_down(reason: Infeasible, configuration: Configuration) -> str:
    """The cause of a failure of `configuration`, with the settings that the engine's own words name, as it
    had them; the cause alone where they name none that it has."""
    named = [
        str(Configuration.of({knob: configuration[knob]}))
        + ("" if behind is None else f", which ran as {behind}")
        for knob, behind in reason.blames.items()
        if knob in configuration
    ]
    if not named:
        return reason.cause
    return f"{reason.cause.rstrip('.')}; put down to {', '.join(named)}."


def blames_of(stored: Mapping[str, object]) -> dict[str, str | None]:
    """What stored data put a failure down to; empty where they tell nothing, as those from before it was told
    do."""
    told = stored.get(BLAMES)
    if not isinstance(told, Mapping):
        return {}
    return {str(knob): behind if isinstance(behind, str) else None for knob, behind in told.items()}
