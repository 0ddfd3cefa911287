"""Proposers by what became of what they proposed: hit rates, and predicted against measured."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from sqlalchemy import case, distinct, func, select
from sqlalchemy.orm import Session

from db.models import Experiment, Hypothesis, Verdict
from db.states import HypothesisState, VerdictOutcome
from knowledge.figures import SHARES
from knowledge.hit_rates import Hits, Record
from knowledge.queries.view import PREDICTION_Z, View

PROMOTION = "promotion"
"""The proposer of what confirms on another target: a question of the target, not of the idea."""

JUDGED = (
    HypothesisState.SUPPORTED,
    HypothesisState.REFUTED,
    HypothesisState.INCONCLUSIVE,
    HypothesisState.INFEASIBLE,
)
"""States after a verdict that says something of the claim."""


class ProposerView(View):
    """One proposer. `judged` of its `proposed` hypotheses have a verdict on their claim, `supported` of them
    hold; `low` and `high` bound that share by the exact 95 % binomial interval, None where there is none.

    `measured` tests measured what was predicted, `inside` counts those within their 80 % prediction;
    `predicted_mean` and `measured_mean` are the mean changes of those whose effect is a ratio (geometric,
    −0.12 for 12 % less; None where there is none), since points have another scale, and None where they are
    of more than one metric: the mean of a time and of bits is of nothing. `chance` is the hit rate
    after shrinkage by which a campaign shares out its proposals (`knowledge.hit_rates`), None over all
    campaigns.
    """

    name: str
    proposed: int
    waiting: int
    judged: int
    supported: int
    rate: float | None
    low: float | None
    high: float | None
    measured: int
    inside: int
    predicted_mean: float | None
    measured_mean: float | None
    chance: float | None

    @property
    def words(self) -> str:
        """Its hit rate in a clause."""
        return Hits(self.supported, self.judged).words()


def proposers(session: Session, campaign_id: int | None = None) -> tuple[ProposerView, ...]:
    """All who proposed anything in a campaign, or in any; those who brought most first. Two statements."""
    found = _states(session)
    counts = [each for number, each in found.items() if campaign_id in (None, number)]
    compared = _compared(session, campaign_id)
    chances = {} if campaign_id is None else {n: r.chance for n, r in _records(found, campaign_id).items()}
    views = [
        _view(name, _added(each.get(name, {}) for each in counts), compared.get(name), chances.get(name))
        for name in dict.fromkeys(name for each in counts for name in each)
        if name != PROMOTION
    ]
    return tuple(sorted(views, key=lambda each: (-each.proposed, each.name)))


def records(session: Session, campaign_id: int) -> dict[str, Record]:
    """What the share of each proposer in a campaign rests on, of all who ever proposed; one statement."""
    return _records(_states(session), campaign_id)


def hits_of(session: Session, campaign_id: int, proposer: str) -> Hits:
    """What became of one proposer's hypotheses in a campaign; one statement."""
    query = select(Hypothesis.state, func.count()).where(
        Hypothesis.campaign_id == campaign_id, Hypothesis.proposer == proposer
    )
    counts: _Counts = {}
    for state, count in session.execute(query.group_by(Hypothesis.state)):
        counts[state] = count
    return _hits(counts)


_Counts = dict[HypothesisState, int]
_Compared = tuple[int, int, float | None, float | None]


def _records(found: Mapping[int, Mapping[str, _Counts]], campaign_id: int) -> dict[str, Record]:
    names = dict.fromkeys(name for each in found.values() for name in each)
    return {
        name: Record(
            proposed=_proposed(found.get(campaign_id, {}).get(name, {})),
            here=_hits(found.get(campaign_id, {}).get(name, {})),
            elsewhere=_hits(_added(found[each].get(name, {}) for each in found if each != campaign_id)),
        )
        for name in names
    }


def _states(session: Session) -> dict[int, dict[str, _Counts]]:
    """Hypotheses by campaign, proposer and state, as an index has them."""
    columns = (Hypothesis.campaign_id, Hypothesis.state, Hypothesis.proposer)
    query = select(*columns, func.count()).group_by(*columns)
    found: dict[int, dict[str, _Counts]] = {}
    for campaign, state, proposer, count in session.execute(query):
        found.setdefault(campaign, {}).setdefault(proposer, {})[state] = count
    return found


def _added(counts: Iterable[Mapping[HypothesisState, int]]) -> _Counts:
    total: _Counts = {}
    for each in counts:
        for state, count in each.items():
            total[state] = total.get(state, 0) + count
    return total


def _proposed(counts: Mapping[HypothesisState, int]) -> int:
    return sum(counts.values())


def _hits(counts: Mapping[HypothesisState, int]) -> Hits:
    return Hits(counts.get(HypothesisState.SUPPORTED, 0), sum(counts.get(state, 0) for state in JUDGED))


def _compared(session: Session, campaign_id: int | None) -> dict[str, _Compared]:
    """By proposer: how many tests measured what was predicted, how many inside the 80 % interval, and of
    effects that are ratios, all of one metric, the mean logs predicted and measured. Reproductions and
    confounded tests are left out."""
    mean = Hypothesis.prediction["log_ratio_mean"].as_float()
    spread = Hypothesis.prediction["log_ratio_sd"].as_float()
    off = func.abs(Verdict.effect_log - mean)
    is_ratio = Hypothesis.metric.not_in(SHARES)
    query = (
        select(
            Hypothesis.proposer,
            func.count(),
            func.sum(case((off <= PREDICTION_Z * spread, 1), else_=0)),
            func.avg(case((is_ratio, mean))),
            func.avg(case((is_ratio, Verdict.effect_log))),
            func.count(distinct(case((is_ratio, Hypothesis.metric)))),
        )
        .join_from(Verdict, Hypothesis, Hypothesis.id == Verdict.hypothesis_id)
        .join(Experiment, Experiment.id == Verdict.experiment_id)
        .where(
            *(() if campaign_id is None else (Hypothesis.campaign_id == campaign_id,)),
            Experiment.reproduces_experiment_id.is_(None),
            Verdict.effect_log.is_not(None),
            Verdict.outcome != VerdictOutcome.CONFOUNDED,
            mean.is_not(None),
        )
        .group_by(Hypothesis.proposer)
    )
    return {
        name: (int(count), int(inside), *((predicted, measured) if metrics == 1 else (None, None)))
        for name, count, inside, predicted, measured, metrics in session.execute(query)
    }


def _view(
    name: str,
    counts: Mapping[HypothesisState, int],
    compared: _Compared | None,
    chance: float | None,
) -> ProposerView:
    hits = _hits(counts)
    low, high = hits.interval() if hits.judged else (None, None)
    measured, inside, predicted_log, measured_log = compared or (0, 0, None, None)
    waits = (HypothesisState.PROPOSED, HypothesisState.QUEUED, HypothesisState.TESTING)
    return ProposerView(
        name=name,
        proposed=_proposed(counts),
        waiting=sum(counts.get(state, 0) for state in waits),
        judged=hits.judged,
        supported=hits.supported,
        rate=hits.rate,
        low=low,
        high=high,
        measured=measured,
        inside=inside,
        predicted_mean=None if predicted_log is None else math.expm1(predicted_log),
        measured_mean=None if measured_log is None else math.expm1(measured_log),
        chance=chance,
    )
