"""The rules that make findings of verdicts: pure functions of values.

A finding is about one change, in one scope, on one metric; verdicts on anything else are no evidence for it.
The rules, by the outcomes of the verdicts that reached a conclusion there:

- R1 *effect*: one is supported → "the change lowers the metric by a % [b, c]" (or raises it by points).
- R2 *no effect*: one is refuted → "the change does not lower the metric by min_effect".
- R3 *quality*: one is refuted because quality did not hold → "the change does not hold the quality limit".
- R4 *infeasible*: one is infeasible → "the change does not run: cause".
- R5 *replicated*: two or more agree → the same statement, stronger, effects pooled: those of one campaign by
  inverse variance (`pooling`), campaigns by a random-effects model (`random_effects`).
- R6 *contradicted*: they disagree → both sides are stated, and the status says so.

`supported` beyond a small margin and `refuted` at a larger one do not disagree: the effect lies between them.
An inconclusive verdict makes no finding, but its estimate is pooled with the others, because leaving it out
would keep the lucky ones alone; when all measurements by inverse variance then no longer lie beyond the
margin, the strength says `weakened`. So it is with a rerun of a test that was left open, whatever the rerun
says: it has no place in the campaign's control of false discoveries, and whoever reruns until it is supported
would get round that.
A confounded verdict says nothing about the change and is left out. The smallest claim is made first: nothing
here joins scopes or changes into a wider statement.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import log1p

from db.states import EvidenceRelation, FindingStatus, VerdictOutcome
from experiments.measurement.evidence import Json
from experiments.space.configuration import Change, Configuration
from knowledge.change_words import LEVERS_OF_WEIGHTS, change_in_words, shown
from knowledge.draws import rests_on_a_draw
from knowledge.figures import SHARES, better, counted, effect, gain, metric_word
from knowledge.figures import margin as margin_words
from knowledge.findings.pooling import Estimate, pool
from knowledge.findings.random_effects import Pooled, pool_campaigns
from knowledge.scope import Scope


class Rule(StrEnum):
    """What derived a finding; the module's docstring states each."""

    TOLD = "R0-told"
    """By nobody but the user (`knowledge.findings.told`)."""
    EFFECT = "R1-effect"
    NO_EFFECT = "R2-no-effect"
    QUALITY = "R3-quality"
    INFEASIBLE = "R4-infeasible"
    REPLICATED = "R5-replicated"
    CONTRADICTED = "R6-contradicted"


class Strength(StrEnum):
    """How much stands behind a finding."""

    SINGLE = "single"
    """One verdict."""
    REPLICATED = "replicated"
    """Two or more that agree."""
    WEAKENED = "weakened"
    """Later inconclusive measurements pull the pooled interval back over the margin."""
    MIXED = "mixed"
    """Verdicts that disagree."""


Source = tuple[bool, int]
"""Whether a verdict was imported, and its number among those that were, or were not."""

Evidence = tuple[tuple[Source, EvidenceRelation], ...]
"""What each verdict says of a finding."""


class Saying(StrEnum):
    """What a conclusive verdict says of the change."""

    HELPS = "helps"
    DOES_NOT_HELP = "does not help"
    BREAKS_QUALITY = "breaks quality"
    DOES_NOT_RUN = "does not run"


