"""What no experiment covered next to the best: every configuration one knob away. Pure.

Each has what is believed of it; those that can be had come first, the others have the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from agent.campaign.decision.desk import Desk
from agent.surrogate.beliefs import Belief
from db.states import DirectiveKind
from experiments.space.configuration import Change, Configuration
from experiments.space.space import Space

NOT_HERE = "the campaign's space does not have it"


@dataclass(frozen=True)
class Neighbour:
    """A configuration one step from the best: `why_not` says why it can't be had, None where it can; `belief`
    what is believed of it against the best; `waits` the hypothesis in the queue that would test it; `banned`
    the levers of it that the user banned."""

    candidate: Configuration
    changes: tuple[Change, ...]
    why_not: str | None = None
    belief: Belief | None = None
    waits: str | None = None
    banned: tuple[str, ...] = ()

    @property
    def expected(self) -> float:
        """The share of the time that it is expected to save, counted with the chance that it may; of what is
        expected to cost time the whole, which no doubt that it runs makes better."""
        if self.belief is None:
            return 0.0
        saved = -self.belief.prediction.log_ratio_mean
        return saved * self.belief.p_feasible * self.belief.p_quality if saved > 0 else saved


@dataclass(frozen=True)
class Beside:
    """The neighbours of the best that no experiment covered, and how many one did."""

    best: Configuration
    legal: tuple[Neighbour, ...]
    illegal: tuple[Neighbour, ...]
    covered: int


def untested(desk: Desk, full: Space, covered: Collection[str], waiting: Mapping[str, str]) -> Beside:
    """Return the neighbours of the best, those that can be had by what they are expected to save.

    `full` is the space before anything was taken out of it for model, engine and target; `covered` the
    digests of what an experiment measured or is measuring, `waiting` labels of queued hypotheses by the
    digest of their candidate.
    """
    best = desk.incumbent.configuration
    known = {*covered, best.digest}
    offered = dict.fromkeys((*desk.space.neighbours(best), *full.neighbours(best)))
    open_ = [each for each in offered if each.digest not in known]
    reasons = {each: _why_not(desk, best, each) for each in open_}
    legal = [each for each in open_ if reasons[each] is None]
    beliefs = desk.beliefs.about([(best, each) for each in legal])
    banned = frozenset(
        each.lever for each in desk.directives if each.kind is DirectiveKind.BAN and each.lever is not None
    )
    found = [
        Neighbour(
            each,
            best.changes_to(each),
            belief=belief,
            waits=waiting.get(each.digest),
            banned=tuple(x for x in desk.space.levers_between(best, each) if x in banned),
        )
        for each, belief in zip(legal, beliefs, strict=True)
    ]
    return Beside(
        best,
        tuple(sorted(found, key=lambda each: -each.expected)),
        tuple(Neighbour(e, best.changes_to(e), why_not=reasons[e]) for e in open_ if reasons[e] is not None),
        sum(each.digest in known for each in offered),
    )


def _why_not(desk: Desk, best: Configuration, candidate: Configuration) -> str | None:
    """Why a neighbour can't be had on this ground; None where it can."""
    changed = {change.knob: change.after for change in best.changes_to(candidate) if change.after is not None}
    legal = desk.legal
    reason = legal.why_not(changed) or legal.why_same(changed) or legal.refused(candidate)
    reason = reason or legal.space.why_same(best, candidate)
    if reason is None and not desk.space.is_legal(candidate):
        return NOT_HERE
    return reason
