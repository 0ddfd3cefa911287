"""What leads the page of an experiment: its state as a shape and a word, and one sentence. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from configs.quantities import HIGHER_IS_BETTER
from db.states import ExperimentKind, ExperimentState, VerdictOutcome
from knowledge.figures import SHARES, metric_word
from knowledge.queries.measured.experiment_detail import ExperimentDetail
from knowledge.queries.view import EffectView

NARROW = "\u202f"

_STATES = {
    ExperimentState.PLANNED: ("queued", "Planned"),
    ExperimentState.RUNNING: ("testing", "Running"),
    ExperimentState.DONE: ("finding", "Measured"),
    ExperimentState.FAILED: ("infeasible", "Failed"),
    ExperimentState.CANCELLED: ("infeasible", "Cancelled"),
}
"""The symbol and the word of a state without a verdict."""


@dataclass(frozen=True)
class Words:
    """`symbol` and `outcome` go together; `figure` is what the sentence stresses, between `before` and
    `after`."""

    symbol: str
    outcome: str
    before: str
    figure: str = ""
    after: str = "."


def words_of(detail: ExperimentDetail) -> Words:
    """The outcome and the sentence of an experiment."""
    if detail.outcome is None:
        return _without_verdict(detail)
    symbol, word = detail.outcome.value, detail.outcome.value.capitalize()
    if detail.effect is None:
        return Words(symbol, word, first_clause(detail.reason or "Nothing was measured"))
    verb = "may be" if detail.outcome is VerdictOutcome.INCONCLUSIVE else "is"
    if detail.outcome is VerdictOutcome.CONFOUNDED:
        verb = "looks"
    subject, figure = change_words(detail.effect)
    return Words(symbol, word, f"{subject} {verb} ", figure)


def change_words(effect: EffectView) -> tuple[str, str]:
    """A change as a subject and a figure: `TPOT`, `76.0 % lower`; shares in points, throughput as itself."""
    name = metric_word(effect.metric)
    subject = name[0].upper() + name[1:]
    if effect.metric in SHARES:
        points = -100 * effect.relative
        return subject, f"{abs(points):.1f}{NARROW}points {_more(points)}"
    change = 100 * effect.relative
    if effect.metric in HIGHER_IS_BETTER.values() and effect.relative > -1:
        change = 100 * (1 / (1 + effect.relative) - 1)
    return subject, f"{abs(change):.1f}{NARROW}% {_more(change)}"


def _more(change: float) -> str:
    return "higher" if change > 0 else "lower"


def _without_verdict(detail: ExperimentDetail) -> Words:
    symbol, word = _STATES[detail.state]
    if detail.interrupted is not None:
        how_far = f"in the stage {detail.stage}" if detail.stage else "before its first stage"
        return Words("approval", "Interrupted", f"Nobody measures it any more; it was {how_far}")
    if detail.state is ExperimentState.RUNNING:
        progress = detail.progress or {}
        told = (detail.stage, progress.get("text"), progress.get("loading"))
        parts = [str(each) for each in told if each]
        return Words(symbol, word, ": ".join(parts).capitalize() if parts else "Its first stage begins")
    if detail.state is ExperimentState.PLANNED:
        return Words(symbol, word, "It waits for a worker")
    if detail.failure:
        return Words(symbol, word, first_clause(detail.failure))
    if detail.state is ExperimentState.DONE and detail.kind is ExperimentKind.BASELINE:
        return Words(symbol, word, "This is the baseline that the campaign started from")
    if detail.state is ExperimentState.DONE and detail.kind is ExperimentKind.NOISE:
        return Words(symbol, word, "These launches tell how much launches vary")
    return Words(symbol, word, "It ended without a verdict")


def first_clause(text: str) -> str:
    """The first clause of a sentence, without its full stop."""
    return re.split(r"[:;]\s|\.\s|\.$", text.strip(), maxsplit=1)[0]