@dataclass(frozen=True)
class VerdictFact:
    """One verdict as the rules see it.

    Effects and `min_effect` are in the metric's scale: natural logs of candidate over control and 0.03 for
    3 %; for a share, differences and 0.02 for two points. `quality_held` is `None` where quality was not
    measured; `cause` is the verdict's own sentence. `of_an_open_test`: it reruns a test that no verdict
    decided. `campaign` names the campaign it was reached in, `imported` says that another database told it;
    `verdict_id` counts the verdicts of this one and the imported ones each for themselves.
    """

    verdict_id: int
    outcome: VerdictOutcome
    metric: str
    changes: tuple[Change, ...]
    lever: str
    min_effect: float
    scope: Scope
    effect_log: float | None
    low_log: float | None
    high_log: float | None
    quality_held: bool | None
    cause: str
    of_an_open_test: bool = False
    campaign: str = ""
    imported: bool = False

    @property
    def source(self) -> Source:
        """Which verdict it is; those of this database sort before the imported."""
        return self.imported, self.verdict_id

    @property
    def key(self) -> str:
        """Name of the statement this verdict bears on; unique for change, metric and scope."""
        return f"{self.lineage_key}@{self.scope.versions_digest[:_KEY_DIGITS]}"

    @property
    def lineage_key(self) -> str:
        """`key` without the versions: the same statement on other versions begins with it."""
        return f"{self.metric}: {changes_words(self.changes)} #{self.scope.lineage_digest[:_KEY_DIGITS]}"

    @property
    def saying(self) -> Saying | None:
        """What the verdict says of the change; `None` for an inconclusive or confounded one, and for any of a
        rerun of an open test."""
        if self.of_an_open_test:
            return None
        match self.outcome:
            case VerdictOutcome.SUPPORTED:
                return Saying.HELPS
            case VerdictOutcome.REFUTED:
                return Saying.BREAKS_QUALITY if self.quality_held is False else Saying.DOES_NOT_HELP
            case VerdictOutcome.INFEASIBLE:
                return Saying.DOES_NOT_RUN
        return None

    @property
    def estimate(self) -> Estimate | None:
        """The measured effect; `None` where nothing was measured or no interval could be given."""
        if self.effect_log is None or self.low_log is None or self.high_log is None:
            return None
        return Estimate(self.effect_log, self.low_log, self.high_log)


@dataclass(frozen=True)
class FindingDraft:
    """What the rules derive: everything a stored finding says, and what each verdict has to do with it."""

    key: str
    claim: str
    rule: Rule
    strength: Strength
    status: FindingStatus
    status_reason: str | None
    estimate: Estimate | None
    scope: dict[str, Json]
    evidence: Evidence


SAYING = "saying"
"""Where a finding's scope keeps what it says of the change (`Saying`); absent where verdicts disagree."""

_KEY_DIGITS = 16
"""Hexadecimal digits of a digest in a key: 64 bits, so that no two scopes ever meet by chance."""


def changes_words(changes: Sequence[Change]) -> str:
    """Return what was changed knob by knob, as a key has it: `serving.threads 1 → 2 with serving.dtype
    float32 → bfloat16`."""
    return " with ".join(str(change) for change in changes)


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


def derive(facts: Sequence[VerdictFact]) -> FindingDraft | None:
    """Return the finding that verdicts with one key make, or `None` when none of them is conclusive.

    The answer does not depend on the order of `facts`. Raises `ValueError` when they have more than one key.
    """
    ordered = sorted((f for f in facts if f.outcome is not VerdictOutcome.CONFOUNDED), key=lambda f: f.source)
    if len({fact.key for fact in ordered}) > 1:
        raise ValueError("verdicts on different statements make no finding together")
    conclusive = [fact for fact in ordered if fact.saying is not None]
    if not conclusive:
        return None
    first = conclusive[0]
    disagreeing = [fact for fact in conclusive if not _agree(first, fact, conclusive)]
    pooled = pooled_over_campaigns(ordered)
    estimate = None if pooled is None else pooled.estimate
    if disagreeing:
        return _contradicted(ordered, conclusive, disagreeing, estimate)
    return _agreed(ordered, conclusive, estimate)


def by_campaign(facts: Sequence[VerdictFact]) -> dict[str, Estimate]:
    """Return what each campaign measured, its verdicts pooled by inverse variance.

    Without those that measured nothing, and without confounded verdicts.
    """
    measured: dict[str, list[Estimate]] = defaultdict(list)
    for fact in sorted(facts, key=lambda each: each.source):
        if fact.estimate is not None and fact.outcome is not VerdictOutcome.CONFOUNDED:
            measured[fact.campaign].append(fact.estimate)
    return {campaign: pool(estimates) for campaign, estimates in measured.items()}


