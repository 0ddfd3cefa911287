"""Bytes that a sequence holds of a hybrid's caches on vLLM: keys and values, GatedDeltaNet states. Pure.

vLLM gives every layer pages of one size. A page holds one state of a GatedDeltaNet layer with the window of
its convolution, and so many tokens of an attention layer that they take as much (source: vLLM's alignment of
attention and mamba page sizes; a Qwen3.5-27B shape with an 8-bit cache gets 1,568 tokens a page there, and
here too, which a test holds). A step that verifies K draft tokens needs K + 1 states.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from configs.models import BFLOAT16_BYTES, FLOAT32_BYTES, ModelProfile
from experiments.space.configuration import KnobValue

KV_DTYPE, STATE_DTYPE = "serving.kv_cache_dtype", "serving.gdn_state_dtype"
DRAFTING, DRAFT_TOKENS = "drafting.method", "drafting.draft_tokens"

EIGHT_BIT = "fp8"
"""Begins the names of 8-bit formats of the KV cache."""

STATE_BYTES: Mapping[str, int] = {"bfloat16": BFLOAT16_BYTES, "float16": BFLOAT16_BYTES}
"""Bytes of a value of the GatedDeltaNet state by `serving.gdn_state_dtype`; four otherwise, as Qwen3.5's own
config.json has it (`mamba_ssm_dtype`)."""

PAGE_STEP_TOKENS = 16
"""Tokens of a page are a multiple of this."""


@dataclass(frozen=True)
class HybridCache:
    """What one sequence holds, in bytes: `kv_bytes` for its context, `state_bytes` of states and windows.

    `page_tokens` are the tokens of an attention layer's page.
    """

    kv_bytes: int
    state_bytes: int
    page_tokens: int


def hybrid_cache(
    profile: ModelProfile, configuration: Mapping[str, KnobValue], context_tokens: int
) -> HybridCache:
    """What a sequence of so many tokens holds, served as the configuration says."""
    drafts = draft_tokens(configuration)
    attention = profile.layer_types.count("full_attention")
    if configuration.get(DRAFTING) == "mtp":
        attention += profile.mtp_layers
    linear = profile.layer_types.count("linear_attention")
    item = 1 if str(configuration.get(KV_DTYPE, "")).startswith(EIGHT_BIT) else BFLOAT16_BYTES
    token = 2 * profile.attention_kv_heads * profile.attention_head_dim * item
    state = _state_bytes(profile, configuration, drafts) if linear else 0
    page_tokens = PAGE_STEP_TOKENS * max(1, -(-state // (token * PAGE_STEP_TOKENS)))
    page = page_tokens * token
    pages = -(-context_tokens // page_tokens)
    return HybridCache(attention * pages * page, linear * (1 + drafts) * page, page_tokens)


def draft_tokens(configuration: Mapping[str, KnobValue]) -> int:
    """Tokens that a step verifies beside the known one; 0 without drafting."""
    tokens = configuration.get(DRAFT_TOKENS)
    if configuration.get(DRAFTING, "none") == "none" or isinstance(tokens, bool):
        return 0
    return tokens if isinstance(tokens, int) else 0


def gdn_channels(profile: ModelProfile) -> int:
    """Channels of a GatedDeltaNet layer's convolution: queries, keys and values."""
    keys = profile.gdn_k_heads * profile.gdn_k_head_dim
    return 2 * keys + profile.gdn_v_heads * profile.gdn_v_head_dim


def _state_bytes(profile: ModelProfile, configuration: Mapping[str, KnobValue], drafts: int) -> int:
    """Bytes of one layer's state, with a window that is longer by the tokens that may be taken back."""
    item = STATE_BYTES.get(str(configuration.get(STATE_DTYPE)), FLOAT32_BYTES)
    state = profile.gdn_v_heads * profile.gdn_k_head_dim * profile.gdn_v_head_dim * item
    window = (profile.gdn_conv_kernel - 1 + drafts) * gdn_channels(profile) * BFLOAT16_BYTES
    return state + window
