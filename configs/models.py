"""Model profiles: the shape of a hybrid, and the parameters, bytes and state that follow from it.

Shapes are those of transformers' `Qwen3_5TextConfig` and `Qwen3_5MoeTextConfig` (class documentation,
transformers 5.23); the counts are derived from the parameters that `Qwen3_5ForCausalLM` and
`Qwen3_5MoeForCausalLM` create, and tests compare them with these classes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from configs.catalog import Kind, read_document
from configs.errors import UsageError
from configs.validation import validated
from configs.weight_formats import BITS_PER_BYTE, WeightFormat

LayerType = Literal["linear_attention", "full_attention"]
"""`linear_attention` is a GatedDeltaNet layer, `full_attention` a gated-attention layer."""

BFLOAT16_BYTES = 2
"""Bytes of one bfloat16 value: what Qwen3.5 keeps its KV cache in."""

FLOAT32_BYTES = 4
"""Bytes of one float32 value: what Qwen3.5 keeps its GDN state in (`mamba_ssm_dtype`)."""


EMBEDDING = "embed_tokens"
"""The name of the embedding's part."""


class PartKind(StrEnum):
    """What a part of the model is; a layer has a mixer (`gdn` or `attention`), an `mlp` and `norm`, and in a
    Mixture of Experts `experts` beside the MLP that every token goes through."""

    EMBEDDING = "embedding"
    GDN = "gdn"
    ATTENTION = "attention"
    MLP = "mlp"
    EXPERTS = "experts"
    NORM = "norm"
    LM_HEAD = "lm_head"
    MTP = "mtp"


class Part(BaseModel):
    """One part of the model, named as in its checkpoint (`layers.3.mlp`).

    `matmul_parameters` are the weights of projections, which quantizers shrink; `other_parameters` are those
    that stay as they are (norms, convolution, gates, routers, `in_proj_a` and `in_proj_b`). A step reads
    `reads_parameters`: of the embedding one row, of a tied head all, though it owns none. Of those of experts
    (`routed_parameters`, which are among `matmul_parameters`) it reads what its rows are sent to
    (`ModelProfile.unread_parameters`).
    """

    model_config = ConfigDict(frozen=True)

    name: str
    kind: PartKind
    layer: int | None
    matmul_parameters: int
    other_parameters: int
    reads_parameters: int
    routed_parameters: int = 0

    @property
    def parameters(self) -> int:
        """All parameters that this part owns."""
        return self.matmul_parameters + self.other_parameters


EVERY_EXPERT = math.inf
"""Rows of a step that all experts are read for: with so many, what is read is what lies in memory."""