def pooled_over_campaigns(facts: Sequence[VerdictFact]) -> Pooled | None:
    """Return what all campaigns measured together, `None` where none measured anything."""
    estimates = list(by_campaign(facts).values())
    return pool_campaigns(estimates) if estimates else None


def _agree(first: VerdictFact, other: VerdictFact, conclusive: Sequence[VerdictFact]) -> bool:
    if first.saying is other.saying:
        return True
    if {first.saying, other.saying} != {Saying.HELPS, Saying.DOES_NOT_HELP}:
        return False
    reached = max(f.min_effect for f in conclusive if f.saying is Saying.HELPS)
    missed = min(f.min_effect for f in conclusive if f.saying is Saying.DOES_NOT_HELP)
    return reached < missed


def _agreed(
    ordered: Sequence[VerdictFact], conclusive: Sequence[VerdictFact], pooled: Estimate | None
) -> FindingDraft:
    # Where `helps` and `does not help` agree (other margins), the one with an effect tells more.
    leading = next((f for f in conclusive if f.saying is Saying.HELPS), conclusive[0])
    same = [fact for fact in conclusive if fact.saying is leading.saying]
    margin = _margin(same)
    rule = Rule.REPLICATED if len(same) > 1 else _RULES[_said(leading)]
    strength = Strength.REPLICATED if len(same) > 1 else Strength.SINGLE
    if leading.saying is Saying.HELPS and _reaches_back(ordered, _bound(leading.metric, margin)):
        strength = Strength.WEAKENED
    return FindingDraft(
        key=leading.key,
        claim=f"{_statement(leading, pooled, margin)} {_where(leading)}.",
        rule=rule,
        strength=strength,
        status=FindingStatus.HOLDS,
        status_reason=None,
        estimate=pooled,
        scope={
            **leading.scope.as_json(leading.changes, leading.lever, margin),
            "metric": leading.metric,
            SAYING: _said(leading).value,
        },
        evidence=_evidence(ordered, same[0], frozenset()),
    )


def _contradicted(
    ordered: Sequence[VerdictFact],
    conclusive: Sequence[VerdictFact],
    disagreeing: Sequence[VerdictFact],
    pooled: Estimate | None,
) -> FindingDraft:
    first = conclusive[0]
    sides = {saying: [f for f in conclusive if f.saying is saying] for saying in Saying}
    told = [
        f"{counted(len(facts), 'verdict')} that it "
        + _BRIEFLY[saying].format(margin_words(_margin(facts), first.metric))
        for saying, facts in sides.items()
        if facts
    ]
    changed = change_in_place(first.changes, first.scope.control)
    what = f"{changed}: verdicts disagree about {metric_word(first.metric)}"
    together = f"; pooled {_shown(first, pooled)}" if pooled is not None else ""
    return FindingDraft(
        key=first.key,
        claim=f"{what}{together} {_where(first)}.",
        rule=Rule.CONTRADICTED,
        strength=Strength.MIXED,
        status=FindingStatus.CONTRADICTED,
        status_reason=f"There is {', and '.join(told)}.",
        estimate=pooled,
        scope={
            **first.scope.as_json(first.changes, first.lever, _margin([first])),
            "metric": first.metric,
        },
        evidence=_evidence(ordered, first, frozenset(fact.source for fact in disagreeing)),
    )


def _reaches_back(facts: Sequence[VerdictFact], bound: float) -> bool:
    """Whether all that was measured, by inverse variance, does not lie wholly beyond the bound.

    Not by the random-effects interval: of two campaigns that is wide because two tell little of how much
    campaigns differ, and a claim that was confirmed is not weakened by that.
    """
    measured = [fact.estimate for fact in facts if fact.estimate is not None]
    return bool(measured) and pool(measured).high_log > bound


