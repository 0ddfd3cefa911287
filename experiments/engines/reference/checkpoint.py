"""Loads a Qwen3.5-type checkpoint into transformers' own model class, without the detours of a hub. That of a
Mixture of Experts is another class, `Qwen3_5MoeForCausalLM`, with layers of the same form.

The model is built without storage, its tensors are read from the safetensors files and put in place. What
results is what `from_pretrained(dtype=…)` gives (a test holds this): every floating-point tensor in the one
dtype. Quantized weights (`packed_layout.py`) are dequantized into it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import cast

import torch
from safetensors import safe_open
from torch import nn
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM, Qwen3_5TextConfig

from experiments.engines.port import Infeasible
from experiments.engines.reference.inspection import (
    MTP_PREFIXES,
    OF_ONE_MODEL,
    QUANTIZATION_KEYS,
    CheckpointFiles,
)
from experiments.engines.reference.joined_experts import join_experts
from experiments.engines.reference.packed_layout import PackedModule, packed_modules
from experiments.engines.reference.packed_tensors import dequantized

DTYPES: Mapping[str, torch.dtype] = {"float32": torch.float32, "bfloat16": torch.bfloat16}
"""The values of `serving.dtype`."""

LEFT_OUT_PREFIXES = (*MTP_PREFIXES, "model.visual.", "visual.")
"""Tensors that are no part of the text model: the MTP head and the vision tower."""

HEAD, HEAD_WEIGHT, EMBEDDING_WEIGHT = "lm_head", "lm_head.weight", "model.embed_tokens.weight"

_WRAPPER_PREFIX = "model.language_model."


def load_model(files: CheckpointFiles, dtype: torch.dtype, device: torch.device) -> Qwen3_5ForCausalLM:
    """Load the text model for inference: no gradients, evaluation mode, on the device.

    Raises:
        Infeasible: kind `checkpoint`, when the configuration is not acceptable or tensors are missing or
        misshapen; `unsupported`, when the weights are quantized in a way that is not read.
    """
    model = empty_model(files, dtype)
    fill_model(model, files, dtype)
    nn.Module.to(model, device)
    return model


def empty_model(files: CheckpointFiles, dtype: torch.dtype) -> Qwen3_5ForCausalLM:
    """The text model without storage, for inference. Raises `Infeasible` (`checkpoint`) for a configuration
    that is not acceptable."""
    not_passed_on = ("model_type", *QUANTIZATION_KEYS)
    config_class, model_class = model_classes(files)
    try:
        config = config_class(
            **{name: value for name, value in files.text_config.items() if name not in not_passed_on}
        )
    except Exception as cause:  # the configuration class validates with several kinds of errors
        sentence = " ".join(str(cause).split())
        raise Infeasible(
            "checkpoint", f"config.json in {files.folder} is not acceptable: {sentence}"
        ) from cause
    config.dtype = dtype
    if files.has_experts:
        from experiments.engines.reference.experts import BY_ROWS

        config._experts_implementation = BY_ROWS
    with torch.device("meta"):
        model = model_class(config)
    model.model.rotary_emb = type(model.model.rotary_emb)(config)
    nn.Module.requires_grad_(model, False)
    nn.Module.train(model, False)
    return model


def model_classes(files: CheckpointFiles) -> tuple[type[Qwen3_5TextConfig], type[Qwen3_5ForCausalLM]]:
    """The classes of a model's configuration and of the model itself."""
    if not files.has_experts:
        return Qwen3_5TextConfig, Qwen3_5ForCausalLM
    from transformers.models import qwen3_5_moe

    found = qwen3_5_moe.Qwen3_5MoeTextConfig, qwen3_5_moe.Qwen3_5MoeForCausalLM
    return cast(tuple[type[Qwen3_5TextConfig], type[Qwen3_5ForCausalLM]], found)


