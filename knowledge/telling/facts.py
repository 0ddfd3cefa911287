"""What is known of a campaign, as values: what its summary and its story are told from.

`knowledge.queries.facts` gathers them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from db.models.base import JsonObject
from db.states import CampaignState, VerdictOutcome
from knowledge.queries.baseline_in_tests import BaselineInTestsView
from knowledge.queries.claims.discovery import DiscoveryView
from knowledge.queries.claims.model_answers import AskedView
from knowledge.queries.claims.proposers import ProposerView
from knowledge.queries.devices import AtRest
from knowledge.queries.found.fresh_runs import FreshView
from knowledge.queries.measured.gpu_throttling import GpuThrottlingView
from knowledge.queries.order.carried import CarriedView
from knowledge.queries.order.night import QuestionView
from knowledge.queries.spent.energy import EnergyView
from knowledge.queries.spent.untimed import UntimedView


@dataclass(frozen=True)
class JudgedFact:
    """A hypothesis with its verdict; effects and the predicted interval are natural logs, or differences of
    shares, as the metric has them."""

    id: str
    experiment: str
    claim: str
    metric: str
    outcome: VerdictOutcome
    reason: str
    effect_log: float | None
    low_log: float | None
    high_log: float | None
    predicted_log: tuple[float, float, float] | None
    """Mean, low and high of the prediction's 80 % interval."""
    follow_ups: tuple[str, ...] = ()
    """The hypotheses that separate the causes, of a confounded one."""

    @property
    def surprise(self) -> float:
        """How far the effect lies outside the predicted interval, in half-widths of it; 0 inside."""
        if self.effect_log is None or self.predicted_log is None:
            return 0.0
        _, low, high = self.predicted_log
        outside = max(low - self.effect_log, self.effect_log - high, 0.0)
        return outside / ((high - low) / 2)


@dataclass(frozen=True)
class WaitingFact:
    """A hypothesis under test (`stage` says how far it is, `device` where) or in the queue (`reason` says why
    there)."""

    id: str
    claim: str
    stage: str | None
    reason: str | None
    device: str | None = None
    interrupted: bool = False
    """Whether nobody measures it any more, of one under test."""
    ended: str | None = None
    """How its test ended that its campaign is to conclude from, as a clause; None while it has not."""


@dataclass(frozen=True)
class CampaignFacts:
    """All that a summary says, as values; `spent_s` of `budget_s` in seconds, without pauses, None before it
    started."""

    campaign: str
    name: str
    model: str
    target: str
    state: CampaignState
    stopped_because: str | None
    started_at: datetime | None
    spent_s: float | None
    budget_s: float | None
    experiments: int
    experiment_s: float
    """Of all its experiments that ended, those that ran something once more too."""
    hypotheses: dict[str, int]
    testing: tuple[WaitingFact, ...]
    next: tuple[WaitingFact, ...]
    judged: tuple[JudgedFact, ...]
    interrupted: bool = False
    """Whether it should go on, and nothing drives it."""
    approve_above_s: float | None = None
    """The expected seconds of a test above which the user is asked; None where nothing waits for approval."""
    unfinished: int = 0
    """Of its experiments, those that have not ended, whose time is not known."""
    untimed: UntimedView = field(default_factory=UntimedView)
    """What those took at least, and attempts that broke off."""
    energy: EnergyView | None = None
    """What its cards took; None where it ran on none."""
    again: int = 0
    """Experiments that ran a test or a recipe once more on request, as after its end."""
    again_s: float = 0.0
    ahead: str | None = None
    """What was built beside the baseline, which no experiment counts."""
    awaiting: int = 0
    """Hypotheses that wait for approval."""
    at_rest: tuple[AtRest, ...] = ()
    """Devices that others use, so that it gives them no test, or did when it was interrupted."""
    throttling: GpuThrottlingView | None = None
    """That a GPU was held down while tests were timed; None where none was."""
    baseline_in_tests: BaselineInTestsView | None = None
    """That the baseline takes another time in tests than when it was measured; None where that is not
    told."""
    made_anew: tuple[str, ...] = ()
    """The hypotheses that make the claims anew of those that were not tested, for what confounded a test
    would have confounded them too."""
    question: QuestionView | None = None
    """The question of the night."""
    carried: CarriedView | None = None
    """What other campaigns found that it began with, and how far that is believed now."""
    proposers: tuple[ProposerView, ...] = ()
    """Who proposed, and what became of it."""
    asked: AskedView | None = None
    """What a language model was asked, and what that cost; None where none was."""
    discovery: DiscoveryView | None = None
    """What the online control of false discoveries bounds."""
    differs: Mapping[str, FreshView] = field(default_factory=dict)
    """The supported tests whose newest fresh run differs, by label, with what it says."""
    in_doubt: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The supported tests of whose findings the verdicts disagree now, or that are not acted on any more, by
    label, with a clause for each finding: `F-003 is contradicted`."""
    outcome: JsonObject = field(default_factory=dict)
    """What it came to: `baseline`, `naive` and `best`, each with `tpot_ms`; empty before trial 0 is
    measured."""
