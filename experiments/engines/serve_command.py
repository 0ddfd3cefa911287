"""How an engine is started for use rather than for measuring, by the order that it measures with. Pure.

An engine may have `serve_command(configuration, checkpoint, device, resolved)`, which gives a `ServeCommand`
and raises `Infeasible` as its launch would; one without can be measured and not deployed.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

from experiments.space.configuration import Configuration


@dataclass(frozen=True)
class ServeCommand:
    """A command word by word, and a line that is written to it before its input, if any; `note` says what it
    is.

    `environment` are variables that it is run with.
    """

    words: tuple[str, ...]
    note: str
    first_line: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def shell(self) -> str:
        """The same for a shell."""
        return self.shell_with({})

    def shell_with(self, variables: Mapping[str, str]) -> str:
        """The same for a shell that takes some words, the keys, from variables of these names."""
        told = [f"{name}={shlex.quote(value)}" for name, value in sorted(self.environment.items())]
        words = (f'"${variables[each]}"' if each in variables else shlex.quote(each) for each in self.words)
        command = " ".join([*told, *words])
        return (
            command
            if self.first_line is None
            else f"{{ printf '%s\\n' {shlex.quote(self.first_line)}; cat; }} | {command}"
        )


NOTHING_RAN: Mapping[str, Any] = MappingProxyType({})
"""In place of what a launch resolved, where none ran."""


@runtime_checkable
class Servable(Protocol):
    """An engine that can say how it is started for use."""

    def serve_command(
        self,
        configuration: Configuration,
        checkpoint: Path,
        device: str,
        resolved: Mapping[str, Any] = NOTHING_RAN,
    ) -> ServeCommand:
        """The command that serves the configuration; raises `Infeasible` as `launch`. `resolved` is what a
        launch of it said that it ran: what the engine chooses by the card is told as it was there."""
        ...
