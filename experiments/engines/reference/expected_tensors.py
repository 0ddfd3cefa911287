"""The tensors that a Qwen3.5 text model is made of, by name and shape, and whether a checkpoint has them.

Read from headers alone, so that an engine need not load a checkpoint to learn that it lacks a layer; vLLM
serves one with whatever lay in memory in the place of a missing tensor. A test holds the names and shapes to
transformers' own model. The MTP head and a vision tower are not looked at. Imports no torch.

The experts of a Mixture of Experts are stored all in one tensor, as transformers' model has them, or each in
tensors of its own, as transformers saves it and quantizers write it; both are read, and one layer may have
them so and another otherwise, where a quantizer left it as it was.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence

from configs.errors import AutoinferError
from configs.models import ModelProfile
from experiments.engines.port import Infeasible
from experiments.engines.reference.inspection import OF_ONE_MODEL, CheckpointFiles
from experiments.engines.reference.packed_layout import packed_modules, unread_layout
from experiments.engines.reference.shape import read_profile

Shape = tuple[int, ...]

WRAPPER_PREFIX = "model.language_model."

_ONE_EXPERT = re.compile(r"model\.layers\.(\d+)\.mlp\.experts\.\d+\.")
"""How names of tensors begin that are of one expert alone."""

EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"

WEIGHT_SCALES = frozenset(
    {"weight_scale", "weight_scale_inv", "weight_scale_2", "weight_global_scale", "scales"}
)
"""How scales that a stored weight is multiplied by, or divided, are called beside it: by compressed-tensors,
DeepSeek's and ModelOpt's 8-bit and 4-bit floats, and by AutoAWQ and GPTQ."""


def check_tensors(files: CheckpointFiles) -> None:
    """Whether every tensor of the text model is there in its shape, packed or not.

    Raises:
        Infeasible: kind `checkpoint`, with the first that is missing or misshapen; `unsupported` for a packed
        layout that is not read.
    """
    headers = files.headers()
    found: dict[str, Shape] = {_text_name(name): tuple(entry["shape"]) for name, entry in headers.items()}
    for module in packed_modules(files).values():
        found[_text_name(module.weight)] = (module.outputs, module.inputs)
    expected = _expected(files, HEAD in found, found)
    _check_present(files, expected, [name for name in expected if name not in found])
    for name, shape in expected.items():
        if found[name] != shape:
            raise Infeasible(
                "checkpoint",
                f"{name} in {files.folder} has the shape {found[name]} where its config.json asks for "
                f"{shape}: {OF_ONE_MODEL}.",
            )


def check_served_tensors(files: CheckpointFiles) -> None:
    """As `check_tensors`, for an engine that reads more layouts of quantized weights than we do: of one that
    is not read here, that each weight, or something in its place, is there.

    Raises:
        Infeasible: kind `checkpoint`, as `check_tensors`.
    """
    if unread_layout(files.quantization) is None:
        return check_tensors(files)
    found = {_text_name(name) for name in files.headers()}
    modules = {name.rpartition(".")[0] for name in found}
    expected = _expected(files, HEAD in found, found)
    missing = [each for each in expected if each not in found and not _in_place(each, modules)]
    return _check_present(files, expected, missing)


def text_tensors(files: CheckpointFiles) -> frozenset[str]:
    """The text model's tensors that are there under their own names, and not something in their place, as
    they are stored.

    Raises:
        Infeasible: kind `checkpoint`, where config.json tells no model.
    """
    stored, expected = _stored_and_expected(files)
    return frozenset(name for name in stored if _text_name(name) in expected)


def weight_scales(files: CheckpointFiles) -> frozenset[str]:
    """The scales of the text model's weights, as they are stored.

    Raises:
        Infeasible: kind `checkpoint`, where config.json tells no model.
    """
    stored, expected = _stored_and_expected(files)
    split = {name: _text_name(name).rpartition(".") for name in stored}
    return frozenset(
        name
        for name, (module, _, last) in split.items()
        if last in WEIGHT_SCALES and f"{module}.weight" in expected
    )


def _stored_and_expected(files: CheckpointFiles) -> tuple[Collection[str], Collection[str]]:
    """What is stored of a checkpoint, and what its text model is made of, a head of its own among it where
    anything of one is stored."""
    stored = files.headers().keys()
    modules = {_text_name(name).rpartition(".")[0] for name in stored}
    return stored, _expected(files, HEAD.rpartition(".")[0] in modules, modules)


def _in_place(name: str, modules: set[str]) -> bool:
    """Whether a tensor's module has others, such as scales and packed integers for its weight."""
    module, _, last = name.rpartition(".")
    return last == "weight" and module in modules


