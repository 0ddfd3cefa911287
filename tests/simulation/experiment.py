"""Experiments with a known truth: samples drawn from a stated model, steered by a real judge to its stop.

The log of a sample is the sum of: the arm's effect, the launch's own effect, a linear drift of the machine
over the whole experiment, an autocorrelated disturbance (AR(1) over the blocks of a pair), the prompt's
level, the request's noise and, rarely, an interruption. A launch's own effect is normal, or has the tails of
Student's t; it is independent of those before, or an AR(1) over the launches of its arm (slow change).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from experiments.measurement.evidence import (
    Arm,
    Evidence,
    Json,
    LaunchRecord,
    Metric,
    NoiseProfile,
    Sample,
    Stage,
)
from experiments.measurement.judging import (
    Evaluate,
    Judge,
    JudgeVerdict,
    MeasureMore,
    MeasurePair,
    Screen,
    Stop,
)
from experiments.measurement.noise import NoiseRow, launch_noise, noise_profile
from experiments.measurement.plan import Prediction, StoppingPlan, Workload
from experiments.space.configuration import Change

Floats: TypeAlias = NDArray[np.float64]

DEFAULT_PLAN = StoppingPlan(
    prediction=Prediction(log_ratio_mean=-0.1, log_ratio_sd=0.1), workload=Workload(evaluation_items=200)
)
"""The default plan, but for fewer task items."""

PLAN = DEFAULT_PLAN.model_copy(update={"full_pairs": 4})
"""The same as a campaign of minutes has it (agent.plan.length)."""

COMPILED = (Change("serving.compile", "off", "default"),)
PRUNED = (Change("pruning.method", "none", "depth"), Change("pruning.layers_removed", None, 1))
MOST_STEPS = 50


@dataclass(frozen=True)
class Truth:
    """What the samples are drawn from, all on the log scale but for `load_s` and `tpot_ms`.

    `launch_sd` is the standard deviation of a launch's own effect, of the candidate's launches too unless
    `candidate_launch_sd` says otherwise; with `launch_tails` degrees of freedom (3 or more) it is Student's t
    scaled to it. `launch_autocorrelation` is that of successive launches of an arm. `drift_a_block` is the
    slope of the machine, `disturbance_sd` and `autocorrelation` the noise of blocks within a pair.
    """

    effect_log: float = 0.0
    launch_sd: float = 0.01
    candidate_launch_sd: float | None = None
    launch_tails: int | None = None
    launch_autocorrelation: float = 0.0
    drift_a_block: float = 0.002
    disturbance_sd: float = 0.005
    autocorrelation: float = 0.8
    request_sd: float = 0.01
    interruption_chance: float = 0.002
    interruption_log: float = 0.5
    tpot_ms: float = 20.0
    load_s: float = 4.0
    changes: tuple[Change, ...] = COMPILED
    bits_log: float = 0.0
    bits_document_sd: float = 0.003
    tasks_lost: int = 0
    tasks_gained: int = 0
    task_loss_chance: float = 0.0
    task_gain_chance: float = 0.0
    control_bytes: float | None = None
    candidate_bytes: float | None = None


@dataclass
class SimulatedExperiment:
    """One experiment under way: takes the judge's steps and grows the evidence."""

    plan: StoppingPlan
    truth: Truth
    rng: np.random.Generator
    noise: NoiseProfile
    launches: list[LaunchRecord] = field(default_factory=list)
    blocks_run: int = 0
    pairs: int = 0
    scored: dict[int, tuple[Floats, Floats]] = field(default_factory=dict)
    """What became of documents and items by part: scored twice, the same weights give the same."""

    def evidence(self) -> Evidence:
        return Evidence(tuple(self.launches), self.noise, self.truth.changes)

    def take(self, step: MeasurePair | MeasureMore | Screen | Evaluate) -> None:
        if isinstance(step, Screen):
            self._evaluate(Stage.SCREEN)
        elif isinstance(step, Evaluate):
            self._evaluate(Stage.VALIDATION if step.part else Stage.EVALUATE, step.part)
        elif isinstance(step, MeasurePair):
            spread = {
                Arm.CONTROL: self.truth.launch_sd,
                Arm.CANDIDATE: self.truth.candidate_launch_sd or self.truth.launch_sd,
            }
            self._own = {arm: self._own_effect(arm, spread[arm]) for arm in Arm}
            self._levels = dict(self._own)
            self._levels[Arm.CANDIDATE] += self.truth.effect_log
            self.pairs += 1
            self._done = dict.fromkeys(Arm, 0)
            self._measure(step.stage, step.blocks)
        else:
            self._measure(step.stage, step.blocks)

    def _own_effect(self, arm: Arm, spread: float) -> float:
        """A fresh launch's own effect: an AR(1) with standard deviation `spread`."""
        tails, keep = self.truth.launch_tails, self.truth.launch_autocorrelation
        if tails is None:
            shock = float(self.rng.normal())
        else:
            shock = float(self.rng.standard_t(tails)) / math.sqrt(tails / (tails - 2))
        if not self.pairs:
            return spread * shock
        return keep * self._own[arm] + math.sqrt(1 - keep**2) * spread * shock

    def _measure(self, stage: Stage, blocks: int) -> None:
        truth, prompts = self.truth, self.plan.workload.prompts_per_block
        count = 2 * blocks
        shocks = self.rng.normal(0, truth.disturbance_sd, count)
        slow = np.empty(count)
        slow[0] = shocks[0]
        keep = math.sqrt(1 - truth.autocorrelation**2)
        for k in range(1, count):
            slow[k] = truth.autocorrelation * slow[k - 1] + keep * shocks[k]
        drift = truth.drift_a_block * (self.blocks_run + np.arange(count))
        requests = self.rng.normal(0, truth.request_sd, (count, prompts))
        requests += truth.interruption_log * (self.rng.random((count, prompts)) < truth.interruption_chance)
        values = np.exp(requests + (slow + drift)[:, None])
        self.blocks_run += count
        samples: dict[Arm, list[Sample]] = {arm: [] for arm in Arm}
        done = self._done
        for position in range(count):
            arm = (Arm.CONTROL, Arm.CANDIDATE, Arm.CANDIDATE, Arm.CONTROL)[position % 4]
            level = truth.tpot_ms * math.exp(self._levels[arm])
            for prompt in range(prompts):
                number = done[arm] * prompts + prompt
                value = level * float(values[position, prompt]) * (1 + 0.1 * (number % 5))
                name, tokens = f"p{number}", self.plan.workload.new_tokens
                samples[arm].append(Sample(done[arm], position, name, number, Metric.TPOT_MS, value))
                samples[arm].append(Sample(done[arm], position, name, number, Metric.E2EL_MS, value * tokens))
            done[arm] += 1
        for arm in Arm:
            self.launches.append(
                LaunchRecord(
                    arm=arm,
                    index=self.pairs - 1,
                    stage=stage,
                    configuration_digest=arm.value,
                    resolved={"threads": 2, **self._changed(arm)},
                    environment={},
                    load_s=truth.load_s,
                    samples=tuple(samples[arm]),
                )
            )

    def _changed(self, arm: Arm) -> dict[str, Json]:
        """What the claimed change makes of the resolved configuration."""
        return {
            change.knob: change.after if arm == Arm.CANDIDATE else change.before
            for change in self.truth.changes
        }

    def _evaluate(self, stage: Stage, part: int = 0) -> None:
        work, truth = self.plan.workload, self.truth
        documents, items = work.evaluation_documents, work.evaluation_items
        if part not in self.scored:
            by_chance = truth.task_loss_chance or truth.task_gain_chance
            self.scored[part] = (
                self.rng.normal(truth.bits_log, truth.bits_document_sd, documents),
                self.rng.random(items) if by_chance else np.ones(items),
            )
        spread, fate = self.scored[part]
        for arm in Arm:
            shift = spread if arm == Arm.CANDIDATE else np.zeros(documents)
            samples = []
            for k in range(documents):
                name = f"d{part * documents + k}"
                bits = (900 + 10 * k) * math.exp(float(shift[k]))
                samples.append(Sample(0, 0, name, k, Metric.NLL_BITS, bits))
                samples.append(Sample(0, 0, name, k, Metric.TEXT_BYTES, 600.0 + k))
            for k in range(items):
                drawn_lost = fate[k] < truth.task_loss_chance
                drawn_gained = not drawn_lost and fate[k] < truth.task_loss_chance + truth.task_gain_chance
                lost = arm == Arm.CANDIDATE and (k < truth.tasks_lost or drawn_lost)
                gained = arm == Arm.CONTROL and (k >= items - truth.tasks_gained or drawn_gained)
                correct = 0.0 if lost or gained else 1.0
                samples.append(Sample(0, 0, f"t{part * items + k}", k, Metric.TASK_CORRECT, correct))
            weights = truth.control_bytes if arm == Arm.CONTROL else truth.candidate_bytes
            if weights is not None:
                samples.append(Sample(0, 0, "weights", 0, Metric.STEP_WEIGHT_BYTES, weights))
            self.launches.append(
                LaunchRecord(arm, part, stage, arm.value, {}, {}, truth.load_s, tuple(samples))
            )


