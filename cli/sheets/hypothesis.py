"""The sheet of a hypothesis: the claim, the prediction, its place and moves, its tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.console.output import console, fields, state, table, when
from cli.console.words import change_words, configuration_words, effect_words, predictions_words
from cli.sheets.elsewhere import experiments_elsewhere
from configs.authors import author_words
from configs.quantities import format_duration
from knowledge.figures import margin, metric_word

if TYPE_CHECKING:
    from knowledge.queries.claims.hypothesis_detail import HypothesisDetail


def print_hypothesis(detail: HypothesisDetail) -> None:
    """Print everything about a hypothesis."""
    out = console()
    standing = state(detail.standing, latency_only=detail.latency_only)
    out.print(detail.id, standing, f"in {detail.campaign}", sep="  ")
    out.print(detail.claim)
    out.print()
    metric = metric_word(detail.metric)
    predicted = predictions_words(detail.predictions)
    measured = (
        None
        if detail.measured is None
        else f"{metric} {effect_words(detail.measured)} in {detail.experiment}"
    )
    who = author_words(detail.proposer)
    rank = None if detail.rank is None else f"{detail.rank}{' (pinned)' if detail.pinned else ''}"
    out.print(
        fields(
            [
                ("change", change_words(detail.change)),
                ("control", configuration_words(detail.control)),
                ("because", detail.rationale),
                ("predicted", None if predicted is None else f"{metric} {predicted}"),
                ("measured", measured),
                ("worth having", f"from {margin(detail.min_effect, detail.metric)} on"),
                ("refuted if", detail.refuted_if),
                ("test", None if detail.ended is None else detail.ended.clause),
                ("verdict", detail.verdict_reason or detail.state_reason),
                ("rank", rank),
                ("why there", detail.rank_reason if detail.rank is not None else None),
                ("approval", _approval(detail)),
                ("proposed by", f"{who}, {when(detail.created_at)}; here {detail.proposer_hits}"),
                ("of an answer", _answer(detail)),
                ("builds on", ", ".join(detail.builds_on) or None),
                ("follows from", ", ".join(detail.parents)),
                ("led to", ", ".join(detail.children)),
                ("sealed as", detail.preregistration_digest),
            ]
        )
    )
    if detail.experiments:
        out.print()
        rows = [
            (
                each.id,
                each.kind.value,
                state(each.standing),
                "—" if each.wall_s is None else format_duration(each.wall_s),
            )
            for each in detail.experiments
        ]
        out.print(table(("experiment", "kind", "state", ">took"), rows))
    if detail.elsewhere:
        out.print()
        out.print(experiments_elsewhere(detail.elsewhere))
    if detail.moves:
        out.print()
        moves = [
            (_rank(each.from_rank), _rank(each.to_rank), str(each.event_id), each.reason)
            for each in detail.moves
        ]
        out.print(
            table((">from", ">to", ">event", "reason of the move"), moves, wide=("reason of the move",))
        )


def _answer(detail: HypothesisDetail) -> str | None:
    """The language model's answer that it is of, and how to read it."""
    found = detail.answer
    return None if found is None else f"{found.model}, {when(found.at)}; autoinfer model {found.id}"


def _approval(detail: HypothesisDetail) -> str | None:
    """Whether it waits for the user, and its quote."""
    found = detail.approval
    if found is None:
        return None
    if found.waits:
        return f"waits for yours: {found.words}; autoinfer approve {detail.id}"
    return f"given (event {found.event_id}): {found.words}"


def _rank(rank: int | None) -> str:
    return "—" if rank is None else str(rank)
