"""Drafts of which so little is expected that they don't enter the queue. Pure.

A draft is left out that the campaign would not test as things are believed (its expected gain lies below
`WORTH`) and whose saving lies below that even at the good end of its 80 % interval. It is not remembered as
tried: after a verdict that changes the belief its proposer may bring it again. Before the campaign has its
`least_verdicts` nothing is left out, since beliefs from so few deserve no trust yet, and never what answers
another metric, what is pinned, or what a language model asks for; a person's own is no draft.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from agent.campaign.decision.desk import Desk
from agent.proposers.draft import expected_gains
from agent.proposers.port import Draft
from agent.ranking.stopping import WORTH
from configs.authors import author_words

GOOD_END_SD = NormalDist().inv_cdf(0.9)
"""Standard deviations from the mean to an end of the 80 % interval: 1.28."""


@dataclass(frozen=True)
class Sifted:
    """Drafts that enter the queue, and those that don't, with the largest saving (a share) that any of these
    has at the good end of its interval."""

    kept: Sequence[Draft]
    left_out: Sequence[Draft] = ()
    most_saved: float = -math.inf

    @property
    def words(self) -> str:
        """How many are left out, of whom, and why."""
        count = len(self.left_out)
        of = Counter(author_words(each.proposer) for each in self.left_out)
        who = ", ".join(f"{number} by {name}" for name, number in sorted(of.items()))
        what = f"1 draft ({who}) does" if count == 1 else f"{count} drafts ({who}) do"
        best = 100 * self.most_saved
        told = f"cost {-best:.1f} %" if best < 0 else f"save {best:.1f} %"
        ends = "it would" if count == 1 else "the best of them would"
        return (
            f"{what} not enter the queue: even at the good end of its 80 % interval {ends} {told}, "
            f"and less than {100 * WORTH:g} % is not worth an experiment; a verdict that changes this "
            f"brings {'it' if count == 1 else 'them'} back"
        )


def sift(desk: Desk, drafts: Sequence[Draft]) -> Sifted:
    """Which of these enter the queue. All do where it would be empty without them, so that the campaign's
    end names the best that there was."""
    if not desk.trusts_beliefs:
        return Sifted(drafts)
    judged = [each for each in drafts if each.metric is None and each.from_model is None and not each.pinned]
    if not judged:
        return Sifted(drafts)
    view = desk.view
    found = [view.predict(each.control, each.candidate) for each in judged]
    gains = expected_gains(view, [(each, None) for each in found])
    saved = dict[int, float]()
    for draft, prediction, gain in zip(judged, found, gains, strict=True):
        sd = math.sqrt(max(0.0, prediction.log_ratio_sd**2 - view.launches_sd_log**2))
        good = -math.expm1(prediction.log_ratio_mean - GOOD_END_SD * sd)
        if gain < WORTH and good < WORTH:
            saved[id(draft)] = good
    kept = [each for each in drafts if id(each) not in saved]
    waiting = any(each.id not in desk.leaving for each in desk.facts.queue)
    if not saved or (not kept and not waiting):
        return Sifted(drafts)
    return Sifted(kept, [each for each in drafts if id(each) in saved], max(saved.values()))
