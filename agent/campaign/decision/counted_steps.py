"""The loop of steps as a campaign's requests ask it on its GPU, for counting tokens of a step. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from agent.campaign.known.facts import Facts
from agent.plan.load_and_request import prompt_token_ms
from agent.surrogate.step_loop import Asked
from agent.surrogate.step_tokens import LATER_MS, StepTokens
from agent.surrogate.weight_bytes import step_weight_bytes
from configs.campaign_plan import PlanSpec
from configs.hardware import HardwareProfile, profile_of_device
from configs.models import ModelProfile
from experiments.engines.stored_bytes import step_rows
from experiments.measurement.evidence import Json, Metric
from experiments.space.configuration import Configuration
from experiments.space.server_steps import server_step_tokens
from experiments.space.workload_rules import AUTO, BATCH_TOKENS, RESOLVED_TOKENS

MS_PER_S = 1e3

MOST_WAVES = 8
"""Requests that are counted at most, as many as are under way at once: what comes after is as it was."""

MOST_TOKENS = 4_000_000
"""Tokens of all prompts that are counted at most: more would take seconds, and fit into few GPUs' caches."""


def steps_of(facts: Facts, shape: ModelProfile | None, tpot_ms: float) -> StepTokens | None:
    """The loop of a campaign whose baseline was measured to take so long a token; None as below."""
    best = facts.incumbent
    if facts.baseline is None or best is None or facts.gpu_name is None:
        return None
    return counted_steps(
        facts.spec.plan,
        profile_of_device(facts.gpu_name, facts.gpu_memory_bytes),
        shape,
        facts.baseline,
        tpot_ms,
        facts.gpu_memory_bytes,
        told_auto(best.configuration, facts.incumbent_runs) or facts.auto_step_tokens,
    )


def counted_steps(
    plan: PlanSpec,
    hardware: HardwareProfile | None,
    shape: ModelProfile | None,
    baseline: Configuration,
    tpot_ms: float,
    memory_bytes: int | None = None,
    auto: int | None = None,
) -> StepTokens | None:
    """The loop for this workload, where a campaign is about TPOT with several requests at once on a listed
    GPU and reads prompts in steps of a limited size, and few enough to count; else None. `memory_bytes` are
    those that the driver tells, `auto` what the server was told to have chosen, None where it was not
    told."""
    workload, before = plan.workload, baseline.get(BATCH_TOKENS)
    alone = workload.concurrency == 1
    if hardware is None or shape is None or before is None or alone or Metric(plan.metric) != Metric.TPOT_MS:
        return None
    memory = hardware.memory_bytes if memory_bytes is None else memory_bytes
    by_card = server_step_tokens(memory, " ".join(hardware.device_names))
    asked = Asked(
        workload.concurrency,
        min(max(workload.concurrency, workload.prompts_per_block), MOST_WAVES * workload.concurrency),
        workload.prompt_tokens,
        workload.new_tokens,
        LATER_MS,
    )
    if asked.requests * asked.prompt_tokens > MOST_TOKENS:
        return None

    def read_at(rows: int) -> float:
        return step_weight_bytes(shape, baseline, rows).mean

    return StepTokens(
        asked,
        prompt_token_ms(shape, hardware),
        by_card if auto is None else auto,
        before,
        tpot_ms,
        MS_PER_S * hardware.read_time_s(read_at(step_rows(baseline, workload.concurrency))),
        # a dense model's is what a step of decoding reads
        0.0 if shape.experts is None else MS_PER_S * hardware.read_time_s(read_at(workload.prompt_tokens)),
    )


def told_auto(incumbent: Configuration, runs: Mapping[str, Json]) -> int | None:
    """How many tokens a step has where the server chose, as the best so far ran; None where that names
    them itself, or its launch did not tell."""
    found = runs.get(RESOLVED_TOKENS) if incumbent.get(BATCH_TOKENS) == AUTO else None
    return found if isinstance(found, int) else None
