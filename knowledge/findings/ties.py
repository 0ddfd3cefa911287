"""What a verdict on another target says of the first one. Pure.

- *replicates*: the same outcome, effects in the same direction, and intervals that overlap.
- *informs*: the same outcome in the same direction, by another amount: the targets
  differ, the claim does not; or both refuted, one in its quality alone.
- *contradicts*: another outcome that decides too; supported here and not there, or no longer in quality, or
  it does not run there.
- nothing, where a verdict leaves the claim open: inconclusive or confounded.

A tie joins no scopes: each finding goes on speaking of its own target alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from db.states import EvidenceRelation, VerdictOutcome
from knowledge.figures import effect
from knowledge.machines import machine

OPEN = frozenset({VerdictOutcome.INCONCLUSIVE, VerdictOutcome.CONFOUNDED})
"""Outcomes that decide nothing."""


@dataclass(frozen=True)
class Side:
    """A verdict on one target: its experiment's label, the target, the outcome, and the effect on `metric`
    with its interval, natural logarithms or differences of shares; None where nothing was measured."""

    experiment: str
    target: str
    outcome: VerdictOutcome
    metric: str
    effect_log: float | None = None
    low_log: float | None = None
    high_log: float | None = None
    lost_quality: bool = False
    """Whether it was refuted because quality did not hold."""

    @property
    def words(self) -> str:
        """The effect in words."""
        if self.effect_log is None:
            return "quality lost before anything was timed" if self.lost_quality else "not measured"
        return effect(self.effect_log, self.low_log, self.high_log, self.metric)


@dataclass(frozen=True)
class Tie:
    """What the second says of the first: the relation, None where it leaves it open, and a sentence."""

    relation: EvidenceRelation | None
    reason: str


def tie_between(first: Side, second: Side) -> Tie:
    """Return what `second` says of `first`; both are of the same arms, metric and plan."""
    relation = _relation(first, second)
    verb = "leaves open" if relation is None else relation.value
    why = {
        EvidenceRelation.REPLICATES: f"both {second.outcome.value}",
        EvidenceRelation.INFORMS: f"both {second.outcome.value}, "
        + ("by another amount" if first.lost_quality is second.lost_quality else "for another reason"),
        EvidenceRelation.CONTRADICTS: f"{second.outcome.value} there, {first.outcome.value} here",
        None: f"{second.outcome.value} there, {first.outcome.value} here",
    }[relation]
    return Tie(
        relation,
        f"{second.experiment} on {machine(second.target)} {verb} {first.experiment} on "
        f"{machine(first.target)}: {why} ({second.words} there, {first.words} here)",
    )


def _relation(first: Side, second: Side) -> EvidenceRelation | None:
    if first.outcome in OPEN or second.outcome in OPEN:
        return None
    if first.outcome is not second.outcome:
        return EvidenceRelation.CONTRADICTS
    if first.lost_quality is not second.lost_quality:
        return EvidenceRelation.INFORMS
    if not _overlap(first, second):
        return EvidenceRelation.INFORMS if _same_direction(first, second) else EvidenceRelation.CONTRADICTS
    supported = first.outcome is VerdictOutcome.SUPPORTED
    if supported and not _same_direction(first, second):
        return EvidenceRelation.CONTRADICTS
    return EvidenceRelation.REPLICATES


def _same_direction(first: Side, second: Side) -> bool:
    """True too where one was not measured, as of what does not run, or was refuted by its quality."""
    if first.effect_log is None or second.effect_log is None:
        return True
    return (first.effect_log < 0) == (second.effect_log < 0)


def _overlap(first: Side, second: Side) -> bool:
    """Whether the intervals meet; true where one has none."""
    if first.low_log is None or first.high_log is None or second.low_log is None or second.high_log is None:
        return True
    return second.low_log <= first.high_log and first.low_log <= second.high_log
