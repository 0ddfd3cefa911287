"""The rules that make findings of verdicts: pure functions of values.

A finding is about one change, in one scope, on one metric; verdicts on anything else are no evidence for it.
The rules, by the outcomes of the verdicts that reached a conclusion there:

- R1 *effect*: one is supported → "the change lowers the metric by a % [b, c]" (or raises it by points).
- R2 *no effect*: one is refuted → "the change does not lower the metric by min_effect".
- R3 *quality*: one is refuted because quality did not hold → "the change does not hold the quality limit".
- R4 *infeasible*: one is infeasible → "the change does not run: cause".
- R5 *agreed*: two or more agree → the same statement, stronger, effects pooled: those of one campaign by
  inverse variance (`pooling`), campaigns by a random-effects model (`random_effects`). Two campaigns
  replicate it; reruns within one only reproduce it.
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
from knowledge.figures import SHARES
from knowledge.findings.pooling import Estimate, pool
from knowledge.findings.random_effects import Pooled, pool_campaigns
from knowledge.findings.verdict_fact import SAYING, Saying, Source, VerdictFact, said
from knowledge.findings.wording import agreed_claim, contradicted_claim, side


class Rule(StrEnum):
    """What derived a finding; the module's docstring states each."""

    TOLD = "R0-told"
    """By nobody but the user (`knowledge.findings.told`)."""
    EFFECT = "R1-effect"
    NO_EFFECT = "R2-no-effect"
    QUALITY = "R3-quality"
    INFEASIBLE = "R4-infeasible"
    AGREED = "R5-agreed"
    CONTRADICTED = "R6-contradicted"


class Strength(StrEnum):
    """How much stands behind a finding."""

    SINGLE = "single"
    """One verdict."""
    REPRODUCED = "reproduced"
    """Two or more of one campaign that agree: what was run again there, and by nobody else."""
    REPLICATED = "replicated"
    """Two or more campaigns agree, each by verdicts of its own."""
    WEAKENED = "weakened"
    """Later inconclusive measurements pull the pooled interval back over the margin."""
    MIXED = "mixed"
    """Verdicts that disagree."""


Evidence = tuple[tuple[Source, EvidenceRelation], ...]
"""What each verdict says of a finding."""


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
    rule = Rule.AGREED if len(same) > 1 else _RULES[said(leading)]
    strength = _strength(same)
    if leading.saying is Saying.HELPS and _reaches_back(ordered, _bound(leading.metric, margin)):
        strength = Strength.WEAKENED
    return FindingDraft(
        key=leading.key,
        claim=agreed_claim(leading, pooled, margin),
        rule=rule,
        strength=strength,
        status=FindingStatus.HOLDS,
        status_reason=None,
        estimate=pooled,
        scope={
            **leading.scope.as_json(leading.changes, leading.lever, margin),
            "metric": leading.metric,
            SAYING: said(leading).value,
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
        side(saying, len(facts), _margin(facts), first.metric) for saying, facts in sides.items() if facts
    ]
    return FindingDraft(
        key=first.key,
        claim=contradicted_claim(first, pooled),
        rule=Rule.CONTRADICTED,
        strength=Strength.MIXED,
        status=FindingStatus.CONTRADICTED,
        status_reason=f"There {'is' if told[0].startswith('1 ') else 'are'} {', and '.join(told)}.",
        estimate=pooled,
        scope={
            **first.scope.as_json(first.changes, first.lever, _margin([first])),
            "metric": first.metric,
        },
        evidence=_evidence(ordered, first, frozenset(fact.source for fact in disagreeing)),
    )


def _strength(agreeing: Sequence[VerdictFact]) -> Strength:
    if len({fact.campaign for fact in agreeing}) > 1:
        return Strength.REPLICATED
    return Strength.REPRODUCED if len(agreeing) > 1 else Strength.SINGLE


def _reaches_back(facts: Sequence[VerdictFact], bound: float) -> bool:
    """Whether all that was measured, by inverse variance, does not lie wholly beyond the bound.

    Not by the random-effects interval: of two campaigns that is wide because two tell little of how much
    campaigns differ, and a claim that was confirmed is not weakened by that.
    """
    measured = [fact.estimate for fact in facts if fact.estimate is not None]
    return bool(measured) and pool(measured).high_log > bound


def _evidence(ordered: Sequence[VerdictFact], first: VerdictFact, against: frozenset[Source]) -> Evidence:
    relations = []
    said_in = {first.campaign}
    for fact in ordered:
        if fact.saying is None:
            relation = EvidenceRelation.INFORMS
        elif fact.source in against:
            relation = EvidenceRelation.CONTRADICTS
        elif fact.source == first.source:
            relation = EvidenceRelation.SUPPORTS
        elif fact.saying is first.saying:
            again = fact.campaign in said_in
            relation = EvidenceRelation.REPRODUCES if again else EvidenceRelation.REPLICATES
            said_in.add(fact.campaign)
        else:
            relation = EvidenceRelation.INFORMS  # reached at another margin: it bounds the effect
        relations.append((fact.source, relation))
    return tuple(relations)


def _margin(facts: Sequence[VerdictFact]) -> float:
    """Return the margin of the strongest statement: the largest that was reached, the smallest that was
    missed."""
    margins = [fact.min_effect for fact in facts]
    return max(margins) if facts[0].saying is Saying.HELPS else min(margins)


def _bound(metric: str, margin: float) -> float:
    """Return the effect that a margin asks for, in the metric's scale."""
    return -margin if metric in SHARES else log1p(-margin)


_RULES = {
    Saying.HELPS: Rule.EFFECT,
    Saying.DOES_NOT_HELP: Rule.NO_EFFECT,
    Saying.BREAKS_QUALITY: Rule.QUALITY,
    Saying.DOES_NOT_RUN: Rule.INFEASIBLE,
}
