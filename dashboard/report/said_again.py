"""What fresh processes said again: the newest verification, and every test that was run once more."""

from __future__ import annotations

from dashboard.rendering.figures import NARROW
from dashboard.report import words
from dashboard.report.document import Block, Paragraph, Row, table
from knowledge.queries.found.verification import Standing, VerifiedRow
from knowledge.report.view import AgainView, ReportView


def verified(view: ReportView) -> list[Block]:
    """Each supported verdict with what a fresh run says of it; nothing where nothing is supported."""
    found = view.verification
    if not found.verdicts:
        return []
    if found.begun_event is None:
        return [Paragraph(f"{found.sentence}; `autoinfer verify {found.campaign}` does.")]
    return [
        Paragraph(f"{found.sentence}. A verdict {found.rule}."),
        table(
            "Supported verdicts and what a fresh run says of each, under the same sealed plan. The "
            f"difference is reproduced less claimed, with its 95{NARROW}% interval.",
            ("Verdict", "Hypothesis", ">Claimed", "Fresh run", ">Reproduced", ">Difference", "Says", "Note"),
            [_verified(each, view.metric) for each in found.verdicts],
        ),
    ]


def _verified(each: VerifiedRow, own: str) -> Row:
    fresh = each.fresh
    why = [] if each.standing is Standing.AGREES else [each.why]
    why += [f"built anew: {', '.join(fresh.built)}"] if fresh is not None and fresh.built else []
    why += ["the best rests on it"] if each.recommended else []
    return Row(
        (
            each.experiment,
            each.hypothesis or words.NONE,
            words.effect(each.claimed, own),
            words.NONE if fresh is None else fresh.experiment,
            words.effect(None if fresh is None else fresh.effect, own),
            words.effect(None if fresh is None else fresh.difference, own),
            each.standing.value,
            "; ".join(why) or words.NONE,
        )
    )


def again(view: ReportView) -> Block:
    """The reproductions, confirmations and checks."""
    if not view.again:
        return Paragraph(
            "No test was run once more beyond the fresh pairs that every supported one was validated by."
        )
    return table(
        "Tests run once more: in fresh processes, or on another target. The check of a recipe holds the "
        "whole of it against the baseline.",
        ("Run", "Kind", "Of", "Target", "Outcome", ">Effect"),
        [_again(each, view.metric) for each in view.again],
    )


def _again(each: AgainView, own: str) -> Row:
    return Row(
        (
            each.experiment,
            "check" if each.is_check else each.kind.value,
            each.of,
            each.target,
            words.outcome(each.outcome, each.state),
            words.effect(each.effect, own),
        ),
        anchor=each.experiment,
        mark=each.outcome.value if each.outcome else None,
    )