def profile_of(
    plan: StoppingPlan, truth: Truth, degrees_of_freedom: int, rng: np.random.Generator
) -> NoiseProfile:
    """The noise profile that windows of two interleaved A/A launches of the control leave behind."""
    control = replace(truth, effect_log=0.0, candidate_launch_sd=None)
    nothing = NoiseProfile("target", Metric.TPOT_MS, 0, 0, None)
    window = SimulatedExperiment(plan, control, rng, nothing)
    for _ in range(degrees_of_freedom):
        window.take(MeasurePair(Stage.NOISE, plan.quick_blocks))
    rows = [
        NoiseRow(str(record.index), noise.log_centre)
        for record in window.launches
        if (noise := launch_noise(record, Metric.TPOT_MS)) is not None
    ]
    return noise_profile("target", Metric.TPOT_MS, rows)


def run(
    judge: Judge,
    plan: StoppingPlan,
    truth: Truth,
    rng: np.random.Generator,
    noise: NoiseProfile | None = None,
    degrees_of_freedom: int = 2,
    on_step: Callable[[object], None] = lambda step: None,
) -> tuple[JudgeVerdict, SimulatedExperiment]:
    """Step one experiment to its stop and judge it."""
    found = noise or profile_of(plan, truth, degrees_of_freedom, rng)
    experiment = SimulatedExperiment(plan, truth, rng, found)
    for _ in range(MOST_STEPS):
        evidence = experiment.evidence()
        step = judge.next_step(plan, evidence)
        on_step(step)
        if isinstance(step, Stop):
            return judge.verdict(plan, evidence), experiment
        experiment.take(step)
    raise AssertionError(f"the judge did not stop within {MOST_STEPS} steps")
