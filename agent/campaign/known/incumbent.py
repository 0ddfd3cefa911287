"""The best configuration that verdicts support, by the chain of changes that leads to it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent.proposers.port import Trial
from experiments.measurement.evidence import Metric
from experiments.measurement.judging import Outcome
from experiments.space.configuration import Configuration


@dataclass(frozen=True)
class Incumbent:
    """The best configuration that a verdict supports; the baseline at first.

    `log_ratio` is the natural log of its latency over the baseline's, on the campaign's metric, added up
    along the chain of supported changes that leads to it; `hypothesis_id` is the last of them, None for the
    baseline.
    """

    configuration: Configuration
    log_ratio: float
    hypothesis_id: int | None
    experiment_id: int | None
    steps: int


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
        if each.outcome is Outcome.SUPPORTED and each.effect_log is not None and is_on(each, objective):
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