class Experts(BaseModel):
    """The experts of each layer of a Mixture of Experts: `count` MLPs that are `intermediate` wide, of which
    a token goes through `per_token`, as the layer's router says."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    count: int = Field(ge=1)
    per_token: int = Field(ge=1)
    intermediate: int = Field(ge=1)

    @model_validator(mode="after")
    def _has_so_many(self) -> Experts:
        if self.per_token > self.count:
            raise ValueError(f"a token can't go through {self.per_token} of {self.count} experts")
        return self

    def read(self, rows: float) -> float:
        """Distinct experts of a layer that a step of so many rows reads: `per_token` for one row, all for
        `EVERY_EXPERT`.

        Between them an expectation under even routing: each row is sent to any `per_token` of them,
        whatever the others are sent to. Routers that prefer some experts have fewer read.
        """
        missed: float = (1 - self.per_token / self.count) ** (rows - 1)
        return self.per_token + (self.count - self.per_token) * (1 - missed)


class ModelProfile(BaseModel):
    """The shape of a hybrid of GatedDeltaNet and gated-attention layers.

    Of a Mixture of Experts `intermediate` is the width of the shared expert, the MLP that every token goes
    through.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    confirmed: bool
    """False where the figures come from a source that was not checked against the published config."""
    source: str
    vocabulary: int = Field(ge=1)
    hidden: int = Field(ge=1)
    intermediate: int = Field(ge=1)
    layer_types: tuple[LayerType, ...] = Field(min_length=1)
    attention_q_heads: int = Field(ge=1)
    attention_kv_heads: int = Field(ge=1)
    attention_head_dim: int = Field(ge=1)
    gdn_k_heads: int = Field(ge=1)
    gdn_v_heads: int = Field(ge=1)
    gdn_k_head_dim: int = Field(ge=1)
    gdn_v_head_dim: int = Field(ge=1)
    gdn_conv_kernel: int = Field(ge=1)
    tied_embeddings: bool
    mtp_layers: int = Field(ge=0)
    max_positions: int | None = Field(default=None, ge=1)
    """The most tokens of a sequence, None where that is not known."""
    experts: Experts | None = None
    """Those of each layer and of the MTP head; None of a dense model."""
    _stored_by_part: Mapping[str, int] | None = PrivateAttr(default=None)

    @model_validator(mode="before")
    @classmethod
    def _lay_out_layers(cls, data: object) -> object:
        """`layers` and `full_attention_interval` may stand for `layer_types`, as in Qwen3.5's own config."""
        if not isinstance(data, dict) or "layer_types" in data or "layers" not in data:
            return data
        rest = {k: v for k, v in data.items() if k not in ("layers", "full_attention_interval")}
        layers, interval = data["layers"], data.get("full_attention_interval")
        if not isinstance(layers, int) or not isinstance(interval, int) or layers < 1 or interval < 1:
            raise ValueError("layers and full_attention_interval must be whole numbers above 0")
        return {**rest, "layer_types": laid_out(layers, interval)}

    @model_validator(mode="after")
    def _heads_divide(self) -> ModelProfile:
        if self.attention_q_heads % self.attention_kv_heads:
            raise ValueError("attention_q_heads must be a multiple of attention_kv_heads")
        if self.gdn_v_heads % self.gdn_k_heads:
            raise ValueError("gdn_v_heads must be a multiple of gdn_k_heads")
        return self

    @property
    def layers(self) -> int:
        """How many layers there are, the MTP layer not counted."""
        return len(self.layer_types)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """All parts in the order of a forward pass, the MTP head last."""
        vocabulary = self.vocabulary * self.hidden
        found = [_part(EMBEDDING, PartKind.EMBEDDING, other=vocabulary, reads=self.hidden)]
        for index, layer_type in enumerate(self.layer_types):
            found += self._layer_parts(f"layers.{index}", index, layer_type)
        found.append(_part("norm", PartKind.NORM, other=self.hidden))
        own_head = 0 if self.tied_embeddings else vocabulary
        found.append(_part("lm_head", PartKind.LM_HEAD, matmul=own_head, reads=vocabulary))
        if self.mtp_layers:
            found.append(self._mtp_part())
        return tuple(found)

    @cached_property
    def alike_parts(self) -> tuple[tuple[Part, int], ...]:
        """One part of each that differ in nothing but their place, in the order of the first, and how many
        these are; parts of the first and of the last layer are kept apart, for some are stored otherwise."""
        found: dict[tuple[object, ...], list[Part]] = {}
        for part in self.parts:
            edge = part.layer if part.layer in (0, self.layers - 1) else None
            stored = self.stored_bytes(part)
            sizes = part.matmul_parameters, part.other_parameters, part.reads_parameters, stored
            found.setdefault((part.kind, edge, *sizes), []).append(part)
        return tuple((parts[0], len(parts)) for parts in found.values())

    def _layer_parts(self, name: str, index: int | None, layer_type: LayerType) -> list[Part]:
        if layer_type == "linear_attention":
            key, value = self.gdn_k_heads * self.gdn_k_head_dim, self.gdn_v_heads * self.gdn_v_head_dim
            # in_proj_qkv, in_proj_z and out_proj
            matmul = self.hidden * (2 * key + value) + 2 * self.hidden * value
            # in_proj_a, in_proj_b; conv1d; dt_bias, A_log; the gated norm
            other = 2 * self.hidden * self.gdn_v_heads + (2 * key + value) * self.gdn_conv_kernel
            other += 2 * self.gdn_v_heads + self.gdn_v_head_dim
            mixer = _part(f"{name}.linear_attn", PartKind.GDN, index, matmul, other)
        else:
            q, kv = (n * self.attention_head_dim for n in (self.attention_q_heads, self.attention_kv_heads))
            # q_proj has twice the rows (output gate); k_proj, v_proj; o_proj; q_norm and k_norm
            matmul = self.hidden * (2 * q + 2 * kv + q)
            mixer = _part(f"{name}.self_attn", PartKind.ATTENTION, index, matmul, 2 * self.attention_head_dim)
        return [mixer, *self._mlp_parts(f"{name}.mlp", index), self._norms(name, index)]

    def _mlp_parts(self, name: str, index: int | None) -> list[Part]:
        # gate_proj, up_proj and down_proj
        matmul, experts = 3 * self.hidden * self.intermediate, self.experts
        if experts is None:
            return [_part(name, PartKind.MLP, index, matmul)]
        # the router, which has a row for each expert, and the shared expert's gate
        router = self.hidden * (experts.count + 1)
        routed = 3 * self.hidden * experts.intermediate * experts.count
        return [
            _part(name, PartKind.MLP, index, matmul, router),
            _part(f"{name}.experts", PartKind.EXPERTS, index, routed, routed=routed),
        ]

    def _norms(self, name: str, index: int | None) -> Part:
        return _part(f"{name}.norms", PartKind.NORM, index, other=2 * self.hidden)

    def _mtp_part(self) -> Part:
        layer = self._layer_parts("mtp.layers.0", None, "full_attention")
        fuse = 2 * self.hidden * self.hidden
        matmul = fuse + self.mtp_layers * sum(part.matmul_parameters for part in layer)
        # the norms of the embedding, of the hidden state and the last one
        other = 3 * self.hidden + self.mtp_layers * sum(part.other_parameters for part in layer)
        routed = self.mtp_layers * sum(part.routed_parameters for part in layer)
        return _part("mtp", PartKind.MTP, None, matmul, other, routed=routed)

    def parameters_by_kind(self) -> dict[PartKind, int]:
        """Parameters owned by each kind of part."""
        return {
            kind: sum(part.parameters for part in self.parts if part.kind is kind)
            for kind in dict.fromkeys(part.kind for part in self.parts)
        }

    @property
    def text_parameters(self) -> int:
        """All parameters but those of the MTP head; a tied head counts once."""
        return sum(part.parameters for part in self.parts if part.kind is not PartKind.MTP)

    @property
    def mtp_parameters(self) -> int:
        """Parameters of the MTP head."""
        return sum(part.parameters for part in self.parts if part.kind is PartKind.MTP)

    @property
    def active_parameters(self) -> float:
        """Those of `text_parameters` that a token is computed with: all of a dense model."""
        unread = sum(self.unread_parameters(part) for part in self.parts if part.kind is not PartKind.MTP)
        return self.text_parameters - unread

    @property
    def mlp_width(self) -> int:
        """How wide the MLPs are together that a token goes through in a layer."""
        experts = self.experts
        return self.intermediate + (0 if experts is None else experts.per_token * experts.intermediate)

    def unread_parameters(self, part: Part, rows: float = 1) -> float:
        """Parameters of a part's experts that a step of so many rows does not read, in expectation
        (`Experts.read`); none of a dense model."""
        if self.experts is None:
            return 0
        return part.routed_parameters * (1 - self.experts.read(rows) / self.experts.count)

    def weight_bytes_by_part(self, weights: WeightFormat, rows: float = 1) -> dict[str, float]:
        """Bytes of weights that one decode step of so many rows reads, by part; of the embedding, one row.

        The MTP head is left out: a step without drafting does not read it.
        """
        return {
            part.name: _bytes_read(part, weights, self.unread_parameters(part, rows))
            for part in self.parts
            if part.kind is not PartKind.MTP
        }

    def weight_bytes_per_step(self, weights: WeightFormat, rows: float = 1) -> float:
        """Bytes of weights that one decode step of so many rows (tokens that it computes) reads."""
        return sum(self.weight_bytes_by_part(weights, rows).values())

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of the KV cache, in bfloat16, that one token of context adds."""
        attention = self.layer_types.count("full_attention")
        return attention * 2 * self.attention_kv_heads * self.attention_head_dim * BFLOAT16_BYTES

    @property
    def gdn_state_bytes(self) -> int:
        """Bytes of the recurrent GDN state of one sequence, in float32; a step reads and writes it once."""
        per_layer = self.gdn_v_heads * self.gdn_k_head_dim * self.gdn_v_head_dim * FLOAT32_BYTES
        return self.layer_types.count("linear_attention") * per_layer

    @property
    def is_stored_quantized(self) -> bool:
        """Whether the checkpoint stores its weights quantized, and by part how many bytes is known."""
        return self._stored_by_part is not None

    def as_stored(self, bytes_by_part: Mapping[str, int] | None) -> ModelProfile:
        """The profile of a checkpoint that stores weights quantized: the bytes of each part, by its name, as
        its files hold them (None: the shape alone, in 16 bits, as is a part that is left out)."""
        # Validated anew, because a copy would carry the figures already derived.
        found = ModelProfile.model_validate(self.model_dump())
        found._stored_by_part = None if bytes_by_part is None else dict(bytes_by_part)
        return found

    def stored_bytes(self, part: Part) -> int | None:
        """Bytes of a part's weights in the checkpoint's files; None where they are those of 16 bits."""
        return None if self._stored_by_part is None else self._stored_by_part.get(part.name)

    def stored_bytes_read(self, part: Part, rows: float = 1) -> float | None:
        """Those of them that a step of so many rows reads: one row of an embedding, all of it as a head that
        is tied to it and has no weights of its own, and the experts that the rows are sent to."""
        if self._stored_by_part is None:
            return None
        embedding = self._stored_by_part.get(EMBEDDING)
        if part.kind is PartKind.EMBEDDING:
            return None if embedding is None else embedding / self.vocabulary
        if part.kind is PartKind.LM_HEAD and self.tied_embeddings:
            return self._stored_by_part.get(part.name, embedding)
        stored = self._stored_by_part.get(part.name)
        if stored is None or not part.routed_parameters:
            return stored
        return stored * (1 - self.unread_parameters(part, rows) / part.parameters)

    def without_layers(self, removed: frozenset[int]) -> ModelProfile:
        """The profile after depth pruning: the layers of these indices (from 0) are gone.

        Raises `UsageError` for an index that is not there and when no layer is left.
        """
        wrong = sorted(index for index in removed if not 0 <= index < self.layers)
        if wrong:
            raise UsageError(
                f"{self.name} has no layer {wrong[0]}.", f"Its layers are 0 to {self.layers - 1}."
            )
        if len(removed) == self.layers:
            raise UsageError(f"No layer of {self.name} would be left.", "Remove fewer.")
        left = [index for index in range(self.layers) if index not in removed]
        kinds = tuple(self.layer_types[index] for index in left)
        # Validated anew, because a copy would carry the figures already derived.
        found = ModelProfile.model_validate({**self.model_dump(), "layer_types": kinds})
        if self._stored_by_part is None:
            return found
        place = {index: number for number, index in enumerate(left)}
        kept = {
            part.name if part.layer is None else moved(part.name, place[part.layer]): size
            for part in self.parts
            if part.layer not in removed and (size := self.stored_bytes(part)) is not None
        }
        return found.as_stored(kept)


def moved(part: str, layer: int) -> str:
    """The name of a layer's part, `layers.3.mlp`, in another layer."""
    layers, _, block = part.split(".", 2)
    return f"{layers}.{layer}.{block}"


