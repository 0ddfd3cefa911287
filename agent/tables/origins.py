"""Which lines of a journal were measured together: in one run, or on one GPU. Pure.

A run is what lies between one `begin` and the next. A journal is gone on with on other machines, which may
differ, so what lies between launches of two runs may be the machine's. Journals of before
30 November 2026 tell no GPU: of those only the run is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from agent.tables.journal import Line


@dataclass(frozen=True)
class Origin:
    """Where a line comes from: its run by its place in the journal, from 1 on (0 before the first `begin`),
    and the UUID of its GPU, None where that is not told."""

    run: int
    uuid: str | None

    def is_with(self, other: Origin) -> bool:
        """Whether both were measured in one run or on one GPU."""
        return self.run == other.run or (self.uuid is not None and self.uuid == other.uuid)


def with_origins(lines: Iterable[Line]) -> list[tuple[Origin, Line]]:
    """Each line with where it comes from, in the order of the journal."""
    found: list[tuple[Origin, Line]] = []
    run = 0
    for line in lines:
        run += line["kind"] == "begin"
        found.append((Origin(run, line["identity"].get("uuid")), line))
    return found