def _expected(files: CheckpointFiles, own_head: bool, stored: Iterable[str]) -> dict[str, Shape]:
    """The tensors of a checkpoint, of which `stored` are the names."""
    try:
        profile = read_profile(files.folder)
    except AutoinferError as error:
        raise Infeasible("checkpoint", error.message) from None
    apart = {int(found[1]) for found in map(_ONE_EXPERT.match, stored) if found is not None}
    return dict(expected_tensors(_with_head(profile, own_head), apart))


def _check_present(files: CheckpointFiles, expected: Mapping[str, Shape], missing: Sequence[str]) -> None:
    if missing:
        raise Infeasible(
            "checkpoint",
            f"The checkpoint at {files.folder} lacks {len(missing)} of the {len(expected)} tensors of its "
            f"text model, first {missing[0]}; fetch it again.",
        )


def _with_head(profile: ModelProfile, own_head: bool) -> ModelProfile:
    """The profile, with a head of its own where the files have one."""
    return profile.model_copy(update={"tied_embeddings": False}) if own_head else profile


def expected_tensors(profile: ModelProfile, apart: Container[int] = ()) -> Iterator[tuple[str, Shape]]:
    """Names and shapes of the text model's tensors, by the names of a text checkpoint; `apart`: the layers
    with tensors for each expert, and not one for all."""
    hidden = profile.hidden
    yield EMBEDDING, (profile.vocabulary, hidden)
    for index, kind in enumerate(profile.layer_types):
        layer = f"model.layers.{index}"
        yield f"{layer}.input_layernorm.weight", (hidden,)
        mixer = _gdn(profile) if kind == "linear_attention" else _attention(profile)
        yield from ((f"{layer}.{name}", shape) for name, shape in mixer)
        yield f"{layer}.post_attention_layernorm.weight", (hidden,)
        yield from ((f"{layer}.mlp.{name}", shape) for name, shape in _mlps(profile, index in apart))
    yield "model.norm.weight", (hidden,)
    if not profile.tied_embeddings:
        yield HEAD, (profile.vocabulary, hidden)


def _mlps(profile: ModelProfile, apart: bool) -> Iterator[tuple[str, Shape]]:
    hidden, experts = profile.hidden, profile.experts
    if experts is None:
        yield from _mlp("", hidden, profile.intermediate)
        return
    yield "gate.weight", (experts.count, hidden)
    if apart:
        for number in range(experts.count):
            yield from _mlp(f"experts.{number}.", hidden, experts.intermediate)
    else:
        yield "experts.gate_up_proj", (experts.count, 2 * experts.intermediate, hidden)
        yield "experts.down_proj", (experts.count, hidden, experts.intermediate)
    yield from _mlp("shared_expert.", hidden, profile.intermediate)
    yield "shared_expert_gate.weight", (1, hidden)


def _mlp(prefix: str, hidden: int, intermediate: int) -> Iterator[tuple[str, Shape]]:
    yield f"{prefix}gate_proj.weight", (intermediate, hidden)
    yield f"{prefix}up_proj.weight", (intermediate, hidden)
    yield f"{prefix}down_proj.weight", (hidden, intermediate)


def _attention(profile: ModelProfile) -> Iterator[tuple[str, Shape]]:
    size = profile.attention_head_dim
    queries, keys = profile.attention_q_heads * size, profile.attention_kv_heads * size
    yield "self_attn.q_proj.weight", (2 * queries, profile.hidden)  # with the output's gate
    yield "self_attn.k_proj.weight", (keys, profile.hidden)
    yield "self_attn.v_proj.weight", (keys, profile.hidden)
    yield "self_attn.o_proj.weight", (profile.hidden, queries)
    yield "self_attn.q_norm.weight", (size,)
    yield "self_attn.k_norm.weight", (size,)


def _gdn(profile: ModelProfile) -> Iterator[tuple[str, Shape]]:
    keys, values = profile.gdn_k_heads * profile.gdn_k_head_dim, profile.gdn_v_heads * profile.gdn_v_head_dim
    heads = profile.gdn_v_heads
    yield "linear_attn.in_proj_qkv.weight", (2 * keys + values, profile.hidden)
    yield "linear_attn.in_proj_z.weight", (values, profile.hidden)
    yield "linear_attn.in_proj_b.weight", (heads, profile.hidden)
    yield "linear_attn.in_proj_a.weight", (heads, profile.hidden)
    yield "linear_attn.conv1d.weight", (2 * keys + values, 1, profile.gdn_conv_kernel)
    yield "linear_attn.dt_bias", (heads,)
    yield "linear_attn.A_log", (heads,)
    yield "linear_attn.norm.weight", (profile.gdn_v_head_dim,)
    yield "linear_attn.out_proj.weight", (profile.hidden, values)


def _text_name(stored: str) -> str:
    return stored.replace(WRAPPER_PREFIX, "model.", 1)
