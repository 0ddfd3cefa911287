"""How much memory of a GPU a launch takes on an engine that computes with packed weights, by part. Pure.

Weights, caches and states are exact sums of the model's shape and the configuration. What compiled graphs, a
prefill and the process take is an upper guess, each with its basis (`Part.basis`), so that a plan that misses
by a few per cent either way may be wrong, and says what it counted.

A test holds two launches at once: its control, which is the campaign's baseline at first, and its candidate.
One launch alone is told beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from configs.models import BFLOAT16_BYTES, EVERY_EXPERT, FLOAT32_BYTES, ModelProfile, PartKind
from configs.weight_formats import BFLOAT16, BITS_PER_BYTE, SIXTEEN_BIT
from experiments.engines.device_memory import (
    ALLOCATOR_SHARE,
    GB,
    GDN_COPIES,
    LARGE_CARD_BYTES,
    PROCESS_BYTES,
    Held,
    mlp_token_bytes,
    reserved_cache_bytes,
)
from experiments.engines.hybrid_cache import (
    DrafterLayers,
    cache_layout,
    draft_tokens,
    gdn_channels,
    hybrid_cache,
)
from experiments.engines.stored_bytes import bytes_of_parts, draft_lm_head_bits, head_quantized, part_bytes
from experiments.space.configuration import KnobValue
from experiments.space.legality import KINDS_OF
from experiments.space.server_steps import tokens_by_memory

GRAPH_BYTES = round(0.73 * 2**30)
"""What captured graphs take: vLLM's own estimate for a Qwen3.5 with 51 + 35 captured sizes, as a log in
vllm-project/vllm#39559 has it. Fewer sizes take less."""

LOGGED_TOKENS, LOGGED_SIZES, SIZES_APART = 512, 86, 16
"""Tokens of the largest step among those, how many sizes there were, and how far apart larger ones lie."""

SAMPLED_SEQUENCES = 256
"""Sequences whose logits vLLM tries out at once while it starts, where no knob says how many (`max_num_seqs`
of its server on cards below 70 GiB)."""

LOGIT_COPIES = 3
"""Copies of those logits in float32, sorted and as probabilities. A guess."""

SCORED_BYTES = 2 * BFLOAT16_BYTES + FLOAT32_BYTES
"""Bytes of a token and word of the vocabulary while a document is scored: vLLM's logits, the copy of them
that is read, and log-probabilities, which vLLM makes of all tokens of a prompt at once (0.26 to 0.33)."""

MODEL_LENGTH, MOST_SEQUENCES = "serving.max_model_len", "serving.max_sequences"
"""Knobs of the longest sequence, for one of which an engine wants room, and of the most at once."""

CHUNKED_PREFILL, BATCH_TOKENS = "serving.chunked_prefill", "serving.max_batch_tokens"
GRAPH_MODE, EAGER = "serving.graph_mode", ("none", "off", "eager")
"""The knob of compiled graphs, and its values without any."""

GRAPH_TOKENS = "serving.max_graph_tokens"
"""The knob of the largest step that is captured."""


WEIGHTS = "weights"
"""The name of the part that holds the model's weights."""

MTP_HEAD, DRAFTING_HEAD, DRAFTER, PROCESS = "MTP head", "output head that drafts", "drafter", "process"
"""The names of further parts."""

HELD_WHILE_LOADING = (WEIGHTS, MTP_HEAD, DRAFTING_HEAD, DRAFTER, PROCESS)
"""Parts that are there once the weights have been read; the others come when it has loaded."""

AS_STORED = "as the files store them"
"""What the figure of weights rests on that a checkpoint stores quantized."""


@dataclass(frozen=True)
class Part:
    """Bytes of one part of a launch, and what the figure rests on; `guessed`: an upper guess, no sum."""

    name: str
    bytes: int
    basis: str
    guessed: bool = False


@dataclass(frozen=True)
class Asked:
    """What is asked of an engine: how many sequences at once, and the tokens of each.

    `scored_tokens` are those of a document that is scored in one prefill; 0 where none is.
    `stored_weight_bytes` are those of a checkpoint whose weights are quantized as they are stored, and count
    for the shape's; `drafter_bytes` those of a drafter with weights of its own, `drafter` are its layers that
    keep a cache; `card_bytes` is the memory of the card, by which a cache is reserved; `graphs` tells whether
    steps may be captured there, which a processor's are not.
    """

    context_tokens: int
    sequences: int = 1
    stored_weight_bytes: int | None = None
    drafter_bytes: int = 0
    card_bytes: int | None = None
    graphs: bool = True
    scored_tokens: int = 0
    drafter: DrafterLayers | None = None


