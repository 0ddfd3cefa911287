"""Bytes of weights that a decode step reads, as stored, by exact arithmetic from the model's shape. Pure.

A quantized weight takes its bits plus its share of the group's scale (and zero point): 4.156 bits for groups
of 128, 4.625 for groups of 32. What stays in high precision is what the quantization stage keeps so:
`in_proj_a`, `in_proj_b`, convolution, norms, embedding, MTP head, and the output head unless it is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from configs.models import ModelProfile, Part, PartKind
from configs.weight_formats import BITS_PER_BYTE, SCALE_BITS, SIXTEEN_BIT
from experiments.engines.port import PartTime
from experiments.measurement.plan import Prediction
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.legality import KINDS_OF

STORED_SD_SHARE = 0.003
"""What the arithmetic leaves out, as a share: padding, and the few bytes that name each tensor's shape."""

QUANTIZED_METHODS = ("awq", "rtn")
"""Values of `quantization.method` under which weights take fewer bits."""


@dataclass(frozen=True)
class StepBytes:
    """Weight bytes a step reads, and the standard deviation that is left while it is open which layers go."""

    mean: float
    sd: float


SHAPELESS_SD_LOG = 0.1
"""Standard deviation of the log ratio where only the profile's parts are known and not the shape."""

LEAST_SD_LOG = 1e-4
"""No prediction is closer than this, so that a normal stays one."""

PROJECTION_KINDS = ("gdn", "attention", "mlp", "gemm")
"""Kinds of parts in a profile that are projections, nearly all of them."""


@dataclass(frozen=True)
class WeightBytesBelief:
    """What is known of a step's weight bytes: by the shape, or, without one, by the profile's parts."""

    shape: ModelProfile | None
    profile: Sequence[PartTime]

    def predict(self, control: Configuration, candidate: Configuration) -> Prediction:
        """Log of the candidate's step weight bytes over the control's."""
        if self.shape is None:
            mean = math.log(self._share(candidate) / self._share(control))
            return Prediction(log_ratio_mean=mean, log_ratio_sd=SHAPELESS_SD_LOG if mean else LEAST_SD_LOG)
        before, after = (step_weight_bytes(self.shape, each) for each in (control, candidate))
        same = {c.knob.partition(".")[0] for c in control.changes_to(candidate)} <= {"serving", "drafting"}
        spread = 0.0 if same else math.hypot(before.sd / before.mean, after.sd / after.mean, STORED_SD_SHARE)
        return Prediction(
            log_ratio_mean=math.log(after.mean / before.mean), log_ratio_sd=max(LEAST_SD_LOG, spread)
        )

    def _share(self, configuration: Configuration) -> float:
        """Bytes over those of 16-bit weights, from the kinds of the profile's parts."""
        whole = math.fsum(part.weight_bytes for part in self.profile)
        bits = _quantized_bits(configuration)
        if bits is None or whole <= 0:
            return 1.0
        kinds = (*PROJECTION_KINDS, *(["lm_head"] if _head_quantized(configuration) else []))
        packed = math.fsum(part.weight_bytes for part in self.profile if part.kind in kinds)
        return 1 - packed / whole * (1 - bits / SIXTEEN_BIT)


def bits_per_weight(bits: int, group_size: int, symmetric: bool) -> float:
    """Bits of a quantized weight with its share of a 16-bit scale and, if asymmetric, of a zero point."""
    return bits + (SCALE_BITS + (0 if symmetric else bits)) / group_size


def step_weight_bytes(shape: ModelProfile, configuration: Mapping[str, KnobValue]) -> StepBytes:
    """The bytes of a configuration's decode step without drafting, from a checkpoint stored in 16 bits."""
    by_layer: dict[int, float] = {}
    rest = 0.0
    for part in shape.parts:
        if part.kind is PartKind.MTP:
            continue
        size = part_bytes(shape, part, configuration)
        if part.layer is None:
            rest += size
        else:
            by_layer[part.layer] = by_layer.get(part.layer, 0.0) + size
    whole = rest + math.fsum(by_layer.values())
    count = configuration.get("pruning.layers_removed")
    if isinstance(count, bool) or not isinstance(count, int):
        return StepBytes(whole, 0.0)
    kinds = KINDS_OF.get(str(configuration.get("pruning.restrict", "any")), KINDS_OF["any"])
    sizes = [size for layer, size in by_layer.items() if shape.layer_types[layer] in kinds]
    sizes = sizes or list(by_layer.values())
    mean = math.fsum(sizes) / len(sizes)
    spread = math.sqrt(math.fsum((size - mean) ** 2 for size in sizes) / len(sizes))
    count = min(count, len(by_layer) - 1)
    return StepBytes(whole - count * mean, math.sqrt(count) * spread)


def part_bytes(shape: ModelProfile, part: Part, configuration: Mapping[str, KnobValue]) -> float:
    """Bytes of a part's weights that a step reads under a configuration; unquantized ones take 16 bits."""
    bits = _quantized_bits(configuration)
    high = part.reads_parameters * SIXTEEN_BIT / BITS_PER_BYTE
    if bits is None or part.kind in (PartKind.EMBEDDING, PartKind.NORM):
        return high
    if part.kind is PartKind.LM_HEAD:
        return part.reads_parameters * bits / BITS_PER_BYTE if _head_quantized(configuration) else high
    kept = configuration.get("quantization.keep")
    if kept == "attention" and part.kind is PartKind.ATTENTION:
        return high
    if kept == "edges" and part.layer in (0, shape.layers - 1):
        return high
    others = part.other_parameters * SIXTEEN_BIT
    out = shape.hidden * shape.gdn_v_heads * shape.gdn_v_head_dim if part.kind is PartKind.GDN else 0
    out_bits = _quantized_bits(configuration, "quantization.out_proj_bits") or bits
    return ((part.matmul_parameters - out) * bits + out * out_bits + others) / BITS_PER_BYTE


def _quantized_bits(configuration: Mapping[str, KnobValue], knob: str = "quantization.bits") -> float | None:
    """Bits a weight with its overhead; None where nothing is quantized or the knob is not active."""
    bits, group = configuration.get(knob), configuration.get("quantization.group_size")
    if configuration.get("quantization.method") not in QUANTIZED_METHODS:
        return None
    if not isinstance(bits, int) or not isinstance(group, int):
        return None
    return bits_per_weight(bits, group, configuration.get("quantization.symmetric") is True)


def _head_quantized(configuration: Mapping[str, KnobValue]) -> bool:
    return configuration.get("quantization.lm_head") == "quantized"
