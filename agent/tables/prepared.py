"""What a journal tells of the loads that are prepared: builds, quality, drafting, compiled code. Pure.

| kind of line | tells |
|---|---|
| `build` | an artifact that a checkpoint came from, and what it took |
| `quality` | the scores of a checkpoint in a type |
| `drafting` | what drafting did to the text, and how many tokens a step gave |
| `compile` | what the first launch of a compiled step took |
| `ready` | that a load can be measured, and which of the others are its own |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agent.tables.journal import Line

BUILD, QUALITY, DRAFTING, COMPILE, READY = "build", "quality", "drafting", "compile", "ready"


class Prepared:
    """The lines of a journal by what they tell; what was told first stands."""

    def __init__(self, lines: Iterable[Line]) -> None:
        """`lines` are of one kind of device and one version of the engine."""
        self.builds: dict[str, Line] = {}
        self.quality: dict[str, Line] = {}
        self.drafting: dict[str, Line] = {}
        self.compiled: dict[str, Line] = {}
        self.ready: dict[str, Line] = {}
        self._kinds: Mapping[str, tuple[dict[str, Line], str]] = {
            BUILD: (self.builds, "artifact"),
            QUALITY: (self.quality, "key"),
            DRAFTING: (self.drafting, "key"),
            COMPILE: (self.compiled, "key"),
            READY: (self.ready, "load"),
        }
        for line in lines:
            self.add(line)

    def add(self, line: Mapping[str, Any]) -> None:
        """Count one more line."""
        if (found := self._kinds.get(line["kind"])) is not None:
            by_name, name = found
            by_name.setdefault(line[name], dict(line))
