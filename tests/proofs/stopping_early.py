"""Stopping early against a fixed full schedule, hypothesis by hypothesis, on the same samples.

Each hypothesis runs to where the judge stops; then the same experiment goes on to all the pairs that its plan
allows, and to its evaluation, and is judged again. So both schedules see the same launches as far as the
short one goes. *Wrongly stopped* is a truth that the full schedule found and stopping early did not. The full
schedule is judged in two ways: by the same judge, and by Student's t interval at one look, which a schedule
that never looks before its end may take.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TypeAlias

import numpy as np

from agent.discovery.e_lond import level
from agent.judge.costs import evaluation_cost_s, most_pairs, pair_costs
from agent.judge.interval import pair_noises, t_quantile
from agent.judge.launch_interval import LaunchIntervalJudge
from agent.judge.noninferiority import Quality
from agent.judge.pairs import pair_effects
from agent.judge.quality import quality_report
from agent.judge.scale import bound_of
from experiments.measurement.evidence import Arm, Evidence, NoiseProfile, Stage
from experiments.measurement.judging import Evaluate, MeasurePair, Outcome, Stop
from experiments.measurement.plan import StoppingPlan
from tests.proofs.hypothesis_streams import Hypothesis, Kind, Mixture, stream
from tests.simulation.experiment import DEFAULT_PLAN, MOST_STEPS, SimulatedExperiment, profile_of

FAILURE = "the process ended with exit code 1"
PROFILE_FREEDOM = 10
"""Degrees of freedom of a stream's noise profile: ten A/A pairs measured before."""


@dataclass(frozen=True)
class Compared:
    """One hypothesis under both schedules; seconds are those of launches and evaluations."""

    kind: Kind
    worth_having: bool
    early: Outcome
    full: Outcome
    full_t: Outcome
    early_s: float
    full_s: float

    @property
    def truth(self) -> Outcome:
        """What a judge that knows the truth would say."""
        if self.kind is Kind.INFEASIBLE:
            return Outcome.INFEASIBLE
        return Outcome.SUPPORTED if self.worth_having else Outcome.REFUTED

    def wrongly_stopped(self, by_t: bool = False) -> bool:
        """Whether the full schedule found the truth and stopping early did not."""
        return self.found_in_full(by_t) and self.early is not self.truth

    def found_in_full(self, by_t: bool = False) -> bool:
        """Whether the full schedule found the truth."""
        return (self.full_t if by_t else self.full) is self.truth


Streams: TypeAlias = Sequence[Sequence[Compared]]
"""What became of every hypothesis, stream by stream."""


def run_stream(
    seed: int,
    length: int,
    controlled: bool,
    *,
    in_full: bool = True,
    mixture: Mixture = Mixture.USUAL,
    freedom: int = PROFILE_FREEDOM,
) -> tuple[Compared, ...]:
    """Test the stream of this seed; `controlled` sets each test's level by e-LOND, as a campaign does. All
    tests are given one noise profile of `freedom` degrees of freedom."""
    hypotheses = stream(seed, length, mixture)
    rng = np.random.default_rng([seed, length])
    noise = profile_of(DEFAULT_PLAN, hypotheses[0].truth, freedom, rng)
    tested: list[Compared] = []
    for each in hypotheses:
        discoveries = sum(one.early is Outcome.SUPPORTED for one in tested)
        support = level(DEFAULT_PLAN.alpha, len(tested), discoveries) if controlled else None
        plan = StoppingPlan.model_validate({**DEFAULT_PLAN.model_dump(), "support_alpha": support})
        tested.append(_test(each, plan, noise, rng, in_full))
    return tuple(tested)


def _test(
    hypothesis: Hypothesis, plan: StoppingPlan, noise: NoiseProfile, rng: np.random.Generator, in_full: bool
) -> Compared:
    judge = LaunchIntervalJudge()
    worth = hypothesis.worth_having(plan.min_effect)
    if hypothesis.kind is Kind.INFEASIBLE:
        # it fails while it starts: both schedules pay that launch and the control's, and stop
        failed = Evidence((), noise, hypothesis.truth.changes, failure=FAILURE)
        outcome, seconds = judge.verdict(plan, failed).outcome, 2 * hypothesis.truth.load_s
        return Compared(hypothesis.kind, worth, outcome, outcome, outcome, seconds, seconds)
    experiment = SimulatedExperiment(plan, hypothesis.truth, rng, noise)
    for _ in range(MOST_STEPS):
        step = judge.next_step(plan, experiment.evidence())
        if isinstance(step, Stop):
            break
        experiment.take(step)
    else:
        raise AssertionError(f"the judge did not stop within {MOST_STEPS} steps")
    stopped = experiment.evidence()
    early = judge.verdict(plan, stopped).outcome
    if not in_full:
        return Compared(hypothesis.kind, worth, early, early, early, 0.0, 0.0)
    finish(plan, experiment)
    whole = experiment.evidence()
    verdict = judge.verdict(plan, whole)
    return Compared(
        hypothesis.kind,
        worth,
        early,
        verdict.outcome,
        by_student_t(plan, whole),
        seconds_of(plan, stopped, whole),
        seconds_of(plan, whole, whole),
    )


def finish(plan: StoppingPlan, experiment: SimulatedExperiment) -> None:
    """Take the steps that a fixed schedule would still have taken: all pairs, and the evaluation."""
    while experiment.pairs < most_pairs(plan):
        validation = experiment.pairs >= plan.full_pairs or any(
            record.stage is Stage.VALIDATION for record in experiment.launches
        )
        experiment.take(MeasurePair(Stage.VALIDATION if validation else Stage.FULL, plan.full_blocks))
    if not experiment.evidence().of(Arm.CANDIDATE, Stage.EVALUATE):
        experiment.take(Evaluate())


def seconds_of(plan: StoppingPlan, evidence: Evidence, whole: Evidence) -> float:
    """Seconds of the launches so far, each counted, and of the candidate's evaluation, if it was made; an
    evaluation's cost is the one that `whole` tells, because a quality that was looked at first leaves no time
    to tell it by."""
    evaluated = bool(evidence.of(Arm.CANDIDATE, Stage.SCREEN, Stage.EVALUATE))
    evaluation = evaluated * evaluation_cost_s(plan, whole)
    return evaluation + math.fsum(cost.total_s for cost in pair_costs(evidence))


def by_student_t(plan: StoppingPlan, evidence: Evidence) -> Outcome:
    """The verdict of one look at the end: Student's t at alpha over all pairs, in place of the sequence."""
    quality = quality_report(plan, evidence).state
    pairs = pair_effects(evidence, plan.metric)
    noise = pair_noises(pairs, evidence.noise)[-1]
    reach = t_quantile(plan.alpha / 2, noise.degrees_of_freedom) * noise.sd_log / math.sqrt(len(pairs))
    mean, bound = fmean(pair.effect_log for pair in pairs), bound_of(plan)
    if quality is Quality.WORSE or mean - reach > bound:
        return Outcome.REFUTED
    supported = quality is Quality.HELD and mean + reach < bound
    return Outcome.SUPPORTED if supported else Outcome.INCONCLUSIVE
