"""The decode steps that a decision reads, of the baseline and of the best so far, as tokens were served."""

from __future__ import annotations

import math

from agent.campaign.known.facts import Facts
from agent.campaign.known.incumbent import Incumbent
from agent.campaign.known.measured import Baseline
from agent.surrogate.drafting import drafts
from agent.surrogate.served_step import as_served
from experiments.engines.port import PartTime
from experiments.measurement.evidence import Metric
from experiments.space.configuration import Configuration

NOT_PROFILED: tuple[PartTime, ...] = ()


def baseline_step(facts: Facts, baseline: Baseline, configuration: Configuration) -> tuple[PartTime, ...]:
    """The step of the baseline, which has this configuration, by part."""
    if not _a_step_is_a_token(facts, configuration):
        return baseline.profile
    return as_served(baseline.profile, baseline.tpot_ms[configuration.digest])


def best_step(facts: Facts, best: Incumbent, baseline_ms: float) -> tuple[PartTime, ...]:
    """The step of the best so far by part, empty where it was not profiled itself: as served where the
    campaign is about the time a token, which for the baseline was `baseline_ms`."""
    if best.experiment_id is None:
        return NOT_PROFILED
    profile = facts.profiles.get(best.experiment_id, NOT_PROFILED)
    if facts.objective is not Metric.TPOT_MS or not _a_step_is_a_token(facts, best.configuration):
        return profile
    return as_served(profile, baseline_ms * math.exp(best.log_ratio))


def _a_step_is_a_token(facts: Facts, configuration: Configuration) -> bool:
    """Not where others' prompts are read in between, nor where a step gives what was drafted too."""
    return facts.spec.plan.workload.concurrency == 1 and drafts(configuration) is None
