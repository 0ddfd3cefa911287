"""What the loop knows of its campaign, as plain values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agent.campaign.known.incumbent import Incumbent, find_incumbent
from agent.campaign.known.other_targets import OtherTarget
from agent.campaign.known.ruled_out import RuledOut
from agent.proposers.port import CarriedBest, StaleFinding, Trial
from agent.surrogate.carried import Carried
from agent.surrogate.feasibility import Tried
from configs.campaign import CampaignSpec
from configs.questions import Question
from db.labels import Noun, format_label
from db.states import CampaignState, HypothesisState
from experiments.engines.port import PartTime
from experiments.measurement.evidence import Json, Metric
from experiments.measurement.noise import noise_key
from experiments.measurement.plan import Prediction
from experiments.space.configuration import Configuration
from experiments.space.space import Space
from knowledge.hit_rates import Record

UNDECIDED = frozenset({HypothesisState.PROPOSED, HypothesisState.QUEUED, HypothesisState.TESTING})
"""States of a question's hypothesis in which the question is open."""


@dataclass(frozen=True)
class Queued:
    """A hypothesis that waits for its test; `question` is the campaign's question that it answers,
    `separates` the label of the confounded experiment whose causes it takes apart, `stands_for` the
    hypothesis whose claim it makes anew for that, `disputes` the labels of the findings whose dispute it
    takes apart."""

    id: int
    claim: str
    control: Configuration
    candidate: Configuration
    lever: str
    prediction: Prediction
    min_effect: float
    proposer: str
    pinned: bool
    rank: int | None
    metric: str
    question: str | None = None
    separates: str | None = None
    stands_for: int | None = None
    foreseen: bool = False
    """Whether that was not tested, for what confounded the experiment would have confounded it too."""
    disputes: tuple[str, ...] = ()
    target: str = ""
    """Where it is to be confirmed; empty for the campaign's own target."""
    confirms: int | None = None
    """The experiment that it confirms there."""


