"""How much of a device's memory a launch takes, by part, and what would fit where it does not. Pure.

Counted from the model's shape: weights of every part in the number format that they are served in, the KV
cache of the context, the states of GatedDeltaNet layers, a drafter with its own, and a workspace. A head that
is tied to the embedding takes nothing, unless it is quantized: then it is a copy of its own. A step gives a
state after each token that it reads, beside the one that it read: K + 2 of them with K draft tokens.

Weights, cache and states are exact sums. The workspace is an upper guess (`PROCESS_BYTES`, `GDN_COPIES`) and
so is what the allocator loses (`ALLOCATOR_SHARE`); neither was measured on a GPU. So a refusal by a few per
cent may be wrong, and so may a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from configs.models import BFLOAT16_BYTES, FLOAT32_BYTES, ModelProfile, Part, PartKind
from configs.weight_formats import BITS_PER_BYTE, WeightFormat

PROCESS_BYTES = 2**30
"""What a process is taken to need on a GPU before it loads anything: the driver's context, code of kernels,
workspaces of libraries. A guess."""

PREFILL_TOKENS = 1024
"""Tokens that go through a layer at once at least: a batch of documents that are scored."""

MLP_COPIES = 3
"""Tensors of an MLP's width alive at once: gate, up and their product."""

GDN_COPIES = 4
"""Tensors as wide as a GatedDeltaNet layer's convolution, in float32, alive at once in a prefill. A guess."""

LOGIT_BYTES = 4 * 64 * 2**20
"""Logits at once while documents are scored: an engine keeps to 64 MiB of them, in up to four copies."""

ALLOCATOR_SHARE = 0.05
"""What an allocator rounds up and leaves in pieces, as a share of everything. A guess."""

CACHE_SLACK = 2
"""A cache that is reserved is this many times what sequences need by count: vLLM makes pages of keys and
values as large as a state, and keeps the last page of each sequence to itself."""

CACHE_BYTES_MIN = 256 * 2**20
"""The least cache, bytes: a small model's pages are many and small."""

LARGE_CARD_BYTES = 70 * 10**9
"""A card from which on memory for the cache is not spared: where vLLM's own defaults change too."""

SMALL_CARD_SHARE = 1 / 8
"""Share of a smaller card that a cache is given at most, unless less would not do. A choice: weights and
a workspace have room beside it, and the requests of a measurement are shorter than the longest sequence."""

GB = 1e9

MOST_CHOICES = 3
"""Ways out that a sentence names."""


@dataclass(frozen=True)
class Held:
    """What a launch holds on its device.

    `weights` is the format that is served: the dense one where an engine dequantizes. `context` are tokens
    of one sequence, `cached` those that the KV cache has room for (the same, if None). A value of cache and
    window takes `item_bytes`. `prefill` tokens go through a layer at once. `draft_tokens` are those that a
    step verifies beside the known one; an engine whose windows keep tokens that may be taken back has them
    longer by `window_tokens`. `mtp` loads the model's own head; `drafter` is a model of its own,
    `drafter_bytes` weights of another kind.
    """

    profile: ModelProfile
    weights: WeightFormat
    context: int
    cached: int | None = None
    item_bytes: int = BFLOAT16_BYTES
    prefill: int = PREFILL_TOKENS
    draft_tokens: int = 0
    window_tokens: int = 0
    mtp: bool = False
    drafter: Held | None = None
    drafter_bytes: int = 0

    @property
    def weight_bytes(self) -> dict[PartKind, int]:
        """Bytes of weights by kind of part, without those of a drafter that is a model of its own."""
        found: dict[PartKind, float] = {}
        for part in self.profile.parts:
            if part.kind is not PartKind.MTP or self.mtp:
                found[part.kind] = found.get(part.kind, 0.0) + _bytes_of(part, self.weights)
        return {kind: round(size) for kind, size in found.items()}

    @property
    def cache_bytes(self) -> int:
        """Bytes of the KV cache, that of the model's own MTP layer too."""
        tokens = self.context if self.cached is None else self.cached
        profile = self.profile
        layers = profile.layer_types.count("full_attention") + profile.mtp_layers * self.mtp
        keys = profile.attention_kv_heads * profile.attention_head_dim
        return tokens * layers * 2 * keys * self.item_bytes

    @property
    def state_bytes(self) -> int:
        """Bytes of the states of GatedDeltaNet layers, and of the windows of their convolutions."""
        tokens = self.profile.gdn_conv_kernel - 1 + self.window_tokens
        window = tokens * _gdn_channels(self.profile) * self.item_bytes
        layers = self.profile.layer_types.count("linear_attention")
        return (self.draft_tokens + 2) * (self.profile.gdn_state_bytes + layers * window)

    @property
    def workspace_bytes(self) -> int:
        """Bytes of everything else: the process, a prefill's activations, logits."""
        profile = self.profile
        mlp = mlp_token_bytes(profile, self.item_bytes)
        gdn = GDN_COPIES * _gdn_channels(profile) * FLOAT32_BYTES
        return PROCESS_BYTES + LOGIT_BYTES + self.prefill * max(mlp, gdn)


