"""`autoinfer model`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli.console.options import CampaignLabel, Json

if TYPE_CHECKING:
    from knowledge.queries.claims.model_answers import AnswerRow, AnswerView

MOST_LISTED = 50
"""Answers that are listed if no other number is given."""


def model(
    ctx: typer.Context,
    answer: Annotated[
        int | None,
        typer.Argument(metavar="[ANSWER]", help="The number of an answer: all of it.", show_default=False),
    ] = None,
    campaign: CampaignLabel = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="Answers listed.")] = MOST_LISTED,
    as_json: Json = False,
) -> None:
    """What a language model was asked, what it answered, what was refused, and what that cost.

    Lists a campaign's answers, or shows one with what was asked and answered, word for word.
    """
    from cli.console.opening import reading
    from cli.console.output import print_json
    from configs.errors import UsageError
    from db.labels import Noun, format_label
    from knowledge.queries.claims.model_answers import asked_of_model, model_answer, model_answers
    from knowledge.queries.lookup import campaign_of

    with reading(ctx) as session:
        if answer is not None:
            found = model_answer(session, answer) if 0 < answer < 2**31 else None
            if found is None:
                raise UsageError(
                    f"There is no answer {answer} of a language model.", "List them with: autoinfer model"
                )
            print_json(found) if as_json else _print_answer(found)
            return
        campaign_id = campaign_of(session, campaign)
        asked = asked_of_model(session, campaign_id)
        rows = model_answers(session, campaign_id, limit)
    label = format_label(Noun.CAMPAIGN, campaign_id)
    if as_json:
        answers = [each.model_dump(mode="json") for each in rows]
        whole = None if asked is None else asked.model_dump(mode="json")
        print_json({"campaign": label, "asked": whole, "answers": answers})
        return
    _print_rows(label, None if asked is None else asked.words, rows)


def _print_rows(label: str, words: str | None, rows: tuple[AnswerRow, ...]) -> None:
    from cli.console.output import console, table, when

    out = console()
    if words is None:
        out.print(f"No language model was asked in {label}. How one is: docs/language-model.md")
        return
    out.print(f"{label}: {words}")
    out.print()
    lines = [
        (
            str(each.id),
            when(each.at),
            ", ".join(each.hypotheses) or "none",
            str(len(each.refused)),
            _tokens(each),
            ("—" if each.usd is None else f"{each.usd:.4f}")
            + (f" (≤ {each.untold_usd:.4f} more)" if each.untold_usd else ""),
            f"{each.wall_s:.1f}",
            each.failure or "; ".join(f"{no.what}: {no.reason}" for no in each.refused) or "—",
        )
        for each in rows
    ]
    columns = (">answer", "at", "hypotheses", ">refused", ">tokens", ">USD", ">s", "why not")
    out.print(table(columns, lines, wide=("why not",)))


def _tokens(row: AnswerRow) -> str:
    here = "?" if row.untold_tokens is not None else f"~{row.counted_tokens}"
    asked = here if row.prompt_tokens is None else str(row.prompt_tokens)
    told = f"{asked} + {'?' if row.answer_tokens is None else row.answer_tokens}"
    return told + (f" (≤ {row.untold_tokens} more)" if row.untold_tokens else "")


def _cost(found: AnswerView) -> str:
    if found.usd is None:
        return "not known"
    more = f", at most {found.untold_usd:.4f} USD more that was not told" if found.untold_usd else ""
    return f"{found.usd:.4f} USD{more}"


def _print_answer(found: AnswerView) -> None:
    from cli.console.output import console, fields, when
    from configs.quantities import format_duration
    from knowledge.figures import counted

    out = console()
    out.print(
        fields(
            [
                ("answer", f"{found.id} in {found.campaign}, {when(found.at)}"),
                ("model", f"{found.model} at {found.base_url}"),
                ("tokens", f"{_tokens(found)}; the prompt counts as {found.counted_tokens} here"),
                ("cost", _cost(found)),
                (
                    "took",
                    f"{format_duration(found.wall_s)}, {counted(found.attempts, 'request')}, "
                    f"form {found.form}",
                ),
                ("failure", found.failure),
                ("hypotheses", ", ".join(found.hypotheses) or None),
                *((f"refused {at}", f"{no.what}: {no.reason}") for at, no in enumerate(found.refused, 1)),
            ]
        )
    )
    out.print()
    out.print("asked:")
    out.print(found.prompt, soft_wrap=True)
    out.print()
    out.print("answered:")
    out.print(found.answer or "nothing", soft_wrap=True)
