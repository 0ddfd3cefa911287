"""What a change does to the latency that a campaign is about, where that is more than a token's time. Pure.

TPOT and ITL are times of decode steps. TTFT is that of reading a prompt, and end-to-end latency is TTFT and
the tokens after the first: its *share of the first token* is TTFT over all of it. Reading a prompt is
arithmetic more than bytes. So what a lever does to a decode step counts with the rest of the objective, and
what it does to reading prompts with that share: nothing for all that is known, by a spread; removed layers
and threads are missed, or there, in both.
"""

from __future__ import annotations

import math

from agent.surrogate.kernel_parts import BESIDE_SD_LOG, SAME_STEP
from experiments.measurement.evidence import Metric

PROMPTS_SD_LOG = 0.2
"""Standard deviation of what a lever that decides how prompts are read does to the time of reading them, on
its log scale; judgement."""

OF_BOTH = ("pruning", "threads")
"""Levers that do to reading a prompt what they do to a decode step."""

OF_PROMPTS = SAME_STEP
"""Levers of how prompts are read, what is kept and reserved: nothing of them is of a decode step alone."""


def first_token_share(objective: Metric, ttft_ms: float | None, tpot_ms: float, new_tokens: int) -> float:
    """Share of the objective that is the time to the first token, 0 to 1; 0 where TTFT is not known.

    `ttft_ms` and `tpot_ms` are the baseline's, for requests of `new_tokens` each.
    """
    if objective is Metric.TTFT_MS:
        return 1.0
    if objective is not Metric.E2EL_MS or ttft_ms is None:
        return 0.0
    return ttft_ms / (ttft_ms + tpot_ms * (new_tokens - 1))


def with_first_token(mean_log: float, sd_log: float, share: float) -> tuple[float, float, float]:
    """Mean and standard deviation of the log of the objective, of a lever that does so to a decode step, and
    by how much what else is open of the step moves it; `share` is that of the first token."""
    steps = (1 - share) * math.exp(mean_log)
    weight = steps / (steps + share)
    return math.log(steps + share), math.hypot(weight * sd_log, (1 - weight) * BESIDE_SD_LOG), weight
