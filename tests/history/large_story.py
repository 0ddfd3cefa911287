"""What happens in a long campaign: how many of each, what every test came to, and when."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import exp
from typing import Any

from db.states import VerdictOutcome

Row = dict[str, Any]

BEGAN = datetime(2026, 1, 5, 22, 0, tzinfo=UTC)
BASELINE_MS = 14.2
PAIRS = 2
QUEUED_SHARE = 0.04

OUTCOMES = (
    (VerdictOutcome.SUPPORTED, 0.15),
    (VerdictOutcome.REFUTED, 0.5),
    (VerdictOutcome.INCONCLUSIVE, 0.2),
    (VerdictOutcome.CONFOUNDED, 0.05),
    (VerdictOutcome.INFEASIBLE, 0.1),
)


@dataclass(frozen=True)
class Size:
    """How many rows of each noun; all hypotheses but those that wait have an experiment."""

    experiments: int = 5_000
    events: int = 200_000

    @property
    def queued(self) -> int:
        """How many of the hypotheses wait, beside those that were tested."""
        return max(8, int(QUEUED_SHARE * self.experiments))

    @property
    def hypotheses(self) -> int:
        """As many as experiments, and at least those that wait and those that have a test."""
        return self.experiments + self.queued - 1


class Story:
    """A campaign's course, drawn once; the first experiment is the baseline, and the last one still runs."""

    def __init__(self, size: Size, drawn: random.Random, campaign_id: int, first_event: int) -> None:
        self.size = size
        self.drawn = drawn
        self.campaign_id = campaign_id
        self.first_event = first_event
        self.outcomes = drawn.choices(
            [each for each, _ in OUTCOMES], [share for _, share in OUTCOMES], k=size.experiments
        )
        self.effects = [self._effect(each) for each in self.outcomes]
        self.parents = [
            None if number < 12 or drawn.random() < 0.3 else drawn.randrange(max(0, number - 60), number)
            for number in range(size.hypotheses)
        ]

    def _effect(self, outcome: VerdictOutcome) -> float:
        middle = {VerdictOutcome.SUPPORTED: -0.12, VerdictOutcome.REFUTED: 0.08}.get(outcome, -0.01)
        return self.drawn.gauss(middle, 0.04)

    def is_supported(self, number: int) -> bool:
        return self.outcomes[number] is VerdictOutcome.SUPPORTED

    def is_infeasible(self, number: int) -> bool:
        return number > 0 and self.outcomes[number] is VerdictOutcome.INFEASIBLE

    def at(self, number: int) -> datetime:
        """When the experiment of this number began."""
        return BEGAN + timedelta(minutes=7 * number)

    def reason(self, number: int) -> str:
        change = 100 * (exp(self.effects[number]) - 1)
        return f"TPOT changed by {change:+.1f} % (95 % interval, {PAIRS} launch pairs)."

    @property
    def best_experiment_id(self) -> int | None:
        """The experiment with the largest supported gain."""
        judged = range(1, self.size.experiments - 1)
        best = min(filter(self.is_supported, judged), key=lambda number: self.effects[number], default=None)
        return None if best is None else best + 1
