"""Bytes of a part's weights as a configuration stores them, by exact arithmetic from the model's shape. Pure.

Of a checkpoint that stores them quantized already they are those of its files (`ModelProfile.as_stored`).

A quantized weight takes its bits plus its share of the group's scale (and zero point): 4.156 bits for groups
of 128, 4.625 for groups of 32. What stays in high precision is what the quantization stage keeps so:
`in_proj_a`, `in_proj_b`, convolution, norms, embedding, MTP head, of a Mixture of Experts the router and the
shared expert's gate, and the output head unless it is asked for.

Of the experts of a Mixture of Experts, in whatever bits, a step reads those that its rows are sent to
(`configs.models.Experts`); with `EVERY_EXPERT` for its rows that is what lies in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from configs.models import ModelProfile, Part, PartKind
from configs.weight_formats import BITS_PER_BYTE, SCALE_BITS, SIXTEEN_BIT
from experiments.engines.hybrid_cache import draft_tokens
from experiments.space.configuration import KnobValue

DRAFT_LM_HEAD_BITS: Mapping[KnobValue, float] = {"fp8": 8.0, "nvfp4": 4 + 8 / 16}
"""Bits of a weight in the copy of the output head that drafts, by `drafting.lm_head`: with nvfp4 an 8-bit
scale for 16 weights; fp8 has one for a whole row, which is left out (vLLM 0.33)."""

QUANTIZED_METHODS = ("awq", "rtn")
"""Values of `quantization.method` under which weights take fewer bits."""

NEVER_QUANTIZED = (PartKind.EMBEDDING, PartKind.NORM)
"""Kinds of parts that no quantization here touches."""


def bits_per_weight(bits: int, group_size: int, symmetric: bool) -> float:
    """Bits of a quantized weight with its share of a 16-bit scale and, if asymmetric, of a zero point."""
    return bits + (SCALE_BITS + (0 if symmetric else bits)) / group_size


def step_rows(configuration: Mapping[str, KnobValue], requests: int = 1) -> int:
    """Rows of a decode step: a token of each request that is under way, and the drafts that it verifies."""
    return requests * (1 + draft_tokens(configuration))


def part_bytes(
    shape: ModelProfile, part: Part, configuration: Mapping[str, KnobValue], rows: float = 1
) -> float:
    """Bytes of a part's weights that a step of so many rows reads under a configuration; what neither it nor
    the checkpoint quantizes takes 16 bits."""
    return bytes_of_parts(shape, configuration, rows)(part)


def bytes_of_parts(
    shape: ModelProfile, configuration: Mapping[str, KnobValue], rows: float = 1
) -> Callable[[Part], float]:
    """What `part_bytes` says of each part of a model; the knobs are read once, for a plan asks of many."""
    stores = shape.is_stored_quantized
    bits, head = quantized_bits(configuration), head_quantized(configuration)
    kept, edges = configuration.get("quantization.keep"), (0, shape.layers - 1)
    gdn_out = shape.hidden * shape.gdn_v_heads * shape.gdn_v_head_dim
    out_bits = quantized_bits(configuration, "quantization.out_proj_bits") or bits

    def bytes_of(part: Part) -> float:
        stored = shape.stored_bytes_read(part, rows) if stores else None
        unread = shape.unread_parameters(part, rows)
        high = (part.reads_parameters - unread) * SIXTEEN_BIT / BITS_PER_BYTE if stored is None else stored
        if bits is None or out_bits is None or part.kind in NEVER_QUANTIZED:
            return high
        if part.kind is PartKind.LM_HEAD:
            return part.reads_parameters * bits / BITS_PER_BYTE if head else high
        if kept == "attention" and part.kind is PartKind.ATTENTION:
            return high
        if kept == "edges" and part.layer in edges:
            return high
        others = part.other_parameters * SIXTEEN_BIT
        out = gdn_out if part.kind is PartKind.GDN else 0
        packed = part.matmul_parameters - unread - out
        return (packed * bits + out * out_bits + others) / BITS_PER_BYTE

    return bytes_of


def quantized_bits(configuration: Mapping[str, KnobValue], knob: str = "quantization.bits") -> float | None:
    """Bits a weight with its overhead; None where nothing is quantized or the knob is not active."""
    bits, group = configuration.get(knob), configuration.get("quantization.group_size")
    if configuration.get("quantization.method") not in QUANTIZED_METHODS:
        return None
    if not isinstance(bits, int) or not isinstance(group, int):
        return None
    return bits_per_weight(bits, group, configuration.get("quantization.symmetric") is True)


def head_quantized(configuration: Mapping[str, KnobValue]) -> bool:
    """Whether the output head is quantized like the projections."""
    return configuration.get("quantization.lm_head") == "quantized"


def draft_lm_head_bits(configuration: Mapping[str, KnobValue]) -> float | None:
    """Bits of a weight in the copy of the output head that drafts; None where the model's own does."""
    return DRAFT_LM_HEAD_BITS.get(configuration.get("drafting.lm_head", "auto"))
