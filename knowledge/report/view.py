"""What a report says, as values: the schema of `autoinfer report --format json`. See docs/report.md.

Effects are relative (−0.12 is 12 % less), speed-ups are the baseline's time over the candidate's, and
intervals stand beside estimates as `low` and `high`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from db.models.base import JsonObject
from db.states import ExperimentKind, ExperimentState, VerdictOutcome
from knowledge.figures import DEFAULT_METRIC
from knowledge.queries.baseline_in_tests import BaselineInTestsView
from knowledge.queries.campaigns import CampaignView
from knowledge.queries.claims.calibration import CalibrationView
from knowledge.queries.claims.model_answers import AskedView
from knowledge.queries.claims.predictions import PredictionsView
from knowledge.queries.claims.proposers import ProposerView
from knowledge.queries.found.findings import FindingView
from knowledge.queries.found.verification import VerificationView
from knowledge.queries.measured.further import FurtherView
from knowledge.queries.measured.gpu_throttling import GpuThrottlingView
from knowledge.queries.order.carried import CarriedView
from knowledge.queries.pareto import ParetoView
from knowledge.queries.present.now_best import BestView, MarginView
from knowledge.queries.spent.costs import CostsView
from knowledge.queries.view import ChangeView, EffectView, View

FORMAT: Literal["autoinfer-report-1"] = "autoinfer-report-1"
"""What a report says that it is, and so how it is read."""


class AnsweredView(View):
    """A question that the campaign asked, with its answer in a sentence (`**` around words that lead)."""

    asks: str
    answer: str


class TrialView(View):
    """A test that was begun, in the order of the campaign: `number` counts from 1.

    `effect` is against its own control, `over_baseline` against the campaign's baseline (of a chain of such
    effects, intervals in quadrature), on the campaign's own metric; None where nothing was timed or the test
    is confounded. `best_speedup` is the campaign's best after it. `why_then` is the reason of its last place
    in the queue, `reason` the judge's sentence.
    """

    number: int
    experiment: str
    hypothesis: str
    claim: str
    lever: str
    proposer: str
    change: tuple[ChangeView, ...]
    min_effect: float
    state: ExperimentState
    outcome: VerdictOutcome | None
    latency_only: bool
    reason: str | None
    effect: EffectView | None
    pairs: int
    samples: int
    predicted: EffectView | None
    over_baseline: EffectView | None
    bits_per_byte: MarginView | None
    tasks: MarginView | None
    is_new_best: bool
    best_speedup: float | None
    why_then: str | None
    wall_s: float | None
    most_pairs: int | None = None


class AgainView(View):
    """A test once more: a reproduction in fresh processes, or on another target. `is_check`: the check of a
    recipe, which holds the whole of it against the baseline."""

    experiment: str
    kind: ExperimentKind
    of: str
    target: str
    state: ExperimentState
    outcome: VerdictOutcome | None
    effect: EffectView | None
    is_check: bool = False
    wall_s: float | None = None


class FurtherTestView(View):
    """What a test measured of further workloads; it is no part of its verdict."""

    experiment: str
    workloads: tuple[FurtherView, ...]


class InDoubtView(View):
    """A supported test of whose findings the verdicts disagree now, or that are not acted on any more, with a
    clause for each of these: `F-003 is contradicted`."""

    experiment: str
    because: tuple[str, ...]


class MoveCauseView(View):
    """An event that moved hypotheses in the queue: how many, and the first of the reasons."""

    event_id: int
    kind: str
    subject: str | None
    moves: int
    reason: str


class SearchView(View):
    """How the queue was walked: hypotheses by who proposed them, those withdrawn, and what moved the queue,
    the most moves first; `moves` counts all of them."""

    proposed: Mapping[str, int]
    withdrawn: int
    moves: int
    causes: tuple[MoveCauseView, ...]


class SealView(View):
    """A preregistration: the SHA-256 that was sealed at `sealed_at`, before a worker took the run up at
    `began_at` and so before its first launch; None where none did. `holds` is whether every stored copy still
    says what was sealed, `broken` which does not, both None where the job is no longer kept."""

    experiment: str
    hypothesis: str | None
    kind: ExperimentKind
    digest: str
    sealed_at: datetime
    began_at: datetime | None
    holds: bool | None
    broken: str | None


class MachineView(View):
    """A machine and the software that launches ran on; what a driver does not tell is None."""

    launches: int
    experiments: tuple[str, ...]
    cpu: str | None
    cores: int | None
    memory_bytes: int | None
    gpu: str | None
    gpu_memory_bytes: int | None
    driver: str | None
    os: str | None
    kernel: str | None
    python: str | None
    packages: Mapping[str, str]
    git_revision: str | None
    git_changed: bool | None


class BuiltView(View):
    """An artifact by its digest: what it was made from and with; `experiments` built or used it."""

    digest: str
    kind: str
    inputs: JsonObject
    tool_versions: JsonObject
    bytes: int
    build_s: float
    experiments: tuple[str, ...]


class SamplesView(View):
    """The raw samples of an experiment: how many, the SHA-256 over them, and how to get them."""

    experiment: str
    kind: ExperimentKind
    seed: int | None
    launches: int
    samples: int
    digest: str
    command: str


class CommandView(View):
    """A command that repeats a part of this, and what it repeats."""

    what: str
    command: str


class InterruptionView(View):
    """An event that kept a campaign from its work, or that it went on, in the words of the log."""

    event_id: int
    at: datetime
    subject: str | None
    text: str


class ReportView(View):
    """A campaign as a report. Nothing but `made_at` depends on when it is made; `written_at` is the last
    event that it knows of. `asked` is what a language model was asked, `carried` what other campaigns'
    outcomes count, `throttling` in how many timed blocks a GPU was held down, `baseline_in_tests` what the
    baseline takes in tests where that is another time, each None where there is none."""

    format: Literal["autoinfer-report-1"] = FORMAT
    made_at: datetime
    autoinfer: str
    written_at: datetime | None
    campaign: CampaignView
    plan: JsonObject
    engine: str
    judge: str
    judge_versions: tuple[str, ...]
    space: str
    spec: JsonObject
    questions: tuple[AnsweredView, ...]
    baseline: JsonObject | None
    best: BestView | None
    baseline_in_tests: BaselineInTestsView | None
    throttling: GpuThrottlingView | None
    pareto: ParetoView
    trials: tuple[TrialView, ...]
    again: tuple[AgainView, ...]
    further_workloads: tuple[FurtherTestView, ...]
    search: SearchView
    interruptions: tuple[InterruptionView, ...]
    proposers: tuple[ProposerView, ...]
    asked: AskedView | None
    carried: CarriedView | None
    verification: VerificationView
    in_doubt: tuple[InDoubtView, ...] = ()
    findings: tuple[FindingView, ...]
    predictions: PredictionsView
    calibration: CalibrationView
    seals: tuple[SealView, ...]
    costs: CostsView
    machines: tuple[MachineView, ...]
    artifacts: tuple[BuiltView, ...]
    samples: tuple[SamplesView, ...]
    commands: tuple[CommandView, ...]

    @property
    def metric(self) -> str:
        """The campaign's own metric, by its name: what its tests are judged on as a rule."""
        return str(self.plan.get("metric", self.campaign.objective.get("metric", DEFAULT_METRIC)))

    def judged(self, *outcomes: VerdictOutcome) -> tuple[TrialView, ...]:
        """The trials with one of these outcomes; all that have one where none is named."""
        return tuple(
            each
            for each in self.trials
            if each.outcome is not None and (not outcomes or each.outcome in outcomes)
        )
