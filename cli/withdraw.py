"""`autoinfer withdraw`, and what it shares with `autoinfer finding withdraw`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from cli.console.options import Json

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from db.labels import Noun

Why = Annotated[str | None, typer.Option("--why", metavar="TEXT", help="The reason, kept with it.")]


def withdraw(
    ctx: typer.Context,
    hypothesis: Annotated[str, typer.Argument(metavar="H-ID", help="The hypothesis, such as H-021.")],
    why: Why = None,
    as_json: Json = False,
) -> None:
    """Take a hypothesis that waits out of the queue for good."""
    from db.labels import Noun
    from knowledge.acts.steering import USER
    from knowledge.acts.steering import withdraw as take_out

    def take(session: Session, number: int) -> dict[str, str | None]:
        found = take_out(session, number, why)
        return {"state": found.state.value, "by": USER, "reason": why}

    take_back(ctx, Noun.HYPOTHESIS, hypothesis, take, why, as_json=as_json)


def take_back(
    ctx: typer.Context,
    noun: Noun,
    text: str,
    take: Callable[[Session, int], dict[str, str | None]],
    why: str | None,
    *,
    as_json: bool,
) -> None:
    """Take back what the label `text` names, by `take`, which gives what it became."""
    from cli.console.opening import writing
    from cli.console.output import print_json, say
    from configs.reasons import reason_given
    from db.labels import format_label
    from knowledge.queries.lookup import labelled

    with writing(ctx) as session:
        number = labelled(session, noun, text)
        told = take(session, number)
        label = format_label(noun, number)
    if as_json:
        print_json({noun.word: label, **told})
        return
    say(f"{label} is withdrawn." if why is None else f"{label} is withdrawn: {reason_given(why)}.")