@dataclass(frozen=True)
class Facts:
    """A campaign as it stands.

    `baseline` is None until trial 0 is chosen; the budget of `spec` is the one that it has by now, with what
    was added.
    """

    id: int
    spec: CampaignSpec
    state: CampaignState
    model_fingerprint: str
    target_key: str
    model_layers: tuple[str, ...]
    cores: int
    spent_s: float
    baseline: Configuration | None
    naive: Configuration | None
    baseline_experiment_id: int | None
    trials: tuple[Trial, ...]
    queue: tuple[Queued, ...]
    under_test: tuple[int, ...]
    proposed: tuple[tuple[str, str, HypothesisState], ...]
    asked: tuple[tuple[str, HypothesisState], ...] = ()
    """The questions that became hypotheses, each with the state of its hypothesis, or of what stands for
    it."""
    checkpoint: Path = Path()
    """The folder of the model."""
    stored_digests: Mapping[str, str] = field(default_factory=dict)
    """Digests under which configurations of the sweep were measured, where the space has grown since."""
    profiles: Mapping[int, tuple[PartTime, ...]] = field(default_factory=dict)
    """Decode steps of candidates by part, by experiment, where they were profiled."""

    compute_capability: str | None = None
    """Of the target's GPU, where that is one and known."""
    at_once: int | None = None
    """The most launches that may be up at once; 1: in turn; None: as many as a step asks for."""
    built_s: Mapping[str, float] = field(default_factory=dict)
    """Seconds that builds of the model took here, by method (`builds.measured_builds`)."""
    built_ahead: tuple[Configuration, ...] = ()
    """Whose checkpoints were built while its baseline was measured."""
    usd_per_s: float | None = None
    """What a second of a rented target costs, once something ran there."""
    flying: tuple[tuple[Configuration, Configuration], ...] = ()
    """What is under test, each as its control and its candidate."""
    flying_ids: tuple[int, ...] = ()
    """The hypotheses of these."""
    disputes_tested: int = 0
    """How many tests, done and under way, were to take a dispute between findings apart."""
    targets: tuple[OtherTarget, ...] = ()
    """Those that it confirms on."""
    confirmed: frozenset[tuple[int, str]] = frozenset()
    """Experiments that were put into the queue for another target, or confirmed there by hand; with it."""
    start: Configuration | None = None
    """What it begins from; None: the engine's own default."""
    start_refused: str | None = None
    """Why it does not begin from that default, as a clause."""
    carried: tuple[Carried, ...] = ()
    """Trials of other campaigns on the same engine."""
    carried_bests: tuple[CarriedBest, ...] = ()
    """The best that each of these campaigns came to."""
    worked_before: bool = False
    """Whether a test of another campaign with its engine was measured and settled on its target."""
    failed_in_sweep: tuple[Tried, ...] = ()
    """What the sweep before trial 0 could not run."""
    ruled_out: tuple[RuledOut, ...] = ()
    """What findings of other campaigns speak against."""
    stale_findings: tuple[StaleFinding, ...] = ()
    """What helped here with versions that are no longer here."""
    gpu_name: str | None = None
    """What the driver calls the target's GPU, where it is one."""
    gpu_memory_bytes: int | None = None
    """Bytes of its memory."""
    auto_step_tokens: int | None = None
    """How many tokens a step had where that was left to the server, as trial 0 told it."""
    incumbent_runs: Mapping[str, Json] = field(default_factory=dict)
    """The resolved configuration of the best so far, as its last launch told it; empty without a baseline."""
    incumbent_first_token_share: float | None = None
    """The first token's share of a whole request of the best so far, by the test that led to it; None in a
    campaign about anything else, and where the best is the baseline."""

    records: Mapping[str, Record] = field(default_factory=dict)
    """What became of each proposer's hypotheses, here and in other campaigns."""

    def begins_from(self, space: Space) -> Configuration:
        """The configuration that its sweep starts at."""
        return self.start or space.configuration({})

    @property
    def in_turn(self) -> bool:
        """Whether launches run one at a time."""
        return self.at_once == 1

    @property
    def noise_key(self) -> str:
        """The name under which the noise of its launches is kept."""
        asked_over = self.spec.plan.workload.asked_over
        return noise_key(self.target_key, in_turn=self.in_turn, asked_over=asked_over)

    @property
    def label(self) -> str:
        """`C-3`."""
        return format_label(Noun.CAMPAIGN, self.id)

    def taken(self, control: Configuration, leaving: Collection[int] = ()) -> frozenset[str]:
        """Digests of candidates that were proposed before; what was withdrawn on another control, or is
        `leaving` the queue, may come again on this one."""
        gone = {(each.control.digest, each.candidate.digest) for each in self.queue if each.id in leaving}
        return frozenset(
            candidate
            for before, candidate, state in self.proposed
            if before == control.digest
            or (state != HypothesisState.WITHDRAWN and (before, candidate) not in gone)
        )

    @property
    def objective(self) -> Metric:
        """The metric that the campaign lowers."""
        return Metric(self.spec.plan.metric)

    @property
    def incumbent(self) -> Incumbent | None:
        """The supported configuration that is best on the objective, by the chain that leads to it."""
        return None if self.baseline is None else find_incumbent(self.baseline, self.trials, self.objective)

    @property
    def unasked(self) -> tuple[Question, ...]:
        """The campaign's questions that are no hypotheses yet, in the order of its file."""
        known = {question for question, _ in self.asked}
        return tuple(each for each in self.spec.questions if each.id not in known)

    @property
    def open_questions(self) -> tuple[str, ...]:
        """Ids of the questions that nothing decided yet, in the order of the campaign's file."""
        states = dict(self.asked)
        return tuple(
            each.id
            for each in self.spec.questions
            if states.get(each.id, HypothesisState.PROPOSED) in UNDECIDED
        )
