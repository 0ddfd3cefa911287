"""What verdicts say in a summary: supported, ruled out, confounded, still open, and surprising. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from db.states import VerdictOutcome
from knowledge.figures import changed, clause, counted, effect, listed, metric_word, signed, unit_of
from knowledge.queries.claims.calibration import CalibrationView, score_interval
from knowledge.queries.claims.discovery import DiscoveryView, discovery_sentence, outside_sentence
from knowledge.queries.found.fresh_runs import FreshView
from knowledge.telling.facts import JudgedFact
from knowledge.telling.summary_part import PartView, named


def supported(
    found: Sequence[JudgedFact],
    discovery: DiscoveryView | None,
    most: int,
    differs: Mapping[str, FreshView] | None = None,
    in_doubt: Mapping[str, Sequence[str]] | None = None,
) -> PartView:
    """Return what was supported, the largest effect first, and how many of these may be false; `differs` are
    the tests whose newest fresh run differs, with what it says, and `in_doubt` those whose finding is not
    believed as it was, with a clause for each finding; of both the fresh run is told."""
    title = "Supported"
    if not found:
        return PartView(title=title, sentence="Nothing is supported yet.")
    best_first = sorted(
        found,
        key=lambda fact: (
            not fact.metric.endswith("_ms"),  # time first: effects on other metrics don't compare with it
            fact.metric,
            fact.effect_log if fact.effect_log is not None else 0.0,
            fact.id,
        ),
    )
    fresh = {} if differs is None else {test: each.experiment for test, each in differs.items()}
    told = {test: f"; {label}, a fresh run, differs" for test, label in fresh.items()}
    shaken = {} if in_doubt is None else {test: why for test, why in in_doubt.items() if test not in fresh}
    told |= {test: f"; {listed(list(why))}" for test, why in shaken.items()}
    lines = [
        f"{fact.id}  {clause(fact.claim)}: {metric_word(fact.metric)} "
        f"{effect(fact.effect_log, fact.low_log, fact.high_log, fact.metric)} "
        f"({fact.experiment}{told.get(fact.experiment, '')})"
        for fact in best_first
    ]
    said = [f"{counted(len(found), 'hypothesis is', 'hypotheses are')} supported"]
    if count := sum(fact.experiment in fresh for fact in found):
        said.append(f"a fresh run differs on {count} of them")
    if count := sum(fact.experiment in shaken for fact in found):
        said.append(f"{count} of them {'is' if count == 1 else 'are'} in doubt")
    if discovery is not None:
        said += [each for each in (discovery_sentence(discovery), outside_sentence(discovery)) if each]
    return PartView(title=title, sentence=f"{'; '.join(said)}.", lines=named(lines, most))


def ruled_out(by_outcome: Mapping[VerdictOutcome, Sequence[JudgedFact]], most: int) -> PartView:
    """Return what was refuted or infeasible, and why."""
    title = "Ruled out"
    kinds = (VerdictOutcome.REFUTED, VerdictOutcome.INFEASIBLE)
    counts = [f"{len(by_outcome[kind])} {kind.value}" for kind in kinds if by_outcome[kind]]
    if not counts:
        return PartView(title=title, sentence="Nothing is ruled out yet.")
    lines = [
        f"{fact.id}  {clause(fact.claim)}: {clause(fact.reason)}"
        for kind in kinds
        for fact in by_outcome[kind]
    ]
    return PartView(title=title, sentence=f"{listed(counts)}.", lines=named(lines, most))


def confounded(found: Sequence[JudgedFact], most: int, made_anew: Sequence[str] = ()) -> PartView:
    """Return the tests that say nothing about their claim, and what separates the causes; `made_anew` are the
    hypotheses that make the claims of those anew that would have been confounded too."""
    title = "Confounded"
    lines = [
        f"{fact.id}  {clause(fact.claim)}: {clause(fact.reason)}"
        + (f"; {listed(list(fact.follow_ups))} {_separate(fact)} the causes" if fact.follow_ups else "")
        for fact in found
    ]
    sentence = "No test was confounded."
    if found:
        tests = counted(len(found), "test is", "tests are")
        sentence = f"{tests} confounded, which says nothing about the claim."
    if made_anew:
        was, asks = ("was", "asks") if len(made_anew) == 1 else ("were", "ask")
        sentence += (
            f" {len(made_anew)} {'more ' if found else ''}would have been and {was} not tested as asked: "
            f"{listed(list(made_anew))} {asks} it with what differed alike in both arms."
        )
    return PartView(title=title, sentence=sentence, lines=named(lines, most))


def _separate(fact: JudgedFact) -> str:
    return "separates" if len(fact.follow_ups) == 1 else "separate"


def inconclusive(found: Sequence[JudgedFact], most: int) -> PartView:
    """Return what is still open after its test."""
    title = "Still open"
    if not found:
        return PartView(title=title, sentence="No test was inconclusive.")
    lines = [f"{fact.id}  {clause(fact.claim)}: {clause(fact.reason)}" for fact in found]
    return PartView(
        title=title,
        sentence=f"{counted(len(found), 'test was', 'tests were')} inconclusive.",
        lines=named(lines, most),
    )


def surprised(judged: Sequence[JudgedFact], most: int) -> PartView:
    """Return how often the prediction's 80 % interval held, and effects outside it, the furthest first."""
    title = "Surprises"
    predicted = [fact for fact in judged if fact.effect_log is not None and fact.predicted_log is not None]
    outside = sorted(
        (fact for fact in predicted if fact.surprise > 0), key=lambda fact: (-fact.surprise, fact.id)
    )
    if not predicted:
        return PartView(title=title, sentence="Nothing predicted was measured yet.")
    if not outside:
        return PartView(title=title, sentence=f"None. {_held(0, len(predicted))}")
    lines = []
    for fact in outside:
        assert fact.effect_log is not None  # asked for above, as the prediction was
        assert fact.predicted_log is not None
        mean, low, high = fact.predicted_log
        expected = effect(mean, None, None, fact.metric)
        least, greatest = sorted((changed(low, fact.metric), changed(high, fact.metric)))
        lines.append(
            f"{fact.id}  {clause(fact.claim)}: measured {effect(fact.effect_log, None, None, fact.metric)}, "
            f"predicted {expected} within [{signed(least)}, {signed(greatest)}] {unit_of(fact.metric)}"
        )
    return PartView(title=title, sentence=_held(len(outside), len(predicted)), lines=named(lines, most))


def _held(outside: int, total: int) -> str:
    """How often the predicted interval held, with the interval of that share, and what to make of it."""
    low, high = score_interval(total - outside, total)
    return CalibrationView(total=total, inside=total - outside, low=low, high=high).sentence
