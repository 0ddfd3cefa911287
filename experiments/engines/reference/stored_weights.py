"""How a checkpoint's weights are stored: by part, in bits a weight, and what one decode step reads of them.

Headers alone are read. "As stored": the reference engine serves quantized weights dequantized, an engine with
kernels for them reads just these bytes.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping

from configs.models import EMBEDDING, ModelProfile
from experiments.engines.reference.inspection import MTP_PREFIXES, CheckpointFiles
from experiments.engines.reference.packed_layout import (
    PackedModule,
    packed_modules,
    stored_quantized,
    unread_layout,
)
from experiments.measurement.evidence import Json

EXPERTS = "experts"
"""The part of experts in a Mixture of Experts; its router and the shared expert are of the part `mlp`."""

PARTS = ("embedding", "gdn", "attention", "mlp", EXPERTS, "norm", "lm_head", "mtp", "vision", "other")
"""The parts of a checkpoint; `gdn` and `attention` have their own small norms with them."""

READ_EVERY_STEP = ("gdn", "attention", "mlp", EXPERTS, "norm", "lm_head", "other")
"""Parts that a decode step of the text model reads whole, but for the experts."""

NOT_REPRESENTATIVE = (
    "quantized weights are served dequantized: the time is that of dense weights, bytes and quality are real"
)
"""Why the latency of a quantized checkpoint on this engine says nothing about quantized kernels."""

_DTYPE_NAMES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
}

_NO_WEIGHT = ".weight_shape"
"""How the name of a tensor ends that only says what shape a packed weight has."""

_OF_A_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.(\w+)")
_BLOCKS = ("linear_attn", "self_attn", "mlp")
"""Parts of a layer, as a `ModelProfile` names them; what else a layer has are its norms."""

_BITS_PER_BYTE = 8
_BITS_DIGITS = 4
"""Digits after the point of bits a weight."""


def part_of(tensor: str) -> str:
    """The part that a tensor (or module) belongs to, by its stored name."""
    if tensor.startswith(MTP_PREFIXES):
        return "mtp"
    words = tensor.split(".")
    for word, part in (
        *(("visual", "vision"), ("lm_head", "lm_head"), ("embed_tokens", "embedding")),
        *(("linear_attn", "gdn"), ("self_attn", "attention"), (EXPERTS, EXPERTS), ("mlp", "mlp")),
    ):
        if word in words:
            return part
    return "norm" if any(word.endswith("norm") for word in words) else "other"


def bytes_by_part(files: CheckpointFiles) -> dict[str, int]:
    """Bytes as stored of each part that is there; together all of the tensors' bytes."""
    found: Counter[str] = Counter()
    for name, (_, size) in _sizes(files).items():
        found[part_of(name)] += size
    return {part: found[part] for part in PARTS if found[part]}


def step_bytes_by_part(files: CheckpointFiles) -> dict[str, int]:
    """Bytes of weights, as stored, that one decode step of the text model reads of each part.

    Of the embedding one row is read, and of experts those of one token; a head tied to the embedding is read
    whole and stands as `lm_head`. Neither an MTP head nor a vision tower takes part, and a packed weight's
    shape is no weight.
    """
    found: Counter[str] = Counter()
    tied = 0
    for name, (shape, size) in _sizes(files).items():
        part = part_of(name)
        if part == "embedding":
            found[part], tied = size // shape[0], size
        elif part in READ_EVERY_STEP and not name.endswith(_NO_WEIGHT):
            found[part] += size
    found["lm_head"] = found["lm_head"] or tied
    if files.has_experts:
        text = files.text_config
        found[EXPERTS] = found[EXPERTS] * text["num_experts_per_tok"] // text["num_experts"]
    return {part: found[part] for part in PARTS if found[part]}


def step_weight_bytes(files: CheckpointFiles) -> int:
    """Bytes of weights, as stored, that one decode step of the text model reads; by part they are
    `step_bytes_by_part`."""
    return sum(step_bytes_by_part(files).values())


def as_stored(profile: ModelProfile, files: CheckpointFiles) -> ModelProfile:
    """The profile of a checkpoint with the bytes of its parts where they are stored quantized.

    Raises:
        Infeasible: kind `checkpoint`, for files that can't be read.
    """
    if not stored_quantized(files):
        return profile
    return profile.as_stored(by_profile_part({name: size for name, (_, size) in _sizes(files).items()}))


