"""What would follow from a verdict that has not been given: the queue ranked with the outcome assumed. Pure.

A refuted change is taken to change nothing, a supported one to do what is said, else what is believed of it
(at least its smallest effect worth having), and one that is infeasible to measure nothing. Quality is taken
to hold, as nothing is assumed of it. What the agent proposed on an earlier best leaves the queue, as it
would. Caps, minimum shares and all other directives count as they do in the queue, with one test more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent.asking.assumed import EACH, Assumed, check_assumed
from agent.campaign.decision.desk import Desk
from agent.campaign.known.facts import Queued
from agent.proposers.port import Trial
from agent.ranking.moves import shifts
from agent.ranking.values import Place, Ranking, Shift
from configs.garbage import uncollected
from experiments.measurement.evidence import Metric
from experiments.measurement.judging import Outcome

SE_LOG = 0.01
"""Standard error of the assumed effect, where no trial tells how close such a measurement comes."""

MOST_SHIFTS = 5
"""Hypotheses that are told of, those that move furthest against the others first."""

MOST_RANKED = 300
"""Hypotheses that are ranked again, so that an answer stays quick."""


@dataclass(frozen=True)
class Consequence:
    """What a verdict would do: who moves, beyond everybody's moving up, and who would leave the queue.

    `moved` counts all that move so, of which `shifts` are those that move furthest. `next_up` would be tested
    next, of what is in the queue by now; `is_best`: it would be the best configuration so far.
    """

    assumed: Assumed
    shifts: tuple[Shift, ...]
    moved: int
    leave: tuple[int, ...]
    next_up: int | None = None
    is_best: bool = False
    ranked: bool = True
    """Whether who moves and who is next is known; False where the model's shape is not on this machine."""

    @property
    def outcome(self) -> Outcome:
        """The outcome that is assumed."""
        return self.assumed.outcome


@uncollected()
def what_if(
    desk: Desk, hypothesis_id: int, verdicts: Sequence[Assumed] = EACH, most_shifts: int = MOST_SHIFTS
) -> tuple[Consequence, ...]:
    """What each of these verdicts on a queued hypothesis would do to the rest; empty where it does not wait.

    Of a queue longer than `MOST_RANKED` only those first in order are looked at. Raises `UsageError` for an
    effect that it can't be supported with.
    """
    found = next((each for each in desk.facts.queue if each.id == hypothesis_id), None)
    if found is None:
        return ()
    if len(desk.facts.queue) > MOST_RANKED:
        ahead = {*desk.ranking.order[:MOST_RANKED], hypothesis_id}
        queue = tuple(each for each in desk.facts.queue if each.id in ahead)
        desk = replace(desk, facts=replace(desk.facts, queue=queue))
    for each in verdicts:
        check_assumed(desk.facts, found, each)
    return tuple(_consequence(desk, found, each, most_shifts) for each in verdicts)


def what_if_unranked(
    desk: Desk, hypothesis_id: int, verdicts: Sequence[Assumed] = EACH
) -> tuple[Consequence, ...]:
    """What each of these verdicts would do as far as no belief is needed: whether it would be the best, and
    who leaves because it builds on what is the best now. For where the model's shape is not on this machine;
    a supported one does what was predicted when it was proposed. Raises as `what_if`."""
    found = next((each for each in desk.facts.queue if each.id == hypothesis_id), None)
    if found is None:
        return ()
    for each in verdicts:
        check_assumed(desk.facts, found, each)
    return tuple(_unranked(desk, found, each) for each in verdicts)


def _unranked(desk: Desk, hypothesis: Queued, assumed: Assumed) -> Consequence:
    trial = _trial(desk, hypothesis, assumed, hypothesis.prediction.log_ratio_mean, cost_s=0.0)
    rest = tuple(each for each in desk.facts.queue if each.id != hypothesis.id)
    # what is ruled out goes by how far other campaigns are believed, and that by the shape
    facts = replace(desk.facts, trials=(*desk.facts.trials, trial), queue=rest, carried=(), ruled_out=())
    after = replace(desk, facts=facts)
    is_best = after.incumbent.hypothesis_id == hypothesis.id
    return Consequence(assumed, (), 0, tuple(sorted(after.leaving)), is_best=is_best, ranked=False)


def _consequence(desk: Desk, hypothesis: Queued, assumed: Assumed, most_shifts: int) -> Consequence:
    rest = tuple(each for each in desk.facts.queue if each.id != hypothesis.id)
    believed = desk.beliefs.predict(hypothesis.control, hypothesis.candidate).log_ratio_mean
    trial = _trial(desk, hypothesis, assumed, believed, desk.beliefs.cost_s(hypothesis.candidate))
    facts = replace(desk.facts, trials=(*desk.facts.trials, trial), queue=rest)
    after = replace(desk, facts=facts, believed=desk.beliefs.after(trial))
    leave = frozenset(after.leaving)
    ranking = after.ranking_of([each for each in rest if each.id not in leave])
    found = against_the_others(desk.ranking, ranking)
    return Consequence(
        assumed,
        tuple(shift for _, shift in found[:most_shifts]),
        len(found),
        tuple(sorted(leave)),
        None if ranking.next_up is None else ranking.next_up.hypothesis_id,
        after.incumbent.hypothesis_id == hypothesis.id,
    )


def against_the_others(before: Ranking, after: Ranking) -> list[tuple[int, Shift]]:
    """Return those whose place among the ones that stay changed, the furthest first, with both places."""
    stay = set(after.order)
    among = {number: place for place, number in enumerate((h for h in before.order if h in stay), start=1)}
    kept = Ranking(
        tuple(
            _at(place, among[place.hypothesis_id]) for place in before.places if place.hypothesis_id in stay
        )
    )
    shown = {place.hypothesis_id: place.place for place in before.places}
    found = [
        (abs(among[each.hypothesis_id] - each.to_place), replace(each, from_place=shown[each.hypothesis_id]))
        for each in shifts(kept, after)
        if each.to_place is not None
    ]
    return sorted(found, key=lambda pair: (-pair[0], pair[1].to_place or 0))


def _at(place: Place, number: int) -> Place:
    return place._replace(place=number)


def _trial(desk: Desk, hypothesis: Queued, assumed: Assumed, believed_log: float, cost_s: float) -> Trial:
    outcome, effect = assumed.outcome, assumed.effect_log
    if outcome is Outcome.REFUTED:
        effect = 0.0
    elif outcome is Outcome.SUPPORTED and effect is None:
        effect = min(believed_log, math.log1p(-hypothesis.min_effect))
    errors = sorted(each.effect_se_log for each in desk.facts.trials if each.effect_se_log is not None)
    return Trial(
        hypothesis_id=hypothesis.id,
        experiment_id=0,
        control=hypothesis.control,
        candidate=hypothesis.candidate,
        lever=hypothesis.lever,
        outcome=outcome,
        effect_log=effect,
        effect_se_log=None if effect is None else errors[len(errors) // 2] if errors else SE_LOG,
        bits_ratio_log=None,
        task_points=None,
        cost_s=cost_s,
        metric=Metric(hypothesis.metric),
    )