def launch_parts(
    profile: ModelProfile, configuration: Mapping[str, KnobValue], asked: Asked
) -> tuple[Part, ...]:
    """What one launch takes, part by part; parts that take nothing are left out."""
    served = after_pruning(profile, configuration)
    tokens = asked.context_tokens
    longest = max(tokens, _whole(configuration, MODEL_LENGTH) or 0)
    cache, whole = (hybrid_cache(served, configuration, each, asked.drafter) for each in (tokens, longest))
    found = [_weights(served, configuration, asked)]
    if configuration.get("drafting.method") == "mtp":
        head = served.mtp_parameters * SIXTEEN_BIT / BITS_PER_BYTE
        found.append(Part(MTP_HEAD, round(head), "its parameters in 16 bits"))
    if (bits := draft_lm_head_bits(configuration)) is not None:
        copied = round(served.vocabulary * served.hidden * bits / BITS_PER_BYTE)
        found.append(Part(DRAFTING_HEAD, copied, f"a copy, {bits:g} bits a weight"))
    found += [
        Part(DRAFTER, asked.drafter_bytes, "its parameters in 16 bits"),
        Part(
            "KV cache",
            max(asked.sequences * cache.kv_bytes, whole.kv_bytes),
            f"{asked.sequences} × {tokens:,} tokens, or one of {longest:,}, in pages of {cache.page_tokens}",
        ),
        Part("GDN and conv state", asked.sequences * cache.state_bytes, "a page for each state"),
        _reserved(
            served,
            configuration,
            asked,
            max(asked.sequences * cache.kv_bytes, whole.kv_bytes) + asked.sequences * cache.state_bytes,
        ),
        Part(
            "CUDA graphs",
            _graph_bytes(configuration) if asked.graphs else 0,
            _graph_basis(configuration),
            guessed=True,
        ),
        Part(
            "activations",
            *_activations(served, configuration, asked),
            guessed=True,
        ),
        Part(PROCESS, PROCESS_BYTES, "context, kernels, libraries; a guess", guessed=True),
    ]
    # weights are given room once, in whole tensors, and nothing of them is handed back
    lost = round(ALLOCATOR_SHARE * sum(part.bytes for part in found[1:]))
    basis = f"{100 * ALLOCATOR_SHARE:.0f} % of everything but weights; a guess"
    found.append(Part("lost by the allocator", lost, basis, guessed=True))
    later = sum(part.bytes for part in found if part.name not in HELD_WHILE_LOADING)
    found.append(
        Part(
            "more while it loads",
            max(0, _copied_while_loading(served, configuration) - later),
            "what drafts has the embedding and the output head once more until it has loaded",
        )
    )
    return tuple(part for part in found if part.bytes)


def needed_bytes(parts: Iterable[Part]) -> int:
    """Bytes of a launch."""
    return sum(part.bytes for part in parts)


def after_pruning(profile: ModelProfile, configuration: Mapping[str, KnobValue]) -> ModelProfile:
    """The shape without the layers that go; which they are is not known before they are ranked, so the
    smallest of those that may go are taken."""
    count = configuration.get("pruning.layers_removed")
    if isinstance(count, bool) or not isinstance(count, int):
        return profile
    kinds = KINDS_OF.get(str(configuration.get("pruning.restrict", "any")), KINDS_OF["any"])
    sizes: dict[int, float] = {}
    bytes_of = bytes_of_parts(profile, configuration, EVERY_EXPERT)
    for part in profile.parts:
        if part.layer is not None and profile.layer_types[part.layer] in kinds:
            sizes[part.layer] = sizes.get(part.layer, 0.0) + bytes_of(part)
    smallest = sorted(sizes, key=lambda layer: (sizes[layer], layer))
    return profile.without_layers(frozenset(smallest[: min(count, profile.layers - 1)]))


def _reserved(
    profile: ModelProfile, configuration: Mapping[str, KnobValue], asked: Asked, counted_bytes: int
) -> Part:
    """What an engine reserves beyond the requests' own: vLLM gets room for `serving.max_sequences` sequences
    of `serving.max_model_len` tokens, whatever is asked of it."""
    length, sequences = _whole(configuration, MODEL_LENGTH), _whole(configuration, MOST_SEQUENCES)
    if length is None or sequences is None:
        return Part("cache reserved beyond that", 0, "")
    drafts = draft_tokens(configuration)
    one = Held(
        profile,
        BFLOAT16,
        length,
        draft_tokens=drafts,
        window_tokens=drafts,
        mtp=configuration.get("drafting.method") == "mtp",
    )
    least = cache_layout(profile, configuration, asked.drafter).least_bytes(sequences, length)
    reserved = reserved_cache_bytes(one, sequences, least, asked.card_bytes)
    served = f"{sequences} sequence{'' if sequences == 1 else 's'}"
    return Part(
        "cache reserved beyond that",
        max(0, reserved - counted_bytes),
        f"for {served} of {length:,} tokens, with slack; less on a card below {LARGE_CARD_BYTES / GB:.0f} GB",
    )


