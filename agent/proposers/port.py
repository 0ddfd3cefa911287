"""The proposer's port: what is known goes in, drafts of hypotheses come out.

A proposer registers under the entry-point group `autoinfer.proposers`. It can't reach the evaluator:
it gets values and returns values. `tests/unit/agent/proposers/conformance.py` holds each to this page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from agent.surrogate.drafting import DraftingCost
from agent.surrogate.lone_prompt import LonePrompt
from agent.surrogate.objective import first_token_share
from agent.surrogate.prompt_launches import PromptLaunches
from agent.surrogate.step_tokens import StepTokens
from agent.surrogate.timed_kernels import TimedKernels
from experiments.engines.port import Blames, PartTime
from experiments.measurement.evidence import Json, Metric
from experiments.measurement.judging import Outcome
from experiments.measurement.plan import Prediction
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.space import Space
from knowledge.figures import listed

LATENCY_METRICS = (Metric.TPOT_MS, Metric.TTFT_MS, Metric.ITL_MS, Metric.E2EL_MS)
"""Metrics that a campaign can have as its objective."""


@dataclass(frozen=True)
class Measured:
    """One measurement of a configuration that several trials are held against: its name, and the standard
    error of its log."""

    name: str
    se_log: float


@dataclass(frozen=True)
class Trial:
    """One judged experiment as proposers, surrogate and ranking see it.

    `effect_log` is candidate over control (negative is faster) with standard error `effect_se_log`;
    None where nothing was measured. `bits_ratio_log` is the log of candidate over baseline bits per byte.
    `acceptance_length` is the candidate's mean number of tokens a verification step (None without drafting).
    `profile` is the candidate's own decode step by part, empty where it was not profiled.
    `metric` is what the effect is on; None stands for the campaign's objective. `removed_layers` are those
    that the candidate's pruning took out of the model, by their place in it (None: not told). `runs` is the
    candidate's resolved configuration as its last launch told it, empty where none did. `arms` are the
    measurements of control and candidate where other trials share them; None where both were measured for
    this trial alone, side by side, as campaigns do. `blames` are the knobs that the engine's own words put a
    failure down to, empty where they name none.
    """

    hypothesis_id: int
    experiment_id: int
    control: Configuration
    candidate: Configuration
    lever: str
    outcome: Outcome
    effect_log: float | None
    effect_se_log: float | None
    bits_ratio_log: float | None
    task_points: float | None
    cost_s: float
    failure_kind: str | None = None
    acceptance_length: float | None = None
    metric: Metric | None = None
    removed_layers: tuple[int, ...] | None = None
    profile: tuple[PartTime, ...] = ()
    runs: Mapping[str, Json] = field(default_factory=dict)
    arms: tuple[Measured, Measured] | None = None
    blames: Blames = field(default_factory=dict)

    @property
    def on_objective(self) -> bool:
        """Whether its effect is on latency, as every campaign's objective is, and not on another metric."""
        return self.metric is None or self.metric in LATENCY_METRICS


@dataclass(frozen=True)
class FromModel:
    """Of which answer of a language model a draft is, its place there, and the labels of the findings that it
    builds on."""

    answer_id: int
    place: int
    builds_on: tuple[str, ...] = ()


@dataclass(frozen=True)
class Draft:
    """A hypothesis before it is accepted: a falsifiable claim with its numeric prediction.

    `metric` is what the claim is about; None stands for the campaign's objective. `builds_on` are the labels
    of the findings because of which it is proposed.
    """

    claim: str
    control: Configuration
    candidate: Configuration
    lever: str
    prediction: Prediction
    min_effect: float
    refuted_if: str
    rationale: str
    proposer: str
    parents: tuple[int, ...] = ()
    pinned: bool = False
    metric: Metric | None = None
    from_model: FromModel | None = None
    builds_on: tuple[str, ...] = ()


@dataclass(frozen=True)
class CarriedBest:
    """The best configuration that another campaign on the same engine came to, by verdicts of this database
    that are still believed.

    `campaign` and `experiment` are labels: whose it is, and the last test that led to it, `finding` the label
    of what that bears on (empty: of nothing). `log_ratio` is the natural log of its latency over that of
    `baseline`, the trial 0 there, added up over `steps` tests. `differs` is what of the ground is not the
    same, each as it was there and as it is here.
    """

    campaign: str
    experiment: str
    finding: str
    baseline: Configuration
    configuration: Configuration
    log_ratio: float
    steps: int
    differs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class StaleFinding:
    """A finding of a campaign's own scope by which a change helps, reached with versions that its target no
    longer has.

    `finding` is its label, `change` the values that it changes to, `effect_log` the natural log of the
    latency with it over that without (None: not told), `versions` what has moved on, each as it was then and
    as it is now: `torch 2.13.0`.
    """

    finding: str
    change: Mapping[str, KnobValue]
    effect_log: float | None
    versions: tuple[tuple[str, str], ...]

    @property
    def again(self) -> str:
        """What it says and why that is asked again, as a sentence without its stop."""
        then, now = (listed([each[place] for each in self.versions]) for place in (0, 1))
        return f"{self.finding} says that it helps with {then}; asked again since here {now}"


