"""The shape of the reference model, as transformers' `Qwen3_5TextConfig`.

The shape is bound from three sides. Qwen3.5: GatedDeltaNet and gated attention 3:1, unequal K and V head
counts, one MTP layer. The file: at most 10 MB in bf16 with the MTP head. vLLM's W4 kernels (Marlin): every
shard's input divisible by 128 and its output by 64, heads of 64.
"""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import Qwen3_5TextConfig

VOCABULARY = 4096
"""Entries of the tokenizer, special tokens included."""

MAX_POSITIONS = 4096
"""Longest context served; training sees less, the card says how much."""

ROPE_THETA = 10_000.0
"""Base of the rotary frequencies; Qwen3.5's ten million is for contexts of 262,144 tokens."""

PARTIAL_ROTARY_FACTOR = 0.25
"""Share of a head's dimensions that rotate, as in Qwen3.5."""

FULL_ATTENTION_INTERVAL = 4
"""Every fourth layer is attention, as in Qwen3.5."""

WEIGHT_FILE_MAX_BYTES = 10_000_000
"""Largest weight file that may be committed."""


@dataclass(frozen=True)
class Shape:
    """The sizes that make one candidate for the reference model; head sizes in dimensions."""

    hidden: int
    intermediate: int
    layers: int
    query_heads: int
    kv_heads: int
    head_size: int
    gdn_key_heads: int
    gdn_value_heads: int
    gdn_head_size: int

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 1:
                raise ValueError(f"{field.name} is {getattr(self, field.name)}; it must be at least 1")
        if self.layers % FULL_ATTENTION_INTERVAL:
            raise ValueError(
                f"{self.layers} layers can't be 3:1; take a multiple of {FULL_ATTENTION_INTERVAL}"
            )


REFERENCE_SHAPE = Shape(
    hidden=128,
    intermediate=512,
    layers=12,
    query_heads=4,
    kv_heads=2,
    head_size=64,
    gdn_key_heads=2,
    gdn_value_heads=4,
    gdn_head_size=64,
)
"""The committed model's shape."""

TINY_SHAPE = Shape(
    hidden=32,
    intermediate=64,
    layers=4,
    query_heads=2,
    kv_heads=1,
    head_size=32,
    gdn_key_heads=1,
    gdn_value_heads=2,
    gdn_head_size=16,
)
"""For tests of the recipe: trains a step in milliseconds on a CPU."""


def mrope_section(shape: Shape) -> list[int]:
    """Return how time, height and width share the rotary frequencies; text turns them all alike."""
    frequencies = int(shape.head_size * PARTIAL_ROTARY_FACTOR) // 2
    rest = frequencies // 3
    return [frequencies - 2 * rest, rest, rest]


def text_config(shape: Shape = REFERENCE_SHAPE, **special_token_ids: Any) -> "Qwen3_5TextConfig":
    """Return the configuration of a shape; special token ids (`eos_token_id`, `pad_token_id`) as given.

    `mtp_num_hidden_layers` is no field of transformers' class, which carries it along; vLLM needs it to load
    `mtp.*`."""
    from transformers import Qwen3_5TextConfig

    return Qwen3_5TextConfig(
        architectures=["Qwen3_5ForCausalLM"],
        dtype="bfloat16",
        vocab_size=VOCABULARY,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.query_heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_size,
        linear_num_key_heads=shape.gdn_key_heads,
        linear_num_value_heads=shape.gdn_value_heads,
        linear_key_head_dim=shape.gdn_head_size,
        linear_value_head_dim=shape.gdn_head_size,
        layer_types=layer_types(shape.layers),
        tie_word_embeddings=True,
        max_position_embeddings=MAX_POSITIONS,
        rope_parameters={
            "rope_type": "default",
            "rope_theta": ROPE_THETA,
            "partial_rotary_factor": PARTIAL_ROTARY_FACTOR,
            "mrope_section": mrope_section(shape),
            "mrope_interleaved": True,
        },
        **{"mtp_num_hidden_layers": 1, **special_token_ids},
    )


def layer_types(layers: int) -> list[str]:
    """Return the kind of each layer: three GatedDeltaNet layers, then one of attention, and again."""
    return [
        "linear_attention" if (index + 1) % FULL_ATTENTION_INTERVAL else "full_attention"
        for index in range(layers)
    ]
