"""What a change does to the latency that a campaign is about, where that is more than a token's time. Pure.

TPOT and ITL are times of decode steps. TTFT is that of reading a prompt, and end-to-end latency is TTFT and
the tokens after the first: its *share of the first token* is TTFT over all of it. Reading a prompt is
arithmetic more than bytes. So what a lever does to a decode step counts with the rest of the objective, and
what it does to reading prompts with that share. Removed layers and threads are missed, or there, in both.
Packed weights are multiplied as before once they are unpacked, which is work more; where a lone prompt was
profiled, products alone are changed by that. What decides how prompts are read may do anything to it, but a
cache of prefixes, which finds nothing in a workload's prompts; drafts, graphs and caches hardly touch it.
"""

from __future__ import annotations

import math

from agent.surrogate.lone_prompt import FirstTokenShares
from experiments.measurement.evidence import Metric

FIRST = "first_token"
"""The time to the first token, as a part of the objective beside those of a step."""

PROMPTS_SD_LOG = 0.3
"""Standard deviation of what a lever that decides how prompts are read does to the time of reading them, on
its log scale; judgement, as all below."""

UNPACKING_LOG, WEIGHTS_SD_LOG = 0.1, 0.2
"""What unpacking weights is expected to add to reading a prompt, and how far that, and what narrower weights
do, may be off."""

EXPERTS_SD_LOG = 0.3
"""How far narrower weights, or another kernel, may move what experts take of a prompt, either way: their
bytes, of which a short prompt reads all and a long one hardly feels it, get fewer, and packed ones are
unpacked."""

STEPS_SD_LOG = 0.05
"""Standard deviation for levers that act on steps of decoding, or on room, and of what lies beside products
where these are changed."""

CACHING = "caching"
"""The lever of a cache of prefixes. No two prompts of a workload begin alike, so it has nothing to find."""

CUT_LOG, CUT_SD_LOG = 0.1, 0.2
"""What keeping prefixes is expected to add to reading prompts, and how far that may be off: a hybrid's are
cut where a page of its cache ends. On an H200 it changed the median first token by -32 to +76 %, 1.10-fold in
the mean, in eight workloads of one launch each (docs/results/tables/h200-9b-http.csv)."""

CUT_SHARE = 0.5
"""Share of a second launching of a lone prompt that a cut is expected to cost, where it was profiled: a
prompt that is cut in two waits for it twice, and it is not known whether it is."""

OF_BOTH = ("pruning", "threads")
"""Levers that do to reading a prompt what they do to a decode step."""

OF_PROMPTS = ("gdn_prefill", "chunking", CACHING, "prompt_graphs")
"""Levers of how prompts are read, or whether."""

OF_STEPS = (
    "compile",
    "drafting",
    "draft_lm_head",
    "graphs",
    "scheduling",
    "gdn_state",
    "gdn_decode",
    "kv_cache",
)
"""Levers that act on steps of decoding, and hardly on reading prompts."""

KERNEL = "kernel"
"""The lever that chooses what multiplies packed weights, but for experts."""

EXPERTS_KERNEL = "experts_kernel"
"""The one that chooses what computes experts."""

OF_PRODUCTS = ("quantization", "weight_dtype", KERNEL, "dtype")
"""Levers that change what multiplies weights, and in which bits."""

OF_ROOM = ("context", "batching")
"""Levers of what is reserved, and how many requests there may be: hardly of reading prompts either."""


def first_token_share(objective: Metric, ttft_ms: float | None, tpot_ms: float, new_tokens: int) -> float:
    """Share of the objective that is the time to the first token, 0 to 1; 0 where TTFT is not known.

    `ttft_ms` and `tpot_ms` are the baseline's, for requests of `new_tokens` each.
    """
    if objective is Metric.TTFT_MS:
        return 1.0
    if objective is not Metric.E2EL_MS or ttft_ms is None:
        return 0.0
    return ttft_ms / (ttft_ms + tpot_ms * (new_tokens - 1))


def of_first_token(lever: str, packs: bool, shares: FirstTokenShares | None = None) -> tuple[float, float]:
    """Mean and standard deviation of the log of the time to the first token that a lever brings; `packs`
    tells whether the engine computes with packed weights, `shares` what the first token is made of (None: no
    lone prompt was profiled)."""
    if lever in (*OF_STEPS, *OF_ROOM) or (lever == "quantization" and not packs):
        return 0.0, STEPS_SD_LOG
    found = (UNPACKING_LOG if lever == "quantization" else 0.0), WEIGHTS_SD_LOG
    if shares is None or lever not in (*OF_PRODUCTS, EXPERTS_KERNEL):
        return found
    beside = 0.0, STEPS_SD_LOG
    multiplied = beside if lever == EXPERTS_KERNEL else found
    experts = min(shares.experts, 1.0)  # parts are timed apart from the whole, and may come to more
    rest = max(shares.products, 1 - experts)
    mean, spread, _ = with_first_token(beside, multiplied, shares.products / rest if rest else 0.0)
    if experts:
        of_experts = beside if lever == KERNEL else (0.0, EXPERTS_SD_LOG)
        mean, spread, _ = with_first_token((mean, spread), of_experts, experts)
    return mean, spread


def of_prompts(lever: str, shares: FirstTokenShares | None = None) -> tuple[float, float]:
    """The same of the time in which prompts are read, of a lever that decides how they are."""
    if lever != CACHING:
        return 0.0, PROMPTS_SD_LOG
    if shares is None:
        return CUT_LOG, CUT_SD_LOG
    mean = math.log1p(CUT_SHARE * shares.outside)
    return mean, max(STEPS_SD_LOG, mean / 2)


def with_first_token(
    step: tuple[float, float], first: tuple[float, float], share: float
) -> tuple[float, float, float]:
    """Mean and standard deviation of the log of the objective, of a lever that does so to a decode step and
    to the first token, and by how much what else is open of the step moves it; `share` is that of the first
    token."""
    steps, prompts = (1 - share) * math.exp(step[0]), share * math.exp(first[0])
    weight = steps / (steps + prompts)
    return math.log(steps + prompts), math.hypot(weight * step[1], (1 - weight) * first[1]), weight