def nothing_refused(configuration: Configuration) -> str | None:
    """Refuses no configuration: what holds where there is no parameter budget and no joint condition."""
    return None


@dataclass(frozen=True)
class CampaignView:
    """What a proposer may read. `objective` is the latency that is to fall, `tpot_ms` the baseline's TPOT and
    `ttft_ms` its TTFT (None: not told) with requests of `new_tokens` each, `best_first_token_share` the first
    token's share of a whole request of the best so far (None: it is the baseline, or that was not measured);
    `incumbent` the best supported so far (the baseline at first); `taken` holds the digests of candidates
    proposed before, tested or not; `predict` gives the surrogate's belief of log(candidate / control).

    `refused` says in a sentence why a legal configuration can't be all the same (the parameter budget, what
    this model and engine don't allow together), None when it can; no draft may be refused. `serves_packed`
    tells whether the engine computes with packed weights; where it does not, quantization saves bytes and no
    time. `incumbent_profile` is the best's own decode step by part, empty where it was not profiled,
    `incumbent_runs` its resolved configuration as its last launch told it;
    `bandwidth_bytes_per_s` is what the target's memory was measured to give, None where it was not.
    `predict_on` predicts other metrics than the objective (`step_weight_bytes`, `nll_bits`, `task_correct`);
    where it is None the campaign takes hypotheses on its objective only. `launches_sd_log` is what of each
    prediction of the objective is between launches of one configuration, and won by none. `pruning_pays`:
    what is refused for its parameters or its memory may be had with fewer layers; not where a fixed list of
    configurations is all there is. `timed` are the engine's kernels for packed weights, timed alone (None:
    they were not). `step_tokens` counts what tokens of a step do here, `prompt_launches` what
    the first token of a lone request waits for, `lone_prompt` is the baseline's profile of it (None: it can't
    be told). `drafting_cost` is what drafting adds to a step (None: its profile says so).
    `carried_bests` is the best of each other campaign whose outcomes this one begins with,
    those of the nearest ground first; `stale_findings` says what helped here before its versions moved on.
    """

    space: Space
    baseline: Configuration
    incumbent: Configuration
    incumbent_hypothesis_id: int | None
    tpot_ms: float
    profile: tuple[PartTime, ...]
    model_layers: tuple[str, ...]
    cores: int
    trials: tuple[Trial, ...]
    taken: frozenset[str]
    banned_levers: frozenset[str]
    predict: Callable[[Configuration, Configuration], Prediction]
    min_effect: float
    seed: int
    refused: Callable[[Configuration], str | None] = nothing_refused
    serves_packed: bool = False
    incumbent_profile: tuple[PartTime, ...] = ()
    incumbent_runs: Mapping[str, Json] = field(default_factory=dict)
    bandwidth_bytes_per_s: float | None = None
    predict_on: Callable[[Configuration, Configuration, Metric], Prediction] | None = None
    launches_sd_log: float = 0.0
    pruning_pays: bool = True
    timed: TimedKernels | None = None
    step_tokens: StepTokens | None = None
    carried_bests: tuple[CarriedBest, ...] = ()
    stale_findings: tuple[StaleFinding, ...] = ()
    prompt_launches: PromptLaunches | None = None
    lone_prompt: LonePrompt | None = None
    objective: Metric = Metric.TPOT_MS
    ttft_ms: float | None = None
    new_tokens: int = 1
    best_first_token_share: float | None = None
    drafting_cost: DraftingCost | None = None

    @property
    def first_token_share(self) -> float:
        """Share of the objective that is the time to the first token, 0 to 1; 0 where TTFT is not told."""
        return first_token_share(self.objective, self.ttft_ms, self.tpot_ms, self.new_tokens)


class Proposer(Protocol):
    """Turns what is known into drafts.

    One that is made of several may name them as `parts`, a tuple of proposers: a campaign then asks these,
    each by its own hit rate.
    """

    name: str

    def propose(self, view: CampaignView, count: int) -> list[Draft]:
        """At most `count` drafts, legal in the space and not refused, none in `taken`; deterministic for a
        view. Each draft names as `proposer` who it is of, which is its hit rate's name too."""
        ...
