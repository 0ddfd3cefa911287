"""What other targets said, as a table of a sheet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.console.output import state, table
from cli.console.words import effect_words
from knowledge.machines import machine, machines_named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType as Shown

    from knowledge.queries.found.ties import FindingTieView, TieView


def experiments_elsewhere(ties: Sequence[TieView]) -> Shown:
    """A row for each experiment on another target."""
    rows = [
        (
            each.other,
            machine(each.target),
            state((each.outcome or each.state).value),
            relation_words(each),
            effect_words(each.effect),
        )
        for each in ties
    ]
    return table(("elsewhere", "target", "verdict", "relation", "effect"), rows, wide=("target",))


def relation_words(tie: TieView) -> str:
    """What the second of both says of the first, from the side of one of them."""
    if tie.reason is None:
        return "no verdict yet"
    said = "leaves open" if tie.relation is None else tie.relation.value
    return f"this {said} {tie.other}" if tie.is_second else f"{said} this"


def findings_elsewhere(ties: Sequence[FindingTieView]) -> Shown:
    """A row for each finding of another target."""
    rows = [
        (each.id, machine(each.target), each.relation.value, machines_named(each.reason)) for each in ties
    ]
    return table(("elsewhere", "target", "relation", "because"), rows, wide=("because",))