def fill_model(
    model: Qwen3_5ForCausalLM,
    files: CheckpointFiles,
    dtype: torch.dtype,
    wanted: Callable[[str], bool] = lambda name: True,
) -> None:
    """Give what is wanted (by its name in the text model) the checkpoint's values, on the CPU.

    Raises `Infeasible` as `load_model`.
    """
    tied = model.config.tie_word_embeddings
    state = _state(files, dtype, wanted)
    if tied and HEAD in packed_modules(files):
        raise Infeasible(
            "checkpoint",
            f"config.json in {files.folder} ties the head to the embedding, but the head is quantized on its "
            "own; tie_word_embeddings must be false there.",
        )
    if tied and EMBEDDING_WEIGHT in state:
        state[HEAD_WEIGHT] = state[EMBEDDING_WEIGHT]
    _check_state(model, state, files, wanted)
    model.load_state_dict(state, strict=False, assign=True)  # `_check_state` was strict about what is wanted
    if tied:
        model.lm_head.weight = model.model.embed_tokens.weight
    nn.Module.requires_grad_(model, False)


def _state(
    files: CheckpointFiles, dtype: torch.dtype, wanted: Callable[[str], bool]
) -> dict[str, torch.Tensor]:
    """The text model's tensors that are wanted, by the names of its modules."""

    def ours(stored_name: str) -> bool:
        name = module_tensor(stored_name)
        return not name.startswith(LEFT_OUT_PREFIXES) and wanted(name)

    state = {module_tensor(name): tensor for name, tensor in read_tensors(files, dtype, ours)}
    if files.has_experts:
        join_experts(state, files.text_config["num_experts"])
    return state


def read_tensors(
    files: CheckpointFiles,
    dtype: torch.dtype,
    wanted: Callable[[str], bool],
    packed: Iterable[PackedModule] | None = None,
) -> Iterator[tuple[str, torch.Tensor]]:
    """The wanted tensors in `dtype`, by the names they are stored under; packed weights are unpacked, as soon
    as all of their parts are read, and named as if they were not packed.

    `packed` are those that may be met, where they are known: to find them takes seconds where there are tens
    of thousands. Raises `Infeasible` of kind `checkpoint` for files that can't be read.
    """
    found = packed_modules(files).values() if packed is None else packed
    owners = {part: module for module in found for part in module.parts}
    waiting: dict[str, dict[str, torch.Tensor]] = {}
    for path in files.weight_files:
        try:
            with safe_open(path, framework="pt") as tensors:
                for stored_name in filter(wanted, tensors.keys()):
                    module = owners.get(stored_name)
                    if module is None:
                        yield stored_name, tensors.get_tensor(stored_name).to(dtype, copy=True)
                        continue
                    parts = waiting.setdefault(module.name, {})
                    parts[stored_name.rpartition(".")[2]] = tensors.get_tensor(stored_name)
                    if len(parts) == len(module.parts):
                        yield module.weight, dequantized(module, waiting.pop(module.name)).to(dtype)
        except Infeasible:
            raise
        except Exception as cause:  # safetensors raises its own error class and plain OS errors
            raise Infeasible("checkpoint", f"{path} can't be read: {cause}") from cause


def module_tensor(stored_name: str) -> str:
    """The name of a tensor in the text model, from its name in the files, where a wrapper may stand around
    it."""
    return stored_name.replace(_WRAPPER_PREFIX, "model.", 1)


def _check_state(
    model: Qwen3_5ForCausalLM,
    state: Mapping[str, torch.Tensor],
    files: CheckpointFiles,
    is_wanted: Callable[[str], bool],
) -> None:
    wanted = {name: tensor for name, tensor in model.state_dict().items() if is_wanted(name)}
    missing = sorted(wanted.keys() - state.keys())
    if missing:
        raise Infeasible(
            "checkpoint",
            f"The checkpoint at {files.folder} lacks {len(missing)} of {len(wanted)} tensors, "
            f"first {missing[0]}: {OF_ONE_MODEL}.",
        )
    unknown = sorted(state.keys() - wanted.keys())
    if unknown:
        raise Infeasible(
            "checkpoint",
            f"The checkpoint at {files.folder} has {len(unknown)} tensors that its config.json "
            f"does not account for, first {unknown[0]}: {OF_ONE_MODEL}.",
        )
    for name, tensor in wanted.items():
        if tensor.shape != state[name].shape:
            raise Infeasible(
                "checkpoint",
                f"{name} in {files.folder} has the shape {tuple(state[name].shape)} "
                f"where its config.json asks for {tuple(tensor.shape)}: {OF_ONE_MODEL}.",
            )


def layer_kinds(model: Qwen3_5ForCausalLM) -> tuple[str, ...]:
    """The kind of each layer: `linear_attention` or `full_attention`."""
    return tuple(model.config.layer_types or ())
