"""`autoinfer queue --what-if`: where the queue would go if one of it were decided."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from agent.asking.assumed import Assumed
    from agent.asking.what_if import Consequence
    from agent.campaign.decision.desk import Desk
    from db.models.base import JsonObject


def show_what_if(
    ctx: typer.Context, asked: str, campaign: str | None, most_shifts: int, as_json: bool
) -> None:
    """Print what would follow from `H-007=supported:-12%`, or from each outcome of `H-007`."""
    from cli.console.briefly import briefly

    ctx.with_resource(briefly())

    from agent.asking.preview import read_ground, read_without_shape
    from agent.asking.what_if import what_if, what_if_unranked
    from agent.ground.stored_checkpoint import CheckpointElsewhere
    from cli.console.opening import reading
    from cli.console.output import print_json, say
    from configs.errors import UsageError
    from db.labels import Noun, format_label
    from db.models import Hypothesis
    from knowledge.queries.lookup import campaign_of, labelled

    name, verdicts = _asked(asked)
    with reading(ctx) as session:
        number = labelled(session, Noun.HYPOTHESIS, name)
        campaign_id = session.get_one(Hypothesis, number).campaign_id
        label, own = format_label(Noun.HYPOTHESIS, number), format_label(Noun.CAMPAIGN, campaign_id)
        if campaign is not None and campaign_of(session, campaign) != campaign_id:
            raise UsageError(f"{label} is a hypothesis of {own}.", "Leave --campaign out.")
        unranked = None
        try:
            desk = read_ground(session, campaign_id).desk
        except CheckpointElsewhere as error:
            unranked, desk = f"{error.message} {error.hint}", read_without_shape(session, campaign_id)
    if desk is None:
        raise UsageError(f"{own} ranks nothing before its baseline is measured.", "See: autoinfer queue")
    if unranked is None:
        found = what_if(desk, number, verdicts, most_shifts)
    else:
        found = what_if_unranked(desk, number, verdicts)
    if not found:
        raise UsageError(
            f"{label} does not wait in the queue of {own}, so nothing can be assumed of it.",
            f"See what became of it: autoinfer show {label}",
        )
    if as_json:
        shown = [_view(each) for each in found]
        print_json(
            {
                "campaign": own,
                "hypothesis": label,
                "latency_only": desk.facts.spec.latency_only,
                "consequences": shown,
                "unranked": unranked,
            }
        )
        return
    if unranked is not None:
        say(f"Where the others would go can't be told here. {unranked}\n")
    for each in found:
        _print(desk, number, each)


def _asked(text: str) -> tuple[str, tuple[Assumed, ...]]:
    from agent.asking.assumed import EACH, parse_assumed

    name, equals, verdict = text.partition("=")
    return name, (parse_assumed(verdict),) if equals else EACH


def _print(desk: Desk, number: int, found: Consequence) -> None:
    from cli.console.output import console as the_console
    from cli.console.output import fields, say
    from cli.console.words import places_words
    from db.labels import Noun, format_label
    from knowledge.latency_only import LATENCY_ONLY

    out = the_console()
    claims = {each.id: each.claim for each in desk.facts.queue}
    only = f", {LATENCY_ONLY}" if desk.facts.spec.latency_only else ""
    out.print(f"If {format_label(Noun.HYPOTHESIS, number)} {found.assumed.words}{only}: {claims[number]}")
    rows = [("  then", "It would be the best so far.")] if found.is_best else []
    following = found.next_up
    if following is not None:
        rows.append(("  next", f"{format_label(Noun.HYPOTHESIS, following)}  {claims[following]}"))
    rows += [
        (
            f"  {format_label(Noun.HYPOTHESIS, each.hypothesis_id)}",
            f"{places_words(each.from_place, each.to_place)}: {each.why}",
        )
        for each in found.shifts
    ]
    if found.moved > len(found.shifts):
        rows.append(("", f"{found.moved - len(found.shifts)} more change their place by less."))
    if found.leave:
        named = ", ".join(format_label(Noun.HYPOTHESIS, each) for each in found.leave)
        rows.append(("  leave", f"{named}: they build on what is the best now."))
    if not found.ranked and not found.leave and not found.is_best:
        rows.append(("", "It would not be the best, and nothing would leave the queue."))
    if found.ranked and not found.moved and not found.leave:
        rows.append(("", "None of the others would change its place against the rest."))
    out.print(fields([(name, text) for name, text in rows]))
    say("")


def _view(found: Consequence) -> JsonObject:
    from db.labels import Noun, format_label

    return {
        "outcome": found.outcome.value,
        "change": found.assumed.change,
        "is_best": found.is_best,
        "next": None if found.next_up is None else format_label(Noun.HYPOTHESIS, found.next_up),
        "moved": found.moved if found.ranked else None,
        "moves": [
            {
                "hypothesis": format_label(Noun.HYPOTHESIS, each.hypothesis_id),
                "from": each.from_place,
                "to": each.to_place,
                "why": each.why,
            }
            for each in found.shifts
        ],
        "leave": [format_label(Noun.HYPOTHESIS, each) for each in found.leave],
    }
