"""By which way the requests of a workload reach the engine that is measured. Pure.

`http`: a client process of its own asks the engine's own HTTP server, as users of it do, and takes the times.
`engine`: they are handed to the engine in its own process, and times are taken there. The two give figures
that can't be compared: what a server and its client add is in the first alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

ASKED_OVER = "asked_over"
"""The name of the setting, in a workload and wherever one is told."""

AskedOver: TypeAlias = Literal["http", "engine"]
"""Values of the setting."""

HTTP: AskedOver = "http"
IN_ENGINE: AskedOver = "engine"
"""What is also meant wherever a record does not say: there was nothing else before."""

ASKED_OVER_FOR: Mapping[str, AskedOver] = {"vllm": HTTP}
"""How an engine is asked where nobody says; one that is not here, in its own process."""


def asked_over_for(engine: str) -> AskedOver:
    """How the engine of this name is asked where nobody says."""
    return ASKED_OVER_FOR.get(engine, IN_ENGINE)


def asked_over_words(way: object) -> str:
    """The way in words, for whoever reads a measurement; of a record that does not say, that of old ones."""
    return "over the engine's HTTP server" if way == HTTP else "in the engine's process"
