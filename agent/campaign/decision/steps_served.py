"""The decode steps that a decision reads, of the baseline and of the best so far, as tokens were served: with
no more time outside kernels than these leave, which is all that shorter waits could save."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from agent.campaign.known.facts import Facts
from agent.campaign.known.incumbent import Incumbent
from agent.campaign.known.measured import Baseline
from agent.surrogate.drafting import drafts
from experiments.engines.port import PartTime
from experiments.engines.served_step import OUTSIDE, as_served
from experiments.measurement.evidence import Metric
from experiments.space.configuration import Configuration

NOT_PROFILED: tuple[PartTime, ...] = ()


def baseline_step(facts: Facts, baseline: Baseline, configuration: Configuration) -> tuple[PartTime, ...]:
    """The step of the baseline, which has this configuration, by part."""
    return _served(facts, baseline.profile, configuration, baseline.tpot_ms[configuration.digest])


def best_step(facts: Facts, best: Incumbent, baseline_ms: float) -> tuple[PartTime, ...]:
    """The step of the best so far by part, empty where it was not profiled itself; a token of the baseline
    took `baseline_ms`."""
    if best.experiment_id is None:
        return NOT_PROFILED
    profile = facts.profiles.get(best.experiment_id, NOT_PROFILED)
    return _served(facts, profile, best.configuration, baseline_ms * math.exp(best.log_ratio))


def _served(
    facts: Facts, profile: tuple[PartTime, ...], configuration: Configuration, token_ms: float
) -> tuple[PartTime, ...]:
    """Not where what is known is no time a token, nor where others' prompts are read in between, nor where a
    step gives what was drafted too. Kernels stay as they were recorded: what a candidate's took is held
    against them."""
    one_at_once = facts.spec.plan.workload.concurrency == 1
    if facts.objective is not Metric.TPOT_MS or not one_at_once or drafts(configuration) is not None:
        return profile
    kernels_ms, outside_ms = (_together_ms(profile, outside) for outside in (False, True))
    if not outside_ms:
        return profile
    _, left_ms = as_served(kernels_ms, outside_ms, token_ms)
    return tuple(
        replace(part, time_ms=left_ms * part.time_ms / outside_ms) if part.kind == OUTSIDE else part
        for part in profile
    )


def _together_ms(profile: Sequence[PartTime], outside: bool) -> float:
    return math.fsum(part.time_ms for part in profile if (part.kind == OUTSIDE) is outside)
