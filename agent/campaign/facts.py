"""What the loop knows of its campaign: one read of the database, as plain values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Row, select
from sqlalchemy.orm import Session

from agent.campaign import store
from agent.campaign.builds import measured_builds
from agent.campaign.carried import carried_trials
from agent.campaign.other_targets import OtherTarget, confirmed_before, read_targets
from agent.campaign.paid import usd_per_s
from agent.campaign.profiles import candidate_profiles
from agent.campaign.ran import resolved_of
from agent.campaign.settling import settled, stored_digests
from agent.proposers.port import Trial
from agent.surrogate.carried import Carried
from configs.campaign import CHECKPOINT, DUMMY, CampaignSpec
from configs.errors import UsageError
from configs.questions import Question, is_latency
from configs.targets import is_rented
from db.labels import Noun, format_label
from db.models import Campaign, Experiment, Hypothesis, StageRun, Verdict
from db.states import CampaignState, ExperimentKind, ExperimentState, HypothesisState
from experiments.engines.port import PartTime
from experiments.measurement.evidence import Json, Metric, Stage
from experiments.measurement.judging import Outcome
from experiments.measurement.noise import noise_key
from experiments.measurement.plan import Prediction
from experiments.space.configuration import Configuration
from experiments.space.space import Space
from knowledge.approvals import approve_above_s
from knowledge.hit_rates import Record
from knowledge.queries.proposers import records
from knowledge.stored import separates_of

FOUND = "found"
"""What of a stored campaign's spec was not asked for but found on the ground."""

AT_ONCE = "at_once"
"""What of the ground tells how many launches may be up at once, where that is limited."""

START = "start"
"""What of the ground tells from which configuration the campaign begins, where that is not the default."""

HUB, GPU = "hub", "gpu"
"""What of the ground tells where a model of the hub came from, and what a GPU is."""

REFERENCE = "reference"
"""The name of the packaged model, which every installation has at a place of its own."""

STEP_LENGTH = "acceptance_length"
"""Where a verdict's `judge` keeps the candidate's mean number of tokens a verification step."""

UNDECIDED = frozenset({HypothesisState.PROPOSED, HypothesisState.QUEUED, HypothesisState.TESTING})
"""States of a question's hypothesis in which the question is open."""

WAITING = (HypothesisState.PROPOSED, HypothesisState.QUEUED)
"""States in which a hypothesis stands in the queue."""

# What is read of every row, which of a long campaign is quicker than whole objects, structures above all.
_OF_HYPOTHESIS = (
    Hypothesis.id,
    Hypothesis.control_configuration_id,
    Hypothesis.candidate_configuration_id,
    Hypothesis.lever,
    Hypothesis.metric,
    Hypothesis.question,
    Hypothesis.state,
    Hypothesis.target,
)
_OF_EXPERIMENT = (
    Experiment.id,
    Experiment.kind,
    Experiment.state,
    Experiment.hypothesis_id,
    Experiment.wall_s,
    Experiment.failure_kind,
)
_OF_VERDICT = (
    Verdict.experiment_id,
    Verdict.outcome,
    Verdict.effect_log,
    Verdict.quality,
    Verdict.judge,
)


@dataclass(frozen=True)
class Queued:
    """A hypothesis that waits for its test; `question` is the campaign's question that it answers,
    `separates` the label of the confounded experiment whose causes it takes apart."""

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
    target: str = ""
    """Where it is to be confirmed; empty for the campaign's own target."""
    confirms: int | None = None
    """The experiment that it confirms there."""