def laid_out(layers: int, full_attention_interval: int) -> tuple[LayerType, ...]:
    """Layer types where every `full_attention_interval`-th layer is full attention."""
    return tuple(
        "full_attention" if (index + 1) % full_attention_interval == 0 else "linear_attention"
        for index in range(layers)
    )


def load_model_profile(name_or_path: str | Path) -> ModelProfile:
    """The profile of this packaged name or YAML file; raises `UsageError` that names the fault."""
    document = read_document(Kind.MODELS, name_or_path)
    return validated(ModelProfile, document.data, document.where)


def _part(
    name: str,
    kind: PartKind,
    layer: int | None = None,
    matmul: int = 0,
    other: int = 0,
    reads: int | None = None,
    routed: int = 0,
) -> Part:
    return Part(
        name=name,
        kind=kind,
        layer=layer,
        matmul_parameters=matmul,
        other_parameters=other,
        reads_parameters=matmul + other if reads is None else reads,
        routed_parameters=routed,
    )


def _bytes_read(part: Part, weights: WeightFormat, unread: float) -> float:
    if part.kind is PartKind.LM_HEAD:
        return part.reads_parameters * weights.head_bits / BITS_PER_BYTE
    if part.kind is PartKind.EMBEDDING:
        return part.reads_parameters * weights.other_bits / BITS_PER_BYTE
    matmul = part.matmul_parameters - unread
    return (matmul * weights.matmul_bits + part.other_parameters * weights.other_bits) / BITS_PER_BYTE
