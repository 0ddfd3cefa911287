"""The questions of `autoinfer graph`: known, why-not, led-to, if-fell, untested."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from cli.console.options import CampaignLabel, Json

if TYPE_CHECKING:
    from rich.text import Text
    from sqlalchemy.orm import Session

    from agent.ground.legal import Legal
    from knowledge.asking.answer import Answer, Row

Label = Annotated[str, typer.Argument(metavar="LABEL", help="H-002, E-0003 or F-001.")]

_INDENT = "   "
_SPACE_BETWEEN = "  "


def known(
    ctx: typer.Context,
    knob: Annotated[str, typer.Argument(metavar="KNOB", help="A knob, such as serving.threads.")],
    on: Annotated[
        str | None,
        typer.Option("--on", metavar="HARDWARE", help="Only on targets with this in their name."),
    ] = None,
    as_json: Json = False,
) -> None:
    """What is known about a knob: findings, values tried and with what, what does not run."""
    from agent.asking.of_the_graph import what_is_known
    from cli.console.opening import reading
    from knowledge.graph.building import build_graph

    with reading(ctx) as session:
        found = what_is_known(session, build_graph(session), knob, on)
    _show(found, as_json)


def why_not(
    ctx: typer.Context,
    subject: Annotated[
        list[str],
        typer.Argument(metavar="SUBJECT...", help="A label, or a knob, or KNOB=VALUE once or more."),
    ],
    campaign: CampaignLabel = None,
    as_json: Json = False,
) -> None:
    """Why something is ruled out: verdicts, failures, bans, confounding, legality."""
    from agent.asking.why_not import what_rules_out
    from cli.console.opening import reading
    from knowledge.graph.building import build_graph

    with reading(ctx) as session:
        found = what_rules_out(session, build_graph(session), subject, campaign, _read_legal)
    _show(found, as_json)


def _read_legal(session: Session, campaign_id: int) -> Legal:
    from agent.campaign.known.stored_ground import read_legal  # what a finding is asked about does without

    return read_legal(session, campaign_id)


def led_to(ctx: typer.Context, label: Label, as_json: Json = False) -> None:
    """What led to a hypothesis, an experiment or a finding."""
    from agent.asking.of_the_graph import what_led_to
    from cli.console.opening import reading
    from knowledge.graph.building import build_graph

    with reading(ctx) as session:
        found = what_led_to(session, build_graph(session), label)
    _show(found, as_json)


def if_fell(ctx: typer.Context, label: Label, as_json: Json = False) -> None:
    """What would change if a finding or a verdict fell."""
    from agent.asking.answers import what_if_fell
    from agent.asking.preview import read_ground
    from cli.console.opening import reading
    from knowledge.graph.building import build_graph

    with reading(ctx) as session:
        found = what_if_fell(session, build_graph(session), label, read_ground)
    _show(found, as_json)


def untested(ctx: typer.Context, campaign: CampaignLabel = None, as_json: Json = False) -> None:
    """What no experiment covered next to the best, with what is believed of it."""
    from agent.asking.answers import what_is_untested
    from agent.asking.preview import read_ground
    from cli.console.opening import reading

    with reading(ctx) as session:
        found = what_is_untested(session, campaign, read_ground)
    _show(found, as_json)


def _show(answer: Answer, as_json: bool) -> None:
    from cli.console.output import console, print_json

    if as_json:
        print_json(answer)
        return
    out = console()
    out.print(answer.asked, style="dim")
    out.print(answer.sentence)
    for each in answer.sections:
        out.print()
        out.print(f"{each.title} ({each.about})" if each.about else each.title, style="bold")
        if not each.rows:
            out.print(f"{_INDENT}{each.none}")
        for row in each.rows:
            _print(row, 1)
        if each.left_out:
            out.print(f"{_INDENT}and {each.left_out} more")


def _print(row: Row, depth: int) -> None:
    from rich.padding import Padding

    from cli.console.output import console

    out = console()
    out.print(Padding(_line(row), (0, 0, 0, len(_INDENT) * depth)))
    for text in filter(None, (row.scope, row.doubt and f"But {row.doubt}.", row.because, row.command)):
        out.print(Padding(text, (0, 0, 0, len(_INDENT) * depth + 2)), style="dim")
    for each in row.rows:
        _print(each, depth + 1)


def _line(row: Row) -> Text:
    from rich.text import Text

    from cli.console.output import state
    from cli.console.words import effect_words
    from knowledge.figures import metric_word
    from knowledge.latency_only import LATENCY_ONLY

    parts: list[str | Text] = []
    if row.relation:
        parts.append(row.relation.replace("_", " "))
    if row.id and not row.text.startswith(row.id):
        kind, _, name = row.id.partition(":")
        parts.append(kind if name and row.text.startswith(name) else row.id)
    if row.state:
        parts.append(state(row.state, latency_only=row.latency_only))
    elif row.latency_only:
        parts.append(LATENCY_ONLY)
    parts.append(row.text)
    if row.effect is not None and not row.tells_effect:
        metric = metric_word(row.effect.metric)
        of = "" if metric in row.text else f"{'expected ' if row.expected else ''}{metric} "
        parts.append(f"{of}{effect_words(row.effect)}")
    return Text(_SPACE_BETWEEN).join(_texts(parts))


def _texts(parts: Sequence[str | Text]) -> list[Text]:
    from rich.text import Text

    return [each if isinstance(each, Text) else Text(each) for each in parts]
