"""Where the queue would go if verdicts fell: ranked by the campaign's own function, as if they had not been
given. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from agent.asking.what_if import MOST_RANKED, MOST_SHIFTS, against_the_others
from agent.campaign.decision.desk import Desk
from agent.campaign.known.facts import Facts
from agent.campaign.known.incumbent import Incumbent
from agent.ranking.values import Shift

MOST_RELEARNT = 100
"""Outcomes, those carried over from other campaigns too, that are learnt anew for one answer, so that it
stays quick: of these it takes 20 ms, of twice as many three times as long
(`tests/benchmarks/test_graph_questions.py`). Of more, what is believed stays."""


@dataclass(frozen=True)
class Reordered:
    """The best as it would be then, who would move furthest, of how many that move, and who would leave.
    `relearnt` tells that the beliefs too are those without the verdicts."""

    best: Incumbent
    is_another: bool
    shifts: tuple[Shift, ...]
    moved: int
    leave: tuple[int, ...]
    relearnt: bool = True


def without(
    desk: Desk,
    experiments: Collection[int],
    most_shifts: int = MOST_SHIFTS,
    most_relearnt: int = MOST_RELEARNT,
) -> Reordered | None:
    """Return what the campaign would do without the verdicts of these experiments; None where none of them is
    among its trials. Of more than `most_relearnt` other outcomes what is believed stays as it is."""
    left = _left(desk.facts, experiments)
    if left is None:
        return None
    queue, before = desk.facts.queue, desk
    if len(queue) > MOST_RANKED:
        ahead = set(desk.ranking.order[:MOST_RANKED])
        queue = tuple(each for each in queue if each.id in ahead)
        before = replace(desk, facts=replace(desk.facts, queue=queue), believed=desk.beliefs)
    relearnt = learnt_from(desk) <= most_relearnt
    after = replace(
        before,
        facts=replace(before.facts, trials=left.trials),
        believed=None if relearnt else desk.beliefs,
    )
    leave = frozenset(after.leaving)
    ranking = after.ranking_of([each for each in queue if each.id not in leave])
    found = against_the_others(before.ranking, ranking)
    return Reordered(
        after.incumbent,
        after.incumbent.configuration != desk.incumbent.configuration,
        tuple(shift for _, shift in found[:most_shifts]),
        len(found),
        tuple(sorted(leave)),
        relearnt,
    )


def best_without(facts: Facts, experiments: Collection[int]) -> Incumbent | None:
    """Return the best of the verdicts that are left without those of these experiments, which takes no
    model; None where none of them is among the campaign's trials, and before its baseline is measured."""
    left = _left(facts, experiments)
    return None if left is None else left.incumbent


def _left(facts: Facts, experiments: Collection[int]) -> Facts | None:
    """The campaign without the verdicts of these experiments; None where it has none of them."""
    kept = tuple(each for each in facts.trials if each.experiment_id not in experiments)
    return None if len(kept) == len(facts.trials) else replace(facts, trials=kept)


def learnt_from(desk: Desk) -> int:
    """Return how many outcomes a campaign's beliefs are learnt from, its own and those carried over."""
    return len(desk.facts.trials) + len(desk.facts.carried)
