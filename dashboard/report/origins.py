"""Where a campaign's hypotheses came from: who proposed and how often that was right, what a language model
was asked, what other campaigns had found."""

from __future__ import annotations

from configs.authors import author_words
from dashboard.rendering.figures import NARROW, percent, whole
from dashboard.report import words
from dashboard.report.document import Block, Paragraph, Row, table
from knowledge.figures import counted, listed
from knowledge.queries.claims.proposers import ProposerView
from knowledge.queries.order.carried import CarriedView
from knowledge.report.view import ReportView

MOST_NAMED = 10
"""Findings that are named of those that were carried over; the JSON form has them all."""


def origins(view: ReportView) -> list[Block]:
    """All of it; what there is none of is left out, but for that nobody proposed anything."""
    blocks: list[Block] = [Paragraph(_proposed(view))]
    if view.carried is not None:
        blocks.append(Paragraph(_carried(view.carried)))
    if view.proposers:
        blocks.append(
            table(
                "Who proposed, and what became of it. The share of the judged that was supported has its "
                f"exact 95{NARROW}% interval. Of the tests that measured what was predicted, means are of "
                "the effects in percent where these are of one metric, and inside are all within their "
                f"80{NARROW}% prediction.",
                (
                    "Proposed by",
                    ">Proposed",
                    ">Judged",
                    ">Supported",
                    ">Share",
                    ">Predicted, mean",
                    ">Measured, mean",
                    ">Inside",
                ),
                [_proposer(each) for each in view.proposers],
            )
        )
    if view.asked is not None:
        blocks.append(Paragraph(f"The language model was put {view.asked.words}"))
    return blocks


def _proposed(view: ReportView) -> str:
    found = view.search.proposed
    if not found:
        return "Nobody proposed a hypothesis."
    who = listed([f"{count} by {_who(name)}" for name, count in found.items()])
    out = f"; {view.search.withdrawn} were withdrawn without a test" if view.search.withdrawn else ""
    return f"{counted(sum(found.values()), 'hypothesis was', 'hypotheses were')} proposed: {who}{out}."


def _carried(found: CarriedView) -> str:
    named, more = list(found.findings[:MOST_NAMED]), len(found.findings) - MOST_NAMED
    named += [f"{more} more"] if more > 0 else []
    about = f" They bear on {listed(named)}." if named else ""
    return f"Carried over: {found.sentence}{about}"


def _proposer(each: ProposerView) -> Row:
    predicted, measured = each.predicted_mean, each.measured_mean
    return Row(
        (
            _who(each.name),
            whole(each.proposed),
            whole(each.judged),
            whole(each.supported) if each.judged else words.NONE,
            _share(each),
            words.NONE if predicted is None else percent(predicted),
            words.NONE if measured is None else percent(measured),
            f"{whole(each.inside)} of {whole(each.measured)}" if each.measured else words.NONE,
        )
    )


def _share(each: ProposerView) -> str:
    if each.rate is None or each.low is None or each.high is None:
        return words.NONE
    return f"{100 * each.rate:.0f}{NARROW}% [{100 * each.low:.0f}, {100 * each.high:.0f}]"


def _who(proposer: str) -> str:
    return "the user" if proposer == "user" else author_words(proposer)
