"""The sentences of a finding: what its verdicts say of the change, where alone that holds. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.space.configuration import Change, Configuration
from knowledge.change_words import LEVERS_OF_WEIGHTS, change_in_words, shown
from knowledge.figures import better, clause, counted, effect, gain, metric_word
from knowledge.figures import margin as margin_words
from knowledge.findings.pooling import Estimate
from knowledge.findings.verdict_fact import Saying, VerdictFact, said
from knowledge.telling.draws import rests_on_a_draw

_BRIEFLY = {
    Saying.HELPS: "makes it better by {} or more",
    Saying.DOES_NOT_HELP: "does not make it better by {}",
    Saying.BREAKS_QUALITY: "does not hold the quality limit",
    Saying.DOES_NOT_RUN: "does not run",
}
"""What each side says, with its margin."""


def change_in_place(changes: Sequence[Change], control: Configuration) -> str:
    """Return what was changed in words and, of the levers that it touched, what the control held beside it.

    An effect of one knob of a lever is one beside the others: groups of 32 with raw text say nothing of
    groups of 32 with other text. A change that turns a lever on or off brings or drops all its knobs.
    """
    changed = {change.knob for change in changes}
    levers = {knob.partition(".")[0] for knob in changed} & LEVERS_OF_WEIGHTS
    beside = [
        f"{knob} {shown(value)}"
        for knob, value in sorted(control.items())
        if knob not in changed and knob.partition(".")[0] in levers
    ]
    words = change_in_words(changes)
    return words[0].upper() + words[1:] + (f" (beside {', '.join(beside)})" if beside else "")


def agreed_claim(fact: VerdictFact, pooled: Estimate | None, margin: float) -> str:
    """Return the claim of verdicts that agree with `fact`, at the margin they bear out."""
    return f"{_statement(fact, pooled, margin)} {_where(fact)}."


def contradicted_claim(first: VerdictFact, pooled: Estimate | None) -> str:
    """Return the claim where verdicts disagree, `first` one of them: both are stated, and their effect
    together."""
    changed = change_in_place(first.changes, first.scope.control)
    together = f"; pooled {_shown(first, pooled)}" if pooled is not None else ""
    return f"{changed}: verdicts disagree about {metric_word(first.metric)}{together} {_where(first)}."


def side(saying: Saying, verdicts: int, margin: float, metric: str) -> str:
    """Return how many verdicts say one thing of a change: `2 verdicts that it does not run`."""
    return f"{counted(verdicts, 'verdict')} that it {_BRIEFLY[saying].format(margin_words(margin, metric))}"


def _statement(fact: VerdictFact, pooled: Estimate | None, margin: float) -> str:
    what, metric = change_in_place(fact.changes, fact.scope.control), metric_word(fact.metric)
    match said(fact):
        case Saying.HELPS if pooled is not None:
            return f"{what} {better(fact.metric)} {metric} by {_gained(fact, pooled)}"
        case Saying.HELPS:
            return f"{what} {better(fact.metric)} {metric}"
        case Saying.DOES_NOT_HELP:
            measured = f" (measured {_shown(fact, pooled)})" if pooled is not None else ""
            return f"{what} does not make {metric} better by {margin_words(margin, fact.metric)}{measured}"
        case Saying.BREAKS_QUALITY:
            measured = f" ({metric} {_shown(fact, pooled)})" if pooled is not None else ""
            return f"{what} does not hold the quality limit: {clause(fact.cause)}{measured};"
        case Saying.DOES_NOT_RUN:
            return f"{what} does not run: {clause(fact.cause)};"


def _where(fact: VerdictFact) -> str:
    """The scope in words: of an effect that rests on a draw of calibration text, the draw too."""
    candidate = {**fact.scope.control, **{change.knob: change.after for change in fact.changes}}
    drawn = fact.estimate is not None and rests_on_a_draw(fact.metric, fact.scope.control, candidate)
    return fact.scope.sentence() + (", with the calibration samples that were drawn" if drawn else "")


def _gained(fact: VerdictFact, pooled: Estimate) -> str:
    return gain(fact.metric, pooled.effect_log, pooled.low_log, pooled.high_log)


def _shown(fact: VerdictFact, pooled: Estimate) -> str:
    return effect(pooled.effect_log, pooled.low_log, pooled.high_log, fact.metric)
