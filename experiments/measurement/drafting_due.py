"""When the drafting of an arm must be checked: one rule, for who checks it and for who asks for it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from experiments.space.configuration import Change, KnobValue

ALTERS_DRAFTING = frozenset(
    {
        "drafting",
        "pruning",
        "quantization",
        "serving.dtype",
        "serving.compile",
        "serving.graph_mode",
        "serving.max_graph_tokens",
        "serving.linear_backend",
        "serving.moe_backend",
        "serving.kv_cache_dtype",
        "serving.gdn_state_dtype",
        "serving.gdn_prefill_backend",
        "serving.gdn_decode_kernel",
        "serving.async_scheduling",
        "serving.chunked_prefill",
        "serving.max_batch_tokens",
        "serving.prefix_caching",
    }
)
"""Knobs, or groups of them, whose change alters how often drafts stand or what the target says: the weights,
the number formats that logits and states are rounded in, and the code that reads a prompt and verifies a
draft (on hybrids prefix caching with MTP changed texts, vllm#53912)."""

METHOD = "drafting.method"
"""The knob that says whether a configuration drafts."""

NO_DRAFTING = "none"
"""Its value without a draft, as if the knob were absent."""


def is_drafting(method: KnobValue | None) -> bool:
    """Whether a value of `METHOD` (None: absent) drafts."""
    return method not in (None, NO_DRAFTING)


def check_is_due(changes: Iterable[Change], drafts: bool) -> bool:
    """Whether an arm's drafting must be checked: it drafts, and the claimed change alters drafting."""
    return drafts and any(
        change.knob in ALTERS_DRAFTING or change.knob.partition(".")[0] in ALTERS_DRAFTING
        for change in changes
    )
