"""The first token of a campaign's lone request on its GPU, for what graphs of its prompt's step do. Pure."""

from __future__ import annotations

from agent.campaign.known.facts import Facts
from agent.plan.load_and_request import prompt_ms
from agent.surrogate.lone_prompt import LonePrompt
from agent.surrogate.prompt_launches import PromptLaunches
from configs.campaign_plan import PlanSpec
from configs.hardware import HardwareProfile, profile_of_device
from configs.models import ModelProfile
from experiments.measurement.evidence import Metric
from experiments.space.configuration import Configuration
from experiments.space.prompt_graph_rules import AUTO, GRAPH_TOKENS
from experiments.space.workload_rules import LEAST_STEP_TOKENS

CAPTURED = "max_graph_tokens"
"""What a launch tells of the largest step that is captured."""


def launches_of(
    facts: Facts, shape: ModelProfile | None, ttft_ms: float | None, profiled: LonePrompt | None = None
) -> PromptLaunches | None:
    """That of a campaign whose baseline was measured to take so long to the first token, and was `profiled`
    with a lone prompt or was not; None as below."""
    best = facts.incumbent
    if facts.baseline is None or best is None or facts.gpu_name is None:
        return None
    # a best that names the size tells its own, and not what vLLM chooses
    found = facts.incumbent_runs.get(CAPTURED) if best.configuration.get(GRAPH_TOKENS) == AUTO else None
    return prompt_launches(
        facts.spec.plan,
        profile_of_device(facts.gpu_name, facts.gpu_memory_bytes),
        shape,
        facts.baseline,
        ttft_ms,
        found if isinstance(found, int) else None,
        profiled,
    )


def prompt_launches(
    plan: PlanSpec,
    hardware: HardwareProfile | None,
    shape: ModelProfile | None,
    baseline: Configuration,
    ttft_ms: float | None,
    captured: int | None = None,
    profiled: LonePrompt | None = None,
) -> PromptLaunches | None:
    """The lone request, where a campaign is about first tokens or whole requests, on a listed GPU, and reads
    its prompt in one step that nothing is known to capture by itself; else None. `captured` are the tokens of
    the largest step that is, None where no launch told; `profiled` is what a profile says of one."""
    workload = plan.workload
    counts = Metric(plan.metric) in (Metric.TTFT_MS, Metric.E2EL_MS) and workload.concurrency == 1
    if not counts or hardware is None or shape is None or not ttft_ms:
        return None
    if baseline.get(GRAPH_TOKENS) != AUTO or workload.prompt_tokens > LEAST_STEP_TOKENS:
        return None
    if captured is not None and captured >= workload.prompt_tokens:
        return None
    arithmetic_ms = prompt_ms(shape, hardware, workload.prompt_tokens, baseline)
    return PromptLaunches(workload.prompt_tokens, ttft_ms, arithmetic_ms, profiled)
