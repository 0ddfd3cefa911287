"""The linear layers of a checkpoint that are quantized: which there are, what is read for each, and how a
result's config.json names them all. Pure; from headers alone.

Names in what is written are regular expressions without layer numbers, so that layers may be taken out later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.engines.port import Infeasible
from experiments.engines.reference.inspection import OF_ONE_MODEL, CheckpointFiles

HEAD = "lm_head"
OUT_PROJ = "linear_attn.out_proj"

ATTENTION_PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj")
GDN_PROJECTIONS = ("in_proj_qkv", "in_proj_z", "out_proj")
MLP_PROJECTIONS = GATE, UP, DOWN = ("gate_proj", "up_proj", "down_proj")
"""Linear layers that are quantized, by the block they stand in."""

EXPERTS, SHARED_EXPERT = "mlp.experts", "mlp.shared_expert"
"""What stands in place of the one MLP in a layer of a Mixture of Experts."""

JOINED_GATE_UP, JOINED_DOWN = f"{EXPERTS}.gate_up_proj", f"{EXPERTS}.down_proj"
"""Tensors of a layer that hold all of its experts, `[experts, 2 · intermediate, hidden]` with the gate's rows
first, and `[experts, hidden, intermediate]`, where they are not stored each apart."""

ROUTERS = ("gate", "shared_expert_gate")
"""What stays in high precision of a Mixture of Experts' MLP: the router and the shared expert's gate."""

_OF_MIXERS: Mapping[str, str] = {
    **{f"self_attn.{name}": rf"re:.*self_attn\.{name}$" for name in ATTENTION_PROJECTIONS},
    **{f"linear_attn.{name}": rf"re:.*linear_attn\.{name}$" for name in GDN_PROJECTIONS},
}
_OF_MLP: Mapping[str, str] = {f"mlp.{name}": rf"re:.*mlp\.{name}$" for name in MLP_PROJECTIONS}
_OF_EXPERTS: Mapping[str, str] = {
    **{f"{SHARED_EXPERT}.{name}": rf"re:.*mlp\.shared_expert\.{name}$" for name in MLP_PROJECTIONS},
    **{f"{EXPERTS}.{name}": rf"re:.*mlp\.experts\.\d+\.{name}$" for name in MLP_PROJECTIONS},
}


def kinds(files: CheckpointFiles) -> dict[str, str]:
    """Kinds of modules that can be quantized, each with the expression that names all of its kind."""
    of_mlps = _OF_EXPERTS if files.has_experts else _OF_MLP
    return {**_OF_MIXERS, **of_mlps, HEAD: rf"re:(.*\.)?{HEAD}$"}


def mlp_width(text_config: Mapping[str, Any]) -> int:
    """How wide the MLPs are together that a token goes through in a layer, by a model's configuration."""
    if not text_config.get("num_experts"):
        return int(text_config["intermediate_size"])
    routed = text_config["num_experts_per_tok"] * text_config["moe_intermediate_size"]
    return int(routed + text_config["shared_expert_intermediate_size"])


@dataclass(frozen=True)
class Linear:
    """A linear layer: its kind, its name in its layer, its sizes, and the tensor that its weight is read
    from, as stored."""

    kind: str
    name: str
    outputs: int
    inputs: int
    source: str


Headers = Mapping[str, Mapping[str, Any]]
"""The header's entry of each tensor by its stored name."""


def linears_of_layer(files: CheckpointFiles, headers: Headers, prefix: str, layer: int) -> Iterator[Linear]:
    """The linear layers of a layer that can be quantized; `prefix` begins the stored names of its tensors.

    Raises:
        Infeasible: kind `checkpoint`, for a weight that is missing or has another form than its neighbours.
    """
    attends = files.layer_types[layer] == "full_attention"
    block, names = ("self_attn", ATTENTION_PROJECTIONS) if attends else ("linear_attn", GDN_PROJECTIONS)
    for name in names:
        yield matrix(files, headers, f"{block}.{name}", f"{block}.{name}", f"{prefix}{block}.{name}.weight")
    if not files.has_experts:
        for name in MLP_PROJECTIONS:
            yield matrix(files, headers, f"mlp.{name}", f"mlp.{name}", f"{prefix}mlp.{name}.weight")
        return
    for name in MLP_PROJECTIONS:
        kind = f"{SHARED_EXPERT}.{name}"
        yield matrix(files, headers, kind, kind, f"{prefix}{kind}.weight")
    yield from _experts(files, headers, prefix)


def matrix(files: CheckpointFiles, headers: Headers, kind: str, name: str, source: str) -> Linear:
    """A linear layer whose weight is a tensor of its own. Raises `Infeasible` (`checkpoint`) where it is no
    matrix."""
    outputs, inputs = _shape(files, headers, source, 2)
    return Linear(kind, name, outputs, inputs, source)


def _experts(files: CheckpointFiles, headers: Headers, prefix: str) -> Iterator[Linear]:
    """Those of a layer's experts, expert by expert, however they are stored."""
    count = int(files.text_config["num_experts"])
    joined = any(f"{prefix}{each}" in headers for each in (JOINED_GATE_UP, JOINED_DOWN))
    shapes = _joined_shapes(files, headers, prefix, count) if joined else {}
    for number in range(count):
        for projection in MLP_PROJECTIONS:
            kind, name = f"{EXPERTS}.{projection}", f"{EXPERTS}.{number}.{projection}"
            if joined:
                outputs, inputs = shapes[projection]
                source = JOINED_DOWN if projection == DOWN else JOINED_GATE_UP
                yield Linear(kind, name, outputs, inputs, f"{prefix}{source}")
            else:
                yield matrix(files, headers, kind, name, f"{prefix}{name}.weight")


def _joined_shapes(
    files: CheckpointFiles, headers: Headers, prefix: str, count: int
) -> dict[str, tuple[int, int]]:
    """Outputs and inputs of each projection of an expert, from the tensors that hold all of them."""
    gate_up, down = f"{prefix}{JOINED_GATE_UP}", f"{prefix}{JOINED_DOWN}"
    experts, rows, hidden = _shape(files, headers, gate_up, 3)
    down_shape = _shape(files, headers, down, 3)
    if experts != count or rows % 2 or tuple(down_shape) != (count, hidden, rows // 2):
        raise Infeasible(
            "checkpoint",
            f"{gate_up} and {down} of the checkpoint at {files.folder} have the shapes "
            f"{(experts, rows, hidden)} and {tuple(down_shape)}, which are not those of {count} experts: "
            f"{OF_ONE_MODEL}.",
        )
    return {GATE: (rows // 2, hidden), UP: (rows // 2, hidden), DOWN: (hidden, rows // 2)}


def _shape(files: CheckpointFiles, headers: Headers, name: str, axes: int) -> Sequence[int]:
    entry = headers.get(name)
    if entry is None or len(entry["shape"]) != axes:
        form = "matrix" if axes == 2 else "tensor of experts"
        raise Infeasible(
            "checkpoint", f"The checkpoint at {files.folder} has no {form} {name}: {OF_ONE_MODEL}."
        )
    return list(map(int, entry["shape"]))