def by_profile_part(tensor_bytes: Mapping[str, int]) -> dict[str, int]:
    """Bytes of tensors summed up by the part of a `ModelProfile` that they belong to (`layers.3.mlp`); an MTP
    head and a vision tower are left out."""
    found: Counter[str] = Counter()
    for name, size in tensor_bytes.items():
        part = _profile_part(name)
        if part is not None and not name.endswith(_NO_WEIGHT):
            found[part] += size
    return dict(found)


def _profile_part(tensor: str) -> str | None:
    kind = part_of(tensor)
    if kind in ("mtp", "vision"):
        return None
    layer = _OF_A_LAYER.search(tensor)
    if layer is not None and kind == EXPERTS:
        return f"layers.{layer[1]}.mlp.{EXPERTS}"
    if layer is not None:
        return f"layers.{layer[1]}.{layer[2] if layer[2] in _BLOCKS else 'norms'}"
    return {"embedding": EMBEDDING, "lm_head": "lm_head", "norm": "norm"}.get(kind)


def bits_per_weight(files: CheckpointFiles, modules: Mapping[str, PackedModule]) -> float:
    """Bits that a weight of the quantized modules takes, with scales and zero points."""
    sizes = _sizes(files)
    stored = sum(
        sizes[part][1]
        for module in modules.values()
        for part in module.parts
        if not part.endswith(_NO_WEIGHT)
    )
    weights = sum(module.outputs * module.inputs for module in modules.values())
    return round(_BITS_PER_BYTE * stored / weights, _BITS_DIGITS)


def stored_weights(files: CheckpointFiles, served_dtype: str) -> Mapping[str, Json]:
    """How the weights are stored and served, for the resolved configuration of a launch; of a layout that is
    not read here (`unread_layout`) what it is called, and its bytes.

    Raises:
        Infeasible: as `packed_modules`.
    """
    unread = unread_layout(files.quantization)
    modules = {} if unread else packed_modules(files)
    dense = _DTYPE_NAMES.get(_main_dtype(files), _main_dtype(files))
    told: dict[str, Json] = {
        "stored": unread or (described(modules) if modules else dense),
        "served": f"{served_dtype} (dequantized)" if modules else served_dtype,
        "step_weight_bytes": step_weight_bytes(files),
        "step_bytes_by_part": dict(step_bytes_by_part(files)),
        "bytes_by_part": dict(bytes_by_part(files)),
        "latency_representative": not modules,
    }
    if modules:
        told |= {
            "bits_per_weight": bits_per_weight(files, modules),
            "latency_reason": NOT_REPRESENTATIVE,
        }
    return told


def described(modules: Mapping[str, PackedModule]) -> str:
    """Layout and schemes in words, the most frequent first: `pack-quantized W4 g128 asymmetric, …`."""
    schemes: Counter[str] = Counter(module.scheme for module in modules.values())
    kinds: defaultdict[str, set[str]] = defaultdict(set)
    for module in modules.values():
        kinds[module.scheme].add(".".join(module.name.split(".")[-2:]))
    (first, _), *others = schemes.most_common()
    layout = next(iter(modules.values())).layout
    rest = "".join(f"; {scheme} in {', '.join(sorted(kinds[scheme]))}" for scheme, _ in others)
    return f"{layout} {first}{rest}"


def _main_dtype(files: CheckpointFiles) -> str:
    """The header's word for the type that most bytes of the text model are in."""
    found: Counter[str] = Counter()
    for name, entry in files.headers().items():
        if part_of(name) not in ("mtp", "vision"):
            found[entry["dtype"]] += entry["data_offsets"][1] - entry["data_offsets"][0]
    return found.most_common(1)[0][0] if found else "nothing"


def _sizes(files: CheckpointFiles) -> dict[str, tuple[list[int], int]]:
    """Shape and bytes of each tensor."""
    return {
        name: (entry["shape"], entry["data_offsets"][1] - entry["data_offsets"][0])
        for name, entry in files.headers().items()
    }
