"""The least time that a step can take: the bytes it must move over the memory's bandwidth (FACTS §6). Pure.

A step reads the weights once, for each sequence that is served its keys, values and GDN state, and writes the
state back. With k drafts a step handles k + 1 tokens of a sequence and keeps k states more, and what drafts
reads its own weights and the output head, or the copy that it drafts with, each time that it runs: an MTP
head once a draft, a DFlash drafter once a step, and each time the keys and values of its own layers.

Of a Mixture of Experts a step reads the experts that its tokens are sent to, in expectation, and an MTP head
those of one token of each sequence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields

from agent.surrogate.weight_bytes import step_weight_bytes
from agent.tables.grid import TableWorkload
from agent.tables.journal import Line
from configs.hardware import profile_of_device
from configs.models import BFLOAT16_BYTES, ModelProfile, PartKind
from configs.weight_formats import BITS_PER_BYTE, FP8, SIXTEEN_BIT
from experiments.engines.hybrid_cache import DrafterLayers
from experiments.engines.reference.drafting.order import PACKAGED, DraftingOrder, layers_of
from experiments.engines.stored_bytes import draft_lm_head_bits, part_bytes, step_rows
from experiments.engines.vllm.order import draft_passes, drafting_of
from experiments.shapes.drafter import drafter_for
from experiments.space.configuration import Configuration

MS_PER_S = 1e3

KV_SHARE = {"fp8_e4m3": 0.5, "fp8_e5m2": 0.5}
"""Bytes of a cached value over those of bfloat16, by `serving.kv_cache_dtype`."""

STATE_SHARE = {"bfloat16": 0.5}
"""Bytes of a GDN state over those of float32, by `serving.gdn_state_dtype`."""


@dataclass(frozen=True)
class Drafter:
    """What is read of a DFlash drafter each time that it runs: its weights, and keys and values of `layers`
    that attend to all tokens; None where it is not known which it has."""

    parameters: int = 0
    layers: DrafterLayers | None = None


@dataclass(frozen=True)
class StepBytes:
    """Bytes that a step moves, by what they are: `cache` of keys and values, those of what drafts too,
    `drafter` of its weights."""

    weights: float
    cache: float
    states: float
    drafter: float

    @property
    def total(self) -> float:
        """All of them."""
        return self.weights + self.cache + self.states + self.drafter

    def floor_ms(self, bandwidth_bytes_per_s: float) -> float:
        """The least time of a step, ms."""
        return MS_PER_S * self.total / bandwidth_bytes_per_s


def listed_bandwidth(lines: Iterable[Line]) -> float | None:
    """The bandwidth that the vendor lists of the memory of the GPU that a journal's lines were measured on,
    bytes a second; None of several and of one that no profile lists.

    Told from other cards of its name by its memory, by the name alone where no line has it, as before 30
    November 2026.
    """
    identities = [line["identity"] for line in lines]
    names = {str(each.get("name")) for each in identities}
    sizes = {each.get("memory_bytes") for each in identities} - {None} or {None}
    profiles = {profile_of_device(name, size) for name in names for size in sizes}
    listed = profiles.pop() if len(names) == len(profiles) == 1 else None
    return None if listed is None else listed.bandwidth_bytes_per_s


def told_drafter(told: object) -> Drafter | None:
    """The DFlash drafter that a launch `told` (`drafting.drafter` of a resolved configuration); None where it
    tells no weights, and no layers where it tells none, as before 30 November 2026."""
    if not isinstance(told, Mapping) or not isinstance(told.get("parameters"), int):
        return None
    sizes = [told.get(each.name) for each in fields(DrafterLayers)]
    known = [each for each in sizes if isinstance(each, int)]
    return Drafter(told["parameters"], DrafterLayers(*known) if len(known) == len(sizes) else None)


def drafter_read(
    profile: ModelProfile, configuration: Configuration, *, made_up: bool, told: Drafter | None
) -> Drafter | None:
    """What a DFlash drafter has: what its launch `told`, or what the one has that a shape with `made_up`
    weights brings, by its sizes, where the launch told no other number of weights; None where neither is
    known, nothing where none drafts.

    Raises `Infeasible` for drafting that can't be.
    """
    drafting = drafting_of(configuration)
    if drafting.method != "dflash":
        return Drafter()
    if made_up and drafting.drafter == PACKAGED:
        shape = drafter_for(profile)
        if told is None or told.parameters == shape.parameters:
            return Drafter(shape.parameters, layers_of(shape))
    return told


def step_bytes(
    profile: ModelProfile,
    configuration: Configuration,
    workload: TableWorkload,
    drafter: Drafter = Drafter(),
) -> StepBytes:
    """Bytes of a decode step in the middle of the answers; `drafter` is a DFlash drafter, which has no output
    head of its own. A `draft_model` is not counted.

    Raises `Infeasible` for drafting that can't be.
    """
    context = workload.prompt_tokens + workload.new_tokens / 2
    drafting, rows = drafting_of(configuration), step_rows(configuration, workload.concurrency)
    if configuration.get("serving.weight_dtype") == "fp8":
        weights = profile.weight_bytes_per_step(FP8, rows)
    else:
        weights = step_weight_bytes(profile, configuration, rows).mean
    passes = draft_passes(drafting.method, drafting.draft_tokens)
    of_token = profile.kv_bytes_per_token + passes * _draft_kv_bytes(profile, drafting, drafter)
    kv = of_token * KV_SHARE.get(str(configuration.get("serving.kv_cache_dtype")), 1.0)
    state = profile.gdn_state_bytes * STATE_SHARE.get(str(configuration.get("serving.gdn_state_dtype")), 1.0)
    return StepBytes(
        weights,
        workload.concurrency * kv * context,
        workload.concurrency * state * (2 + drafting.draft_tokens),
        passes * _pass_bytes(profile, configuration, drafting, drafter, workload.concurrency),
    )


def _draft_kv_bytes(profile: ModelProfile, drafting: DraftingOrder, drafter: Drafter) -> int:
    """Bytes of keys and values, in bfloat16, that what drafts reads of a token each time that it runs; an MTP
    head's layers are attention as the model's own."""
    layers = drafter.layers
    if drafting.method == "mtp":
        layers = DrafterLayers(profile.mtp_layers, profile.attention_kv_heads, profile.attention_head_dim)
    return 0 if layers is None else 2 * layers.layers * layers.kv_heads * layers.head_dim * BFLOAT16_BYTES


def _pass_bytes(
    profile: ModelProfile,
    configuration: Configuration,
    drafting: DraftingOrder,
    drafter: Drafter,
    sequences: int,
) -> float:
    """Bytes of weights that what drafts reads each time that it runs."""
    if drafting.method == "mtp":
        return _mtp_bytes(profile, configuration, sequences) + _draft_head_bytes(profile, configuration)
    if drafting.method == "dflash":  # vLLM quantizes no drafter with its target
        own = drafter.parameters * SIXTEEN_BIT / BITS_PER_BYTE
        return own + _draft_head_bytes(profile, configuration)
    return 0.0


def _mtp_bytes(profile: ModelProfile, configuration: Configuration, rows: int) -> float:
    """An MTP head's own weights: quantizers leave them as they are, vLLM rounds them with the others."""
    parts = [part for part in profile.parts if part.kind is PartKind.MTP]
    if configuration.get("serving.weight_dtype") != "fp8":
        return sum(part_bytes(profile, part, {}, rows) for part in parts)
    bits = (
        (each.matmul_parameters - profile.unread_parameters(each, rows)) * FP8.matmul_bits
        + each.other_parameters * FP8.other_bits
        for each in parts
    )
    return sum(bits) / BITS_PER_BYTE


def _draft_head_bytes(profile: ModelProfile, configuration: Configuration) -> float:
    """The output head that drafts: the model's own as it is stored, or a copy of it in fewer bits."""
    head = next(part for part in profile.parts if part.kind is PartKind.LM_HEAD)
    bits = draft_lm_head_bits(configuration)
    if bits is None:
        return part_bytes(profile, head, configuration)
    return head.reads_parameters * bits / BITS_PER_BYTE
