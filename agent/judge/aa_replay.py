"""A/A pairs judged as if each were a claim: how often does a judge say something of nothing? Pure.

Both arms of an experiment are the same configuration, so *refuted* ("the gain is smaller than `min_effect`")
is right, *inconclusive* is a pity, and *supported* is the error that a judge exists to avoid. The pairs of a
series are handed to the judge as it asks for them, in their order, and no pair twice, so that the experiments
are independent. What is not measured here is answered in the candidate's favour: the weights are the same, so
the quality is held. The noise profile is that of the pairs before, as it is when a test is dispatched.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from agent.judge.aa_pairs import AaPair, profile
from agent.judge.scale import bound_of
from experiments.measurement.evidence import Arm, Evidence, LaunchRecord, Metric, NoiseProfile, Sample, Stage
from experiments.measurement.judging import Evaluate, Judge, JudgeVerdict, MeasurePair, Outcome, Stop
from experiments.measurement.plan import Prediction, StoppingPlan

MOST_STEPS = 100
"""Steps after which a judge that never stops counts as broken, as in a job."""

_BITS = 1000.0
"""Bits of each document of the evaluation that two equal arms must both give; any number does."""


@dataclass(frozen=True)
class Judged:
    """An experiment of A/A pairs: how many it took, and its verdict."""

    pairs: int
    outcome: Outcome
    effect_log: float | None


@dataclass(frozen=True)
class Replay:
    """Experiments that came to an end, the pairs left over in one that did not, and the first looks: for
    each pair as the quick pair of an experiment, the verdict on it alone, and whether its interval already
    lay beyond `min_effect`."""

    experiments: tuple[Judged, ...]
    pairs_left: int
    first_looks: tuple[Judged, ...]
    first_beyond: int


def plan_of(plan: StoppingPlan, blocks: int) -> StoppingPlan:
    """The campaign's plan for pairs that hold `blocks` blocks an arm, predicting just `min_effect`."""
    bound_log = bound_of(plan)
    return plan.model_copy(
        update={
            "quick_blocks": blocks,
            "full_blocks": blocks,
            "prediction": Prediction(log_ratio_mean=bound_log, log_ratio_sd=abs(bound_log)),
        }
    )


def replay(pairs: Sequence[AaPair], plan: StoppingPlan, judge: Judge) -> Replay:
    """Judge the pairs of a series that were measured as tests are."""
    kept = [pair for pair in pairs if not pair.differs]
    experiments: list[Judged] = []
    used = 0
    while used < len(kept):
        known = profile(kept[:used], plan.metric)
        judged = _experiment(kept[used:], plan, judge, known)
        if judged is None:
            break
        experiments.append(judged)
        used += judged.pairs
    looks, beyond, bound_log = [], 0, bound_of(plan)
    for place, pair in enumerate(kept):
        evidence = Evidence(pair.staged(Stage.QUICK, 0), profile(kept[:place], plan.metric), ())
        verdict = judge.verdict(plan, evidence)
        looks.append(_judged(1, verdict))
        beyond += verdict.interval_high_log is not None and verdict.interval_high_log < bound_log
    return Replay(tuple(experiments), len(kept) - used, tuple(looks), beyond)


def _experiment(
    pairs: Sequence[AaPair], plan: StoppingPlan, judge: Judge, noise: NoiseProfile
) -> Judged | None:
    """One experiment to its stop; None when the pairs run out before it."""
    launches: list[LaunchRecord] = []
    left: Iterator[AaPair] = iter(pairs)
    taken = 0
    for _ in range(MOST_STEPS):
        evidence = Evidence(tuple(launches), noise, ())
        step = judge.next_step(plan, evidence)
        match step:
            case Stop():
                return _judged(taken, judge.verdict(plan, evidence))
            case MeasurePair():
                pair = next(left, None)
                if pair is None:
                    return None
                launches += pair.staged(step.stage, taken)
                taken += 1
            case Evaluate():
                launches += _same_quality(launches, plan, step)
            case _:
                raise AssertionError(f"nothing changed, and the judge asks for {step}")
    raise AssertionError(f"the judge {judge.name} did not stop after {MOST_STEPS} steps")


def _same_quality(
    launches: Sequence[LaunchRecord], plan: StoppingPlan, step: Evaluate
) -> Iterator[LaunchRecord]:
    """The evaluation of two arms of equal weights: every document and item alike."""
    work = plan.workload
    scores = [
        (f"d{place}", metric, value)
        for place in range(work.evaluation_documents)
        for metric, value in ((Metric.NLL_BITS, _BITS), (Metric.TEXT_BYTES, _BITS))
    ]
    scores += [(f"t{place}", Metric.TASK_CORRECT, 1.0) for place in range(work.evaluation_items)]
    samples = tuple(
        Sample(0, 0, item, place, metric, value) for place, (item, metric, value) in enumerate(scores)
    )
    stage = Stage.VALIDATION if step.part else Stage.EVALUATE
    for arm in Arm:
        yield replace(launches[0], arm=arm, index=step.part, stage=stage, samples=samples)


def _judged(pairs: int, verdict: JudgeVerdict) -> Judged:
    return Judged(pairs, verdict.outcome, verdict.effect_log)
