"""The answers to the questions that a campaign asks, as values: their contrasts, with both arms."""

from __future__ import annotations

from datetime import datetime

from configs.questions import Role
from db.models.base import JsonObject
from db.states import CampaignState, HypothesisState, VerdictOutcome
from knowledge.queries.measured.drafting import DraftingView
from knowledge.queries.measured.quality_tests import QualityTestView
from knowledge.queries.measured.stages import StageReport
from knowledge.queries.view import View


class ArmView(View):
    """One side of a contrast: its knobs that differ from the baseline's, and what was found of it.

    `value` is the judged metric's own: bits per byte for `nll_bits`, the share of items for `task_correct`,
    bytes for `step_weight_bytes`; None for times. `count` is of the documents or items behind `value`.
    `stored` says how the weights are stored. `step_ms` is the median time of a decode step in the timed
    requests, drafting and verifying together; `drafter_parameters` are those of what drafts, None where
    nothing does.
    """

    knobs: JsonObject
    stored: str | None
    bits_per_weight: float | None
    step_weight_bytes: float | None
    value: float | None
    count: int
    drafting: DraftingView | None
    step_ms: float | None
    parameters: int | None
    drafter_parameters: int | None


class ConfoundedView(View):
    """The confounded test of a claim that another hypothesis makes anew; `experiment` is None where it was
    not tested, for what confounded another test would have confounded it too."""

    hypothesis: str
    experiment: str | None
    reason: str

    @property
    def label(self) -> str:
        """The experiment, or the hypothesis where it was not tested."""
        return self.experiment or self.hypothesis


class ContrastView(View):
    """One contrast. Effects as the judge has them: natural logs of candidate over control, for `task_correct`
    the share of items lost; `why_open` says why there is no verdict; `quality_held` is None where it was not
    measured or stayed open; `quality` are the tests behind it, and `text_changed` tells that the candidate's
    drafting was found to change the text. `confounded` tells of the test of the claim as it was asked, where
    these are of one that makes it anew with the knobs `held` in both arms. `answered_in` is the other
    campaign that measured them, where that asked the same and it was not tested again."""

    id: str
    role: Role
    claim: str
    if_supported: str | None
    if_refuted: str | None
    why: str
    metric: str
    min_effect: float
    hypothesis: str | None
    state: HypothesisState | None
    control: ArmView
    candidate: ArmView
    experiment: str | None
    outcome: VerdictOutcome | None
    reason: str | None
    why_open: str | None
    quality_held: bool | None
    quality: tuple[QualityTestView, ...]
    text_changed: bool
    effect: float | None
    low: float | None
    high: float | None
    alpha: float
    launches: int
    samples: int
    reports: tuple[StageReport, ...]
    reproductions: tuple[tuple[str, VerdictOutcome], ...]
    held: JsonObject
    confounded: ConfoundedView | None
    answered_in: str | None = None


class AnswerView(View):
    """One question with its contrasts."""

    asks: str
    contrasts: tuple[ContrastView, ...]


class AnswersView(View):
    """All questions of a campaign; `scope` is the end of a sentence: where alone the answers hold. `given`
    are the options of `autoinfer run` that replace values of the campaign's file, the model's apart."""

    campaign: str
    name: str
    model: str
    model_fingerprint: str
    seed: int
    started_at: datetime | None
    state: CampaignState
    stopped_because: str | None
    baseline: JsonObject | None
    parameter_budget: str | int | None
    spent_s: float
    scope: str
    given: tuple[str, ...]
    answers: tuple[AnswerView, ...]

    @property
    def contrasts(self) -> tuple[ContrastView, ...]:
        """All contrasts, in order."""
        return tuple(contrast for answer in self.answers for contrast in answer.contrasts)
