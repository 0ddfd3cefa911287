"""`autoinfer approve`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli.console.options import Json

if TYPE_CHECKING:
    from sqlalchemy.orm import Session


def approve(
    ctx: typer.Context,
    hypotheses: Annotated[
        list[str], typer.Argument(metavar="H-ID|J-ID...", help="Hypotheses and jobs, such as H-021 J-7.")
    ],
    up_to: Annotated[
        str | None,
        typer.Option(
            "--up-to",
            metavar="TIME",
            help="Only for as long as it is expected to take no more; what its quote says if not given.",
        ),
    ] = None,
    up_to_usd: Annotated[
        str | None,
        typer.Option(
            "--up-to-usd",
            metavar="USD",
            help="Only for as long as its price is no more at most; what its quote says if not given.",
        ),
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Take the approval back again.")] = False,
    as_json: Json = False,
) -> None:
    """Let what waits for your approval be tested when its turn comes: all that are named, or none.

    A job, or a hypothesis whose job, waits for its price is approved up to that price.
    """
    from cli.console.opening import writing
    from cli.console.output import print_json, say
    from configs.errors import UsageError
    from configs.quantities import format_usd, parse_duration_s, parse_usd
    from db.labels import Noun, format_label
    from db.money import usd
    from knowledge.acts import approving, job_approvals
    from knowledge.acts.approvals import approval_of
    from knowledge.acts.directives import hypothesis_label
    from knowledge.queries.lookup import labelled

    for option, value in (("--up-to", up_to), ("--up-to-usd", up_to_usd)):
        if clear and value is not None:
            raise UsageError(f"An approval is taken back whole, so {option} has no meaning beside --clear.")
    up_to_s = None if up_to is None else parse_duration_s(up_to)
    most_usd = None if up_to_usd is None else parse_usd(up_to_usd)
    done, prices = [], []
    with writing(ctx) as session:
        for given in hypotheses:
            job_id = _job_of(session, given)
            if job_id is not None:
                quote = (
                    job_approvals.unapprove_price(session, job_id)
                    if clear
                    else job_approvals.approve_price(session, job_id, most_usd)
                )
                prices.append((format_label(Noun.JOB, job_id), quote))
                continue
            number = labelled(session, Noun.HYPOTHESIS, given)
            found = (
                approving.unapprove(session, number) if clear else approving.approve(session, number, up_to_s)
            )
            done.append((hypothesis_label(found), found.claim, approval_of(found)))
    if as_json:
        rows = [
            {"hypothesis": label, "approved": not clear, "quote": view and view.model_dump(mode="json")}
            for label, _, view in done
        ]
        jobs = [
            {"job": label, "approved": not clear, "bound_usd": usd(quote.bound_microusd)}
            for label, quote in prices
        ]
        print_json({"hypotheses": rows, "jobs": jobs})
        return
    for label, price in prices:
        said = "is no longer approved and waits" if clear else "may be submitted when its turn comes"
        say(f"{label} {said} (quoted {format_usd(usd(price.bound_microusd))} at most, {price.basis}).")
    for label, claim, view in done:
        waits = " and waits" if view is not None else ""
        words = "" if view is None else f" ({view.words})"
        what = f"is no longer approved{waits}" if clear else "may be tested when its turn comes"
        say(f"{label} {what}{words}: {claim}")


def _job_of(session: Session, given: str) -> int | None:
    """The job that is meant, itself or by its hypothesis; None where the hypothesis itself waits."""
    from db.labels import Noun, parse_label_of
    from knowledge.acts.job_approvals import job_that_asks
    from knowledge.queries.lookup import labelled

    if given[:2].upper() == f"{Noun.JOB.letter}-":
        return parse_label_of(Noun.JOB, given)
    return job_that_asks(session, labelled(session, Noun.HYPOTHESIS, given))
