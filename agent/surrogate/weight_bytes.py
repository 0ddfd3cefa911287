"""Bytes of weights that a decode step reads, as stored (`experiments.engines.stored_bytes`). Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent.surrogate.kernel_parts import EXPERTS, HEAD, PRODUCTS
from configs.models import ModelProfile, PartKind
from configs.weight_formats import SIXTEEN_BIT
from experiments.engines.port import PartTime
from experiments.engines.stored_bytes import bytes_of_parts, head_quantized, part_bytes, quantized_bits
from experiments.measurement.plan import Prediction
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.legality import KINDS_OF

STORED_SD_SHARE = 0.003
"""What the arithmetic leaves out, as a share: padding, and the few bytes that name each tensor's shape."""


@dataclass(frozen=True)
class StepBytes:
    """Weight bytes a step reads, and the standard deviation that is left while it is open which layers go."""

    mean: float
    sd: float


SHAPELESS_SD_LOG = 0.1
"""Standard deviation of the log ratio where only the profile's parts are known and not the shape."""

LEAST_SD_LOG = 1e-4
"""No prediction is closer than this, so that a normal stays one."""

PACKED: Mapping[str, tuple[PartKind, ...]] = {
    PRODUCTS: (PartKind.GDN, PartKind.ATTENTION, PartKind.MLP),
    EXPERTS: (PartKind.EXPERTS,),
}
"""By kind of part in a profile by kernels, the kinds of parts of a shape that are quantized there; the output
head is where it is asked for."""

PROJECTION_KINDS = ("gdn", "attention", "mlp", PRODUCTS, EXPERTS)
"""Kinds of parts in a profile that are projections, nearly all of them."""


@dataclass(frozen=True)
class WeightBytesBelief:
    """What is known of a step's weight bytes: by the shape, or, without one, by the profile's parts. As such
    bytes are told of a checkpoint, a step has one row."""

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
        bits = quantized_bits(configuration)
        if bits is None or whole <= 0:
            return 1.0
        kinds = (*PROJECTION_KINDS, *([HEAD] if head_quantized(configuration) else []))
        packed = math.fsum(part.weight_bytes for part in self.profile if part.kind in kinds)
        return 1 - packed / whole * (1 - bits / SIXTEEN_BIT)


def step_weight_bytes(
    shape: ModelProfile, configuration: Mapping[str, KnobValue], rows: float = 1
) -> StepBytes:
    """The bytes of a configuration's decode step of so many rows (`step_rows`), without what drafts: what
    neither it nor the checkpoint of this shape quantizes takes 16 bits."""
    by_layer: dict[int, float] = {}
    rest, bytes_of = 0.0, bytes_of_parts(shape, configuration, rows)
    for part in shape.parts:
        if part.kind is PartKind.MTP:
            continue
        size = bytes_of(part)
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


def read_by_drafts(
    shape: ModelProfile, configuration: Mapping[str, KnobValue], requests: int, most: int
) -> tuple[float, ...]:
    """By what share of its weight bytes a step reads more with 1, 2, … drafts a request, up to `most`: the
    experts that these are sent to; empty of a dense model, which reads the same."""
    if shape.experts is None:
        return ()
    plain = step_weight_bytes(shape, configuration, requests).mean
    rows = [requests * (1 + drafts) for drafts in range(1, most + 1)]
    return tuple(step_weight_bytes(shape, configuration, each).mean / plain - 1 for each in rows)


def head_is_packed(shape: ModelProfile | None, configuration: Mapping[str, KnobValue]) -> bool:
    """Whether the output head is read in fewer than 16 bits: by the configuration, or as it is stored."""
    if head_quantized(configuration) or shape is None:
        return head_quantized(configuration)
    heads = [part for part in shape.parts if part.kind is PartKind.LM_HEAD]
    dense = shape.as_stored(None)
    return any(part_bytes(shape, each, {}) < part_bytes(dense, each, {}) for each in heads)


def packed_shares(
    shape: ModelProfile | None, configuration: Mapping[str, KnobValue]
) -> dict[str, float] | None:
    """Bytes of what is packed over those of 16 bits, by kind of part in a profile by kernels: the layers'
    products, experts, the output head; None where nothing is quantized. Without a shape nothing is spared
    that a knob spares."""
    bits = quantized_bits(configuration)
    if bits is None:
        return None
    kinds = [*PACKED, *([HEAD] if head_quantized(configuration) else [])]
    found = dict.fromkeys(kinds, bits / SIXTEEN_BIT)
    if shape is None:
        return found
    for kind, own in PACKED.items():
        parts = [part for part in shape.parts if part.kind in own]
        before = math.fsum(part_bytes(shape, part, {}) for part in parts)
        if before:
            found[kind] = math.fsum(part_bytes(shape, part, configuration) for part in parts) / before
    return found