def _copied_while_loading(profile: ModelProfile, configuration: Mapping[str, KnobValue]) -> int:
    """Bytes of the embedding and the output head that an MTP head or a DFlash drafter is built with, and that
    are let go once it has loaded, for it uses the model's own (vLLM 0.32 and 0.33: `Qwen3_5MTP`,
    `DFlashQwen3ForCausalLM`, `_maybe_share_embeddings`, `maybe_share_target_embed`)."""
    method, table = configuration.get("drafting.method"), profile.vocabulary * profile.hidden * BFLOAT16_BYTES
    if method == "dflash":
        return 2 * table
    if method != "mtp":
        return 0
    head = next(part for part in profile.parts if part.kind is PartKind.LM_HEAD)
    own = head.parameters or head_quantized(configuration) or profile.stored_bytes(head) is not None
    return table + (round(part_bytes(profile, head, configuration)) if own else 0)


def _weights(profile: ModelProfile, configuration: Mapping[str, KnobValue], asked: Asked) -> Part:
    if profile.is_stored_quantized:
        return Part(WEIGHTS, round(weight_bytes(profile, configuration)), AS_STORED)
    if asked.stored_weight_bytes is not None:
        return Part(WEIGHTS, asked.stored_weight_bytes, AS_STORED)
    return Part(
        WEIGHTS,
        round(weight_bytes(profile, configuration)),
        format_words(configuration, experts=profile.experts is not None),
    )


def weight_bytes(profile: ModelProfile, configuration: Mapping[str, KnobValue]) -> float:
    """Bytes of the weights that stay in memory, without an MTP head: all experts, the embedding whole, and a
    head that is tied to it only where it is quantized, for then it is a copy of its own."""
    total, bytes_of = 0.0, bytes_of_parts(profile, configuration, EVERY_EXPERT)
    for part, count in profile.alike_parts:
        if part.kind is PartKind.MTP:
            continue
        if part.kind is PartKind.EMBEDDING:
            stored = profile.stored_bytes(part)
            held = part.parameters * SIXTEEN_BIT / BITS_PER_BYTE if stored is None else stored
            total += count * held
        elif part.kind is PartKind.LM_HEAD and not part.parameters:
            own = head_quantized(configuration) or profile.stored_bytes(part) is not None
            total += count * bytes_of(part) if own else 0.0
        else:
            total += count * bytes_of(part)
    return total


def format_words(configuration: Mapping[str, KnobValue], *, experts: bool = False) -> str:
    """In how many bits weights are held, in words; `experts`: of a Mixture of Experts."""
    method, bits = configuration.get("quantization.method", "none"), configuration.get("quantization.bits")
    if method == "none" or bits is None:
        return "every parameter in 16 bits"
    group = configuration.get("quantization.group_size")
    packed = "projections and experts" if experts else "projections"
    head = ", the head too," if head_quantized(configuration) else ","
    return f"{packed} in {bits} bits, groups of {group}{head} the rest in 16"


def _graph_bytes(configuration: Mapping[str, KnobValue]) -> int:
    """What captured graphs take, of steps above the largest in that log in proportion to their number."""
    if str(configuration.get(GRAPH_MODE, "")).lower() in EAGER:
        return 0
    return GRAPH_BYTES + round(GRAPH_BYTES * _more_sizes(configuration) / LOGGED_SIZES)


def _more_sizes(configuration: Mapping[str, KnobValue]) -> int:
    """Sizes of graphs above the largest in that log."""
    return max(0, (_whole(configuration, GRAPH_TOKENS) or 0) - LOGGED_TOKENS) // SIZES_APART


def _graph_basis(configuration: Mapping[str, KnobValue]) -> str:
    more = _more_sizes(configuration)
    each = f", and as much for each of {more} more" if more else ""
    return f"reported by an engine's log for {LOGGED_SIZES} sizes{each}"


def _whole(configuration: Mapping[str, KnobValue], knob: str) -> int | None:
    """What a knob holds where it is a whole number."""
    value = configuration.get(knob)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _activations(
    profile: ModelProfile, configuration: Mapping[str, KnobValue], asked: Asked
) -> tuple[int, str]:
    """Bytes of whatever takes more, a prefill's tensors or the logits of a document that is scored, which are
    made when those are gone, beside the logits of what is sampled; and what the figure rests on."""
    mlp = mlp_token_bytes(profile, BFLOAT16_BYTES)
    gdn = GDN_COPIES * gdn_channels(profile) * FLOAT32_BYTES
    # of a card that is not known as of the smallest
    tokens = _whole(configuration, BATCH_TOKENS) or tokens_by_memory(asked.card_bytes or 0)
    if configuration.get(CHUNKED_PREFILL) == "off":  # a whole prompt goes into a step
        tokens = max(tokens, _whole(configuration, MODEL_LENGTH) or 0)
    prefill = tokens * max(mlp, gdn)
    scored = SCORED_BYTES * asked.scored_tokens * profile.vocabulary
    sequences = _whole(configuration, MOST_SEQUENCES) or SAMPLED_SEQUENCES
    sampled = LOGIT_COPIES * sequences * profile.vocabulary * FLOAT32_BYTES
    if scored > prefill:
        return scored + sampled, f"logits of a scored document of {asked.scored_tokens:,} tokens; a guess"
    return prefill + sampled, f"a prefill of {tokens:,} tokens; a guess"