def bytes_by_part(held: Held) -> dict[str, int]:
    """Bytes of a launch by part, in the words of a sentence; parts that take nothing are left out."""
    drafter = held.drafter_bytes
    if held.drafter is not None:
        own = held.drafter
        drafter += sum(own.weight_bytes.values()) + own.cache_bytes + own.state_bytes
    found = {
        f"weights in {held.weights.name}": sum(held.weight_bytes.values()),
        f"KV cache for {held.context:,} tokens": held.cache_bytes,
        "GDN state": held.state_bytes,
        "its drafter": drafter,
        "workspace": held.workspace_bytes,
    }
    found["what the allocator loses"] = round(ALLOCATOR_SHARE * sum(found.values()))
    return {name: size for name, size in found.items() if size}


def launch_bytes(held: Held) -> int:
    """Bytes of a launch."""
    return sum(bytes_by_part(held).values())


def reserved_cache_bytes(one: Held, sequences: int, least_bytes: int, memory_bytes: int | None) -> int:
    """Bytes that a launch of vLLM reserves for keys, values and states of so many sequences as `one`.

    On a card of less than `LARGE_CARD_BYTES` no more than a share of it; nowhere less than `least_bytes`, in
    which vLLM has room for the states of all and one whole sequence (`CacheLayout.least_bytes`). It goes by
    the card's whole memory, never by what is free, so that the launches of a test get the same. None: not
    spared.
    """
    wanted = max(CACHE_BYTES_MIN, CACHE_SLACK * sequences * (one.cache_bytes + one.state_bytes))
    if memory_bytes is not None and memory_bytes < LARGE_CARD_BYTES:
        wanted = min(wanted, max(CACHE_BYTES_MIN, round(SMALL_CARD_SHARE * memory_bytes)))
    return max(wanted, least_bytes)


def refusal(
    device: str,
    held_at: Callable[[int], Held],
    context: int,
    *,
    free_bytes: int,
    total_bytes: int,
    launches: int,
    choices: Mapping[str, Held],
) -> str | None:
    """Why so many launches do not fit on a device side by side, in a sentence with its figures; None if they
    do.

    `held_at` tells what a launch holds at a context of so many tokens; `choices` are other ways to serve at
    the context asked for, by the words that ask for them, the least change first.
    """
    held = held_at(context)
    needed = launches * launch_bytes(held)
    if needed <= free_bytes:
        return None
    ways = [words for words, other in choices.items() if launches * launch_bytes(other) <= free_bytes]
    shorter = longest_context(held_at, context, free_bytes // launches)
    if shorter:
        ways.append(f"a context of at most {shorter:,} tokens")
    if needed <= total_bytes:
        ways.append(f"the device without what else holds {(total_bytes - free_bytes) / GB:.1f} GB of it")
    parts = ", ".join(f"{size / GB:.2f} of {part}" for part, size in bytes_by_part(held).items())
    told = "; ".join(ways[:MOST_CHOICES]) or "nothing smaller, so take a device with more memory"
    return (
        f"{_launches_need(launches)} {needed / GB:.1f} GB on {device} ({'' if launches == 1 else 'each '}"
        f"{needed / launches / GB:.2f} GB: {parts}), and {free_bytes / GB:.1f} of its "
        f"{total_bytes / GB:.1f} GB are free; what would fit: {told}."
    )


def _launches_need(launches: int) -> str:
    return "A launch needs" if launches == 1 else f"{launches} launches side by side need"


def longest_context(held_at: Callable[[int], Held], below: int, available_bytes: int) -> int:
    """The most tokens of context, fewer than `below`, at which a launch fits; 0 if it does at none."""
    fits, fails = 0, below
    while fails - fits > 1:
        middle = (fits + fails) // 2
        if launch_bytes(held_at(middle)) <= available_bytes:
            fits = middle
        else:
            fails = middle
    return fits


def _bytes_of(part: Part, weights: WeightFormat) -> float:
    if part.kind is PartKind.MTP:  # quantizers leave the head for drafting as it is
        return part.parameters * weights.other_bits / BITS_PER_BYTE
    if part.kind is PartKind.LM_HEAD:
        copied = not part.matmul_parameters and weights.head_bits != weights.other_bits
        own = part.reads_parameters if copied else part.matmul_parameters
        return own * weights.head_bits / BITS_PER_BYTE
    bits = part.matmul_parameters * weights.matmul_bits + part.other_parameters * weights.other_bits
    return bits / BITS_PER_BYTE


def mlp_token_bytes(profile: ModelProfile, item_bytes: int) -> int:
    """Bytes of the tensors that a token has in a layer's MLP at once: between its projections, and in a
    Mixture of Experts what each of the token's experts gives."""
    given = 0 if profile.experts is None else profile.experts.per_token * profile.hidden
    return (MLP_COPIES * profile.mlp_width + given) * item_bytes


def _gdn_channels(profile: ModelProfile) -> int:
    """Channels of a GatedDeltaNet layer's convolution: queries, keys and values."""
    keys = profile.gdn_k_heads * profile.gdn_k_head_dim
    return 2 * keys + profile.gdn_v_heads * profile.gdn_v_head_dim
