"""Bytes that a sequence holds of a hybrid's caches on vLLM: keys and values, GatedDeltaNet states. Pure.

vLLM gives every layer pages of one size. A page holds one state of a GatedDeltaNet layer with the window of
its convolution, and so many tokens of an attention layer that they take as much (source: vLLM's alignment of
attention and mamba page sizes; a Qwen3.5-27B shape with an 8-bit cache gets 1,568 tokens a page there, and
here too, which a test holds). A step that verifies K draft tokens needs K + 1 states, and where prefixes are
kept one more.

Layers are put into groups of one size, each of attention or of GatedDeltaNet alone, and a *block* is a page
of each layer of a group. Where a kind's layers are no multiple of that size its last group is filled up with
pages that hold nothing: with an MTP head a 4B or 9B shape has 9 attention layers, and groups of 9 for its 24
GatedDeltaNet ones. One block is kept for nothing (source: `_get_kv_cache_groups_uniform_page_size`,
`MambaSpec.max_memory_usage_bytes` and `BlockPool` of vLLM 0.32 and 0.33).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from configs.models import BFLOAT16_BYTES, FLOAT32_BYTES, ModelProfile
from experiments.space.configuration import KnobValue

KV_DTYPE, STATE_DTYPE = "serving.kv_cache_dtype", "serving.gdn_state_dtype"
PREFIX_CACHING, KEPT = "serving.prefix_caching", ("on", "auto")
"""The knob of kept prefixes, and its values with which vLLM keeps them."""
DRAFTING, DRAFT_TOKENS = "drafting.method", "drafting.draft_tokens"
DTYPE = "serving.dtype"

EIGHT_BIT = "fp8"
"""Begins the names of 8-bit formats of the KV cache."""

STATE_BYTES: Mapping[str, int] = {"bfloat16": BFLOAT16_BYTES, "float16": BFLOAT16_BYTES}
"""Bytes of a value of the GatedDeltaNet state by `serving.gdn_state_dtype`; four otherwise, as Qwen3.5's own
config.json has it (`mamba_ssm_dtype`)."""

PAGE_STEP_TOKENS = 16
"""Tokens of a page are a multiple of this."""


ONE_GROUP_RATIO = 1.5
"""Below this ratio of the most layers of a kind to the fewest a group has as many as the most, else the
fewest (vLLM 0.32 and 0.33)."""

KEPT_FREE_BLOCKS = 1
"""Blocks that hold nothing: vLLM's block pool keeps one back."""


@dataclass(frozen=True)
class DrafterLayers:
    """Layers of attention of a drafter with weights of its own."""

    layers: int
    kv_heads: int
    head_dim: int


@dataclass(frozen=True)
class CacheLayout:
    """How a launch's cache is laid out: in blocks of `block_bytes`, each for one group of layers.

    `page_tokens` are the tokens of an attention layer's page; `states` are the blocks that a group of
    GatedDeltaNet layers holds for a sequence.
    """

    block_bytes: int
    page_tokens: int
    attention_groups: int
    linear_groups: int
    states: int

    def kv_blocks(self, tokens: int) -> int:
        """Blocks of keys and values of a sequence of so many tokens."""
        return self.attention_groups * -(-tokens // self.page_tokens)

    @property
    def state_blocks(self) -> int:
        """Blocks of a sequence's states."""
        return self.linear_groups * self.states

    def least_bytes(self, sequences: int, tokens: int) -> int:
        """Bytes in which one sequence of so many tokens has room, and beside it the others of so many
        sequences with one page of tokens each."""
        held = sequences * (self.state_blocks + self.kv_blocks(1)) - self.kv_blocks(1)
        return self.block_bytes * (KEPT_FREE_BLOCKS + held + self.kv_blocks(tokens))

    def sequences_that_fit(self, tokens: int, cache_bytes: int) -> int:
        """How many sequences of so many tokens have room at once in so many bytes; more would wait in the
        engine's queue."""
        blocks = cache_bytes // self.block_bytes - KEPT_FREE_BLOCKS
        return max(0, blocks) // max(1, self.state_blocks + self.kv_blocks(tokens))


@dataclass(frozen=True)
class HybridCache:
    """What one sequence holds, in bytes: `kv_bytes` for its context, `state_bytes` of states and windows.

    `page_tokens` are the tokens of an attention layer's page.
    """

    kv_bytes: int
    state_bytes: int
    page_tokens: int


def hybrid_cache(
    profile: ModelProfile,
    configuration: Mapping[str, KnobValue],
    context_tokens: int,
    drafter: DrafterLayers | None = None,
) -> HybridCache:
    """What a sequence of so many tokens holds, served as the configuration says."""
    layout = cache_layout(profile, configuration, drafter)
    return HybridCache(
        layout.kv_blocks(context_tokens) * layout.block_bytes,
        layout.state_blocks * layout.block_bytes,
        layout.page_tokens,
    )


def cache_layout(
    profile: ModelProfile, configuration: Mapping[str, KnobValue], drafter: DrafterLayers | None = None
) -> CacheLayout:
    """How the cache of a launch is laid out that is served as the configuration says.

    Layers of a drafter are counted as if they attended to all tokens.
    """
    drafts = draft_tokens(configuration)
    attention = profile.layer_types.count("full_attention")
    if configuration.get(DRAFTING) == "mtp":
        attention += profile.mtp_layers
    linear = profile.layer_types.count("linear_attention")
    item = 1 if str(configuration.get(KV_DTYPE, "")).startswith(EIGHT_BIT) else _item_bytes(configuration)
    token = 2 * profile.attention_kv_heads * profile.attention_head_dim * item
    own, page_token = 0, token
    if drafter is not None:
        page_token = max(token, 2 * drafter.kv_heads * drafter.head_dim * item)
        if (drafter.kv_heads, drafter.head_dim) == (profile.attention_kv_heads, profile.attention_head_dim):
            attention += drafter.layers
        else:
            own = drafter.layers
    state = _state_bytes(profile, configuration, drafts) if linear else 0
    page_tokens = PAGE_STEP_TOKENS * max(1, -(-state // (token * PAGE_STEP_TOKENS)))
    counts = [layers for layers in (attention, linear, own) if layers]
    group = max(counts) if max(counts) < ONE_GROUP_RATIO * min(counts) else min(counts)
    return CacheLayout(
        group * page_tokens * page_token,
        page_tokens,
        attention_groups=-(-attention // group) + -(-own // group),
        linear_groups=-(-linear // group),
        states=1 + drafts + (configuration.get(PREFIX_CACHING) in KEPT),
    )


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
    window = (profile.gdn_conv_kernel - 1 + drafts) * gdn_channels(profile) * _item_bytes(configuration)
    return state + window


def _item_bytes(configuration: Mapping[str, KnobValue]) -> int:
    """Bytes of a value of keys, values and windows that is not stored in fewer bits."""
    return FLOAT32_BYTES if configuration.get(DTYPE) == "float32" else BFLOAT16_BYTES
