"""What a campaign's beliefs are learnt from, and the beliefs, which the very same need not learn twice."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

from agent.proposers.port import Trial
from agent.surrogate.beliefs import Beliefs
from agent.surrogate.carried import Carried
from agent.surrogate.cost import checkpoint_keys
from agent.surrogate.cost_priors import CostPriors
from agent.surrogate.feasibility import Tried
from agent.surrogate.levers import LeverView
from agent.surrogate.physics import Physics
from configs.garbage import uncollected
from experiments.measurement.plan import Margins
from experiments.space.configuration import Configuration
from experiments.space.space import Space

MOST_KEPT = 4
"""Beliefs that are kept, those learnt last: as many as grounds that pages keep, which hold the same ones. Of
a campaign of 5,000 tests each takes some 15 MB."""


@dataclass(frozen=True)
class LearntFrom:
    """All that `Beliefs.learn` is given by a campaign; what is equal teaches the same."""

    space: Space
    physics: Physics
    trials: Sequence[Trial]
    margins: Margins
    priors: CostPriors
    judges_quality: bool
    carried: Sequence[Carried]
    swept: Sequence[Tried]
    built_ahead: Sequence[Configuration] = ()
    """Whose checkpoints are there before any test built them."""

    def beliefs(self) -> Beliefs:
        """The beliefs: as they were learnt before, where that was from the very same. Most of what happens in
        a campaign, a hypothesis or a directive more, is no outcome, and teaches nothing."""
        with _lock:
            known = next((beliefs for learnt_from, beliefs in _kept if learnt_from == self), None)
        if known is not None:
            return known
        learnt = self._learnt()
        with _lock:
            _kept.append((self, learnt))
        return learnt

    @uncollected()
    def _learnt(self) -> Beliefs:
        return Beliefs.learn(
            self.space,
            self.physics,
            self.trials,
            self.margins,
            checkpoint_keys(LeverView.of(self.space, self.physics.baseline), self.built_ahead),
            priors=self.priors,
            judges_quality=self.judges_quality,
            carried=self.carried,
            swept=self.swept,
        )


_kept: deque[tuple[LearntFrom, Beliefs]] = deque(maxlen=MOST_KEPT)
_lock = Lock()