@dataclass(frozen=True)
class Incumbent:
    """The best configuration that a verdict supports; the baseline at first.

    `log_ratio` is the natural log of its TPOT over the baseline's, added up along the chain of supported
    changes that leads to it; `hypothesis_id` is the last of them, None for the baseline.
    """

    configuration: Configuration
    log_ratio: float
    hypothesis_id: int | None
    experiment_id: int | None
    steps: int


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
    """The questions that became hypotheses, each with the state of its hypothesis."""
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
    usd_per_s: float | None = None
    """What a second of a rented target costs, once something ran there."""
    flying: tuple[tuple[Configuration, Configuration], ...] = ()
    """What is under test, each as its control and its candidate."""
    flying_ids: tuple[int, ...] = ()
    """The hypotheses of these."""
    targets: tuple[OtherTarget, ...] = ()
    """Those that it confirms on."""
    confirmed: frozenset[tuple[int, str]] = frozenset()
    """Experiments that were put into the queue for another target, or confirmed there by hand; with it."""
    start: Configuration | None = None
    """What it begins from; None: the engine's own default."""
    start_refused: str | None = None
    """Why it does not begin from that default, as a clause."""
    carried: tuple[Carried, ...] = ()
    """Trials of other campaigns on the same target and engine."""
    gpu_name: str | None = None
    """What the driver calls the target's GPU, where it is one."""
    gpu_memory_bytes: int | None = None
    """Bytes of its memory."""
    incumbent_runs: Mapping[str, Json] = field(default_factory=dict)
    """The resolved configuration of the best so far, as its last launch told it; empty without a baseline."""

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
        return noise_key(self.target_key, in_turn=self.in_turn)

    @property
    def label(self) -> str:
        """`C-3`."""
        return format_label(Noun.CAMPAIGN, self.id)

    def taken(self, control: Configuration) -> frozenset[str]:
        """Digests of candidates that were proposed before; what was withdrawn on another control may come
        again on this one."""
        return frozenset(
            candidate
            for before, candidate, state in self.proposed
            if state != HypothesisState.WITHDRAWN or before == control.digest
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


def is_on(trial: Trial, objective: Metric) -> bool:
    """Whether a trial's effect is on this metric; a trial that names none is on the campaign's objective."""
    return trial.metric is None or trial.metric is objective


def find_incumbent(
    baseline: Configuration, trials: Sequence[Trial], objective: Metric = Metric.TPOT_MS
) -> Incumbent:
    """Follow supported changes from the baseline and take the lowest sum of effects on `objective`.

    A change that was supported on another metric, such as bits or bytes, is no step. A supported change
    counts only from a control that is itself reached from the baseline. Where several chains lead to one
    configuration the shortest counts: fewer measured steps, less added error.
    """
    reached = {baseline.digest: Incumbent(baseline, 0.0, None, None, 0)}
    supported: dict[str, list[Trial]] = {}
    for each in trials:
        if each.outcome == Outcome.SUPPORTED and each.effect_log is not None and is_on(each, objective):
            supported.setdefault(each.control.digest, []).append(each)
    frontier = [baseline.digest]
    while frontier:
        following: list[str] = []
        for digest in frontier:
            start = reached[digest]
            for trial in supported.get(digest, ()):
                if trial.candidate.digest in reached:
                    continue
                assert trial.effect_log is not None
                reached[trial.candidate.digest] = Incumbent(
                    trial.candidate,
                    start.log_ratio + trial.effect_log,
                    trial.hypothesis_id,
                    trial.experiment_id,
                    start.steps + 1,
                )
                following.append(trial.candidate.digest)
        frontier = following
    return min(reached.values(), key=lambda each: (each.log_ratio, each.steps))


def read_facts(session: Session, campaign_id: int) -> Facts:
    """Everything the loop decides by; a handful of statements, whatever the size of the campaign.

    Raises `UsageError` when there is no such campaign.
    """
    campaign = session.get(Campaign, campaign_id)
    if campaign is None:
        label = format_label(Noun.CAMPAIGN, campaign_id)
        raise UsageError(f"{label} does not exist.", "See which do with: autoinfer campaign list")
    hypotheses = session.execute(
        select(*_OF_HYPOTHESIS).where(Hypothesis.campaign_id == campaign_id).order_by(Hypothesis.id)
    ).all()
    waiting = session.scalars(
        select(Hypothesis)
        .where(Hypothesis.campaign_id == campaign_id, Hypothesis.state.in_(WAITING))
        .order_by(Hypothesis.id)
    ).all()
    experiments = session.execute(
        select(*_OF_EXPERIMENT).where(Experiment.campaign_id == campaign_id).order_by(Experiment.id)
    ).all()
    verdicts = {
        verdict.experiment_id: verdict
        for verdict in session.execute(
            select(*_OF_VERDICT)
            .join(Experiment, Verdict.experiment_id == Experiment.id)
            .where(Experiment.campaign_id == campaign_id)
        )
    }
    asked, found = asked_of(campaign), campaign.spec[FOUND]
    spec = CampaignSpec.model_validate({**asked, **_terms_now(campaign)})
    stored = store.configurations(
        session,
        [campaign.baseline_configuration_id, campaign.naive_configuration_id]
        + [h.control_configuration_id for h in hypotheses]
        + [h.candidate_configuration_id for h in hypotheses],
    )
    known = {number: settled(each, spec.space) for number, each in stored.items()}
    swept = [
        each
        for each in (
            _known(stored, campaign.baseline_configuration_id),
            _known(stored, campaign.naive_configuration_id),
        )
        if each is not None
    ]
    begun = found.get(START) or {}
    start = settled(Configuration.of(begun["configuration"]), spec.space) if begun else None
    by_id = {hypothesis.id: hypothesis for hypothesis in hypotheses}
    baseline = _known(known, campaign.baseline_configuration_id)
    removed = _removed_layers(session, campaign_id)
    profiles = candidate_profiles(session, campaign_id)
    trials = tuple(
        replace(
            _trial(
                experiment,
                by_id[experiment.hypothesis_id],
                verdicts[experiment.id],
                known,
                baseline,
                removed,
            ),
            profile=profiles.get(experiment.id, ()),
        )
        for experiment in experiments
        if experiment.kind == ExperimentKind.TEST
        and experiment.hypothesis_id is not None
        and experiment.id in verdicts
    )
    baseline_run = [
        experiment.id
        for experiment in experiments
        if experiment.kind == ExperimentKind.BASELINE and experiment.state == ExperimentState.DONE
    ]
    facts = Facts(
        id=campaign.id,
        spec=spec,
        state=campaign.state,
        model_fingerprint=campaign.model_fingerprint,
        target_key=found["target_key"],
        model_layers=tuple(found["model_layers"]),
        cores=found["cores"],
        spent_s=float(campaign.budget.get("spent_s", 0.0)),
        baseline=baseline,
        naive=_known(known, campaign.naive_configuration_id),
        baseline_experiment_id=baseline_run[-1] if baseline_run else None,
        trials=trials,
        queue=tuple(_queued(hypothesis, known) for hypothesis in waiting),
        under_test=tuple(h.id for h in hypotheses if h.state == HypothesisState.TESTING),
        flying=tuple(
            (known[h.control_configuration_id], known[h.candidate_configuration_id])
            for h in hypotheses
            if h.state == HypothesisState.TESTING and not h.target
        ),
        flying_ids=tuple(h.id for h in hypotheses if h.state == HypothesisState.TESTING and not h.target),
        proposed=tuple(
            (known[h.control_configuration_id].digest, known[h.candidate_configuration_id].digest, h.state)
            for h in hypotheses
            # a comparison of bits or bytes that the campaign asked for leaves the one of latency open
            if not h.target and (h.question is None or h.metric == spec.plan.metric)
        ),
        asked=tuple((h.question, h.state) for h in hypotheses if h.question is not None),
        checkpoint=Path(found["checkpoint"]),
        stored_digests=stored_digests(spec.space, swept, spec.baseline.sweep, start),
        profiles=profiles,
        compute_capability=(found.get(GPU) or {}).get("compute_capability"),
        at_once=found.get(AT_ONCE),
        built_s=measured_builds(session, campaign.model_fingerprint),
        usd_per_s=usd_per_s(session, campaign.id, spec.target) if is_rented(spec.target) else None,
        targets=read_targets(session, campaign_id, spec.confirm_on, found, trials),
        confirmed=confirmed_before(session, campaign_id) if spec.confirm_on else frozenset(),
        gpu_name=(found.get(GPU) or {}).get("name"),
        records=records(session, campaign_id),
        gpu_memory_bytes=(found.get(GPU) or {}).get("memory_bytes"),
        start=start,
        start_refused=begun.get("why"),
        carried=carried_trials(session, campaign, spec),
    )
    best = facts.incumbent
    measured_in = None if best is None else best.experiment_id or facts.baseline_experiment_id
    if best is None or measured_in is None:
        return facts
    rows = {each: number for number, each in known.items()}
    return replace(facts, incumbent_runs=resolved_of(session, measured_in, rows[best.configuration]))


def asked_of(campaign: Campaign) -> dict[str, Any]:
    """What a stored campaign was started with, as data of a `CampaignSpec`.

    A model is named by the absolute folder that was found, whatever was typed: jobs run elsewhere than in
    the folder from which the campaign was started.
    """
    asked = {name: value for name, value in campaign.spec.items() if name != FOUND}
    found = campaign.spec.get(FOUND, {})
    packaged = is_packaged(str(asked.get("model")), str(asked.get("weights", CHECKPOINT)))
    if not packaged and "checkpoint" in found:
        asked["model"] = found["checkpoint"]
    return asked


def is_packaged(model: str, weights: str) -> bool:
    """Whether a campaign's model is the packaged one with its weights, which lies elsewhere in each
    installation."""
    return model == REFERENCE and weights != DUMMY


def _terms_now(campaign: Campaign) -> dict[str, Any]:
    """The terms that may change while a campaign goes on, as they are by now."""
    above_s = approve_above_s(campaign.budget)
    return {
        "budget": {"wall_s": campaign.budget["wall_s"]},
        "approve_above": None if above_s is None else {"wall_s": above_s},
    }


def _known(known: Mapping[int, Configuration], configuration_id: int | None) -> Configuration | None:
    return None if configuration_id is None else known[configuration_id]


def _queued(row: Hypothesis, known: Mapping[int, Configuration]) -> Queued:
    return Queued(
        id=row.id,
        claim=row.claim,
        control=known[row.control_configuration_id],
        candidate=known[row.candidate_configuration_id],
        lever=row.lever,
        prediction=Prediction.model_validate(row.prediction),
        min_effect=row.min_effect,
        proposer=row.proposer,
        pinned=row.pinned,
        rank=row.rank,
        metric=row.metric,
        question=row.question,
        separates=separates_of(row.change),
        target=row.target,
        confirms=row.confirms_experiment_id,
    )


def _trial(
    experiment: Row[*tuple[Any, ...]],
    hypothesis: Row[*tuple[Any, ...]],
    verdict: Row[*tuple[Any, ...]],
    known: Mapping[int, Configuration],
    baseline: Configuration | None,
    removed: Mapping[int, tuple[int, ...]],
) -> Trial:
    quality: Mapping[str, Any] = verdict.quality or {}
    bits = quality.get("bits_per_byte_relative")
    tasks = quality.get("task_points_lost")
    details: Mapping[str, Any] = verdict.judge.get("details") or {}
    control = known[hypothesis.control_configuration_id]
    # what compares with a control of its own says nothing of the loss against the baseline
    if not is_latency(hypothesis.metric) and control != baseline:
        bits = tasks = None
    return Trial(
        hypothesis_id=hypothesis.id,
        experiment_id=experiment.id,
        control=control,
        candidate=known[hypothesis.candidate_configuration_id],
        lever=hypothesis.lever,
        outcome=Outcome(verdict.outcome.value),
        effect_log=verdict.effect_log,
        effect_se_log=details.get("effect_se_log"),
        bits_ratio_log=None if bits is None else math.log1p(bits["difference"]),
        task_points=None if tasks is None else -tasks["difference"],
        cost_s=experiment.wall_s or 0.0,
        failure_kind=experiment.failure_kind,
        acceptance_length=verdict.judge.get(STEP_LENGTH),
        metric=Metric(hypothesis.metric),
        removed_layers=removed.get(experiment.id),
    )


def _removed_layers(session: Session, campaign_id: int) -> dict[int, tuple[int, ...]]:
    """The layers that the experiments of a campaign took out, as the stage told them, by experiment."""
    query = (
        select(StageRun.experiment_id, StageRun.detail)
        .join(Experiment, Experiment.id == StageRun.experiment_id)
        .where(Experiment.campaign_id == campaign_id, StageRun.stage == Stage.PRUNE.value)
    )
    found = {}
    for experiment_id, detail in session.execute(query):
        report = (detail or {}).get("report")
        told = report.get("removed") if isinstance(report, dict) else None
        if isinstance(told, list) and all(isinstance(each, int) for each in told):
            found[experiment_id] = tuple(told)
    return found
