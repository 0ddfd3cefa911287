"""Where the time of a decode step goes, by the parts that vLLM's runner has. In the driver; see
`step_clock.py`.

Medians over a request's steps: the forward pass (one part, as it is one graph on a GPU), the head, sampling,
what drafts, and `rest`: scheduling, the way of a token between vLLM's processes, and what lies between. Their
sum is the median time from one step's tokens to the next's, with the clock installed.
"""

from __future__ import annotations

from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from experiments.engines.port import GenerationRequest, PartTime

if TYPE_CHECKING:
    from experiments.engines.vllm.driver import Driver


async def profile(driver: Driver, request: GenerationRequest) -> list[PartTime]:
    """Profile the decode steps of a request; times in ms a step; bytes are added by the parent."""
    await driver.call("autoinfer_clock", True)
    trace = await driver.generate(request)
    steps: list[dict[str, float]] = await driver.call("autoinfer_clock", False)
    times_s = sorted(set(trace.token_times_s))
    total_s = median(after - before for before, after in pairwise(times_s))
    return parts_of(steps[1 : len(times_s)], total_s, drafting=bool(driver.order.draft_tokens))


def parts_of(steps: list[dict[str, float]], total_s: float, *, drafting: bool) -> list[PartTime]:
    """Parts of steps whose seconds are told as `StepClock.steps`; `total_s` is a step's whole. Pure."""
    seconds = {
        part: median(step.get(part, 0.0) for step in steps) for part in ("step", "sample", "head", "draft")
    }
    # the head is computed within the forward's method or within the sampler's, by the version of the runner
    within_step = seconds["step"] > seconds["head"]
    parts = {
        "verify" if drafting else "forward": seconds["step"] - seconds["head"] * within_step,
        "lm_head": seconds["head"],
        "draft": seconds["draft"],
        "sampling": seconds["sample"] - seconds["draft"] - seconds["head"] * (not within_step),
    }
    parts = {part: max(0.0, value) for part, value in parts.items() if drafting or part != "draft"}
    together = sum(parts.values())
    scale = min(1.0, total_s / together) if together else 1.0
    kinds = {"forward": "compiled"}
    told = [PartTime(part, kinds.get(part, part), 1e3 * value * scale, 0) for part, value in parts.items()]
    rest_s = max(0.0, total_s - together * scale)
    return [*told, PartTime("rest", "rest", 1e3 * rest_s, 0)]