def _evidence(ordered: Sequence[VerdictFact], first: VerdictFact, against: frozenset[Source]) -> Evidence:
    relations = []
    for fact in ordered:
        if fact.saying is None:
            relation = EvidenceRelation.INFORMS
        elif fact.source in against:
            relation = EvidenceRelation.CONTRADICTS
        elif fact.source == first.source:
            relation = EvidenceRelation.SUPPORTS
        elif fact.saying is first.saying:
            relation = EvidenceRelation.REPLICATES
        else:
            relation = EvidenceRelation.INFORMS  # reached at another margin: it bounds the effect
        relations.append((fact.source, relation))
    return tuple(relations)


def _statement(fact: VerdictFact, pooled: Estimate | None, margin: float) -> str:
    what, metric = change_in_place(fact.changes, fact.scope.control), metric_word(fact.metric)
    match _said(fact):
        case Saying.HELPS if pooled is not None:
            return f"{what} {better(fact.metric)} {metric} by {_gained(fact, pooled)}"
        case Saying.HELPS:
            return f"{what} {better(fact.metric)} {metric}"
        case Saying.DOES_NOT_HELP:
            measured = f" (measured {_shown(fact, pooled)})" if pooled is not None else ""
            return f"{what} does not make {metric} better by {margin_words(margin, fact.metric)}{measured}"
        case Saying.BREAKS_QUALITY:
            measured = f" ({metric} {_shown(fact, pooled)})" if pooled is not None else ""
            return f"{what} does not hold the quality limit: {_clause(fact.cause)}{measured};"
        case Saying.DOES_NOT_RUN:
            return f"{what} does not run: {_clause(fact.cause)};"


def _where(fact: VerdictFact) -> str:
    """The scope in words: of an effect that rests on a draw of calibration text, the draw too."""
    candidate = {**fact.scope.control, **{change.knob: change.after for change in fact.changes}}
    drawn = fact.estimate is not None and rests_on_a_draw(fact.metric, fact.scope.control, candidate)
    return fact.scope.sentence() + (", with the calibration samples that were drawn" if drawn else "")


def _said(fact: VerdictFact) -> Saying:
    if fact.saying is None:
        raise ValueError(f"verdict {fact.verdict_id} is not conclusive")
    return fact.saying


def _margin(facts: Sequence[VerdictFact]) -> float:
    """Return the margin of the strongest statement: the largest that was reached, the smallest that was
    missed."""
    margins = [fact.min_effect for fact in facts]
    return max(margins) if facts[0].saying is Saying.HELPS else min(margins)


def _gained(fact: VerdictFact, pooled: Estimate) -> str:
    return gain(fact.metric, pooled.effect_log, pooled.low_log, pooled.high_log)


def _shown(fact: VerdictFact, pooled: Estimate) -> str:
    return effect(pooled.effect_log, pooled.low_log, pooled.high_log, fact.metric)


def _bound(metric: str, margin: float) -> float:
    """Return the effect that a margin asks for, in the metric's scale."""
    return -margin if metric in SHARES else log1p(-margin)


def _clause(sentence: str) -> str:
    return " ".join(sentence.split()).rstrip(".")


_RULES = {
    Saying.HELPS: Rule.EFFECT,
    Saying.DOES_NOT_HELP: Rule.NO_EFFECT,
    Saying.BREAKS_QUALITY: Rule.QUALITY,
    Saying.DOES_NOT_RUN: Rule.INFEASIBLE,
}
_BRIEFLY = {
    Saying.HELPS: "makes it better by {} or more",
    Saying.DOES_NOT_HELP: "does not make it better by {}",
    Saying.BREAKS_QUALITY: "does not hold the quality limit",
    Saying.DOES_NOT_RUN: "does not run",
}
"""What each side says, with its margin."""
