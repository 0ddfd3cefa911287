"""One layer of a checkpoint as a model of its own: hidden states in, hidden states out. Imports torch.

Only the layer's tensors are read, so that a model of any size can be walked through in the memory of one
layer and the hidden states of the text. Neither embedding nor head nor last norm go with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import torch
from safetensors import safe_open
from torch import Tensor, nn
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM

from experiments.engines.port import Infeasible
from experiments.engines.reference.checkpoint import model_classes, module_tensor, read_tensors
from experiments.engines.reference.inspection import QUANTIZATION_KEYS, CheckpointFiles
from experiments.engines.reference.joined_experts import join_experts

BATCH_TOKENS = 2048
"""Tokens of one pass through a layer: larger passes only take more memory (measured on two cores)."""

LAYER = "model.layers.0."
"""How the tensors of the layer begin in the model of one."""

EMBEDDING = "model.embed_tokens.weight"

_NOT_A_LAYER_S = frozenset(
    {
        "model_type",
        *QUANTIZATION_KEYS,
        "layer_types",
        "num_hidden_layers",
        "vocab_size",
        "tie_word_embeddings",
        "mtp_num_hidden_layers",
        *(f"{kind}_token_id" for kind in ("pad", "bos", "eos")),
    }
)
"""Fields of a configuration that tell of all layers or of the vocabulary."""


def layer_prefix(layer: int) -> str:
    """How a text model's names of a layer's tensors begin."""
    return f"model.layers.{layer}."


def layer_model(
    files: CheckpointFiles, layer: int, dtype: torch.dtype, device: torch.device
) -> Qwen3_5ForCausalLM:
    """The layer with the checkpoint's weights, for inference; its `logits` are the hidden states after it.

    Raises:
        Infeasible: kind `checkpoint`, when the configuration is not acceptable or tensors are missing or
        misshapen.
    """
    model = _empty(files, [files.layer_types[layer]], dtype)
    prefix = layer_prefix(layer)
    read = _tensors(files, dtype, lambda name: name.startswith(prefix))
    state = {LAYER + name.removeprefix(prefix): tensor for name, tensor in read.items()}
    del read  # experts that are joined are let go one by one
    if files.has_experts:
        join_experts(state, files.text_config["num_experts"])
    try:
        missing = model.load_state_dict(state, strict=False, assign=True)
    except RuntimeError as cause:
        sentence = " ".join(str(cause).split())
        raise Infeasible("checkpoint", f"Layer {layer} of {files.folder} does not fit: {sentence}") from None
    lacking = [name for name in (*missing.missing_keys, *missing.unexpected_keys) if name != EMBEDDING]
    if lacking:
        name = lacking[0].replace(LAYER, prefix)
        raise Infeasible(
            "checkpoint", f"{name} of the checkpoint at {files.folder} is missing or not accounted for."
        )
    return _ready(model, device)


def head_model(
    files: CheckpointFiles, weight: str, dtype: torch.dtype, device: torch.device
) -> Qwen3_5ForCausalLM:
    """The head alone, with the tensor `weight` (the text model's name), beside a layer without weights that
    nobody looks at."""
    model = _empty(files, [files.layer_types[0]], dtype)
    model.model.layers = nn.ModuleList()
    (tensor,) = _tensors(files, dtype, lambda name: name == weight).values()
    head = nn.Linear(tensor.shape[1], tensor.shape[0], bias=False, device="meta")
    head.weight = nn.Parameter(tensor, requires_grad=False)
    model.lm_head = head
    return _ready(model, device)


def embedded(files: CheckpointFiles, documents: Sequence[Sequence[int]], dtype: torch.dtype) -> list[Tensor]:
    """The hidden states before the first layer, `[documents, tokens, hidden]` a batch, on the CPU.

    Documents of equal length are together, so that none is padded; the order within a length stays. Raises
    `Infeasible` (`checkpoint`) for a token outside the vocabulary and a missing embedding.
    """
    if not documents:
        return []
    stored = next((name for name in files.tensors if module_tensor(name) == EMBEDDING), None)
    if stored is None:
        raise Infeasible("checkpoint", f"The checkpoint at {files.folder} has no {EMBEDDING}.")
    with safe_open(files.tensors[stored], framework="pt") as tensors:
        table = tensors.get_tensor(stored)
    largest = max(map(max, documents), default=-1)
    if largest >= len(table):
        raise Infeasible(
            "checkpoint",
            f"The calibration text has token {largest}, which is outside the vocabulary of {len(table)} of "
            f"the checkpoint at {files.folder}: its tokenizer is another's.",
        )
    return [table[ids].to(dtype) for ids in _batches(documents)]


@torch.no_grad()
def states_after(model: Qwen3_5ForCausalLM, states: Sequence[Tensor]) -> list[Tensor]:
    """The hidden states after the layer, in batches as before it, on the CPU."""
    return [
        model(inputs_embeds=batch.to(model.device), use_cache=False).logits.to("cpu", copy=True)
        for batch in states
    ]


def _batches(documents: Sequence[Sequence[int]]) -> Iterator[Tensor]:
    for length, alike in groupby(sorted(documents, key=len), key=len):
        together = [list(document) for document in alike]
        rows = max(1, BATCH_TOKENS // length)
        for start in range(0, len(together), rows):
            yield torch.tensor(together[start : start + rows])


def _empty(files: CheckpointFiles, layer_types: list[str], dtype: torch.dtype) -> Qwen3_5ForCausalLM:
    """A model without storage, embedding (but for one unused row), norm and head."""
    told = {name: value for name, value in files.text_config.items() if name not in _NOT_A_LAYER_S}
    config_class, model_class = model_classes(files)
    try:
        config = config_class(
            **told,
            num_hidden_layers=len(layer_types),
            layer_types=layer_types,
            vocab_size=1,
            tie_word_embeddings=False,
        )
    except Exception as cause:  # the configuration class validates with several kinds of errors
        sentence = " ".join(str(cause).split())
        raise Infeasible(
            "checkpoint", f"config.json in {files.folder} is not acceptable: {sentence}"
        ) from cause
    config.dtype = dtype
    config._name_or_path = str(files.folder)  # llmcompressor asks for it
    with torch.device("meta"):
        model = model_class(config)
    model.model.rotary_emb = type(model.model.rotary_emb)(config)
    model.model.embed_tokens.weight = nn.Parameter(
        torch.zeros(1, config.hidden_size, dtype=dtype), requires_grad=False
    )
    model.model.norm = nn.Identity()
    model.lm_head = nn.Identity()
    return model


def _ready(model: Qwen3_5ForCausalLM, device: torch.device) -> Qwen3_5ForCausalLM:
    nn.Module.requires_grad_(model, False)
    nn.Module.train(model, False)
    nn.Module.to(model, device)
    return model


def _tensors(files: CheckpointFiles, dtype: torch.dtype, wanted: Callable[[str], bool]) -> dict[str, Tensor]:
    """The tensors whose names in the text model are wanted, by those; only the files that hold them are
    opened."""
    where = {name: path for name, path in files.tensors.items() if wanted(module_tensor(name))}
    found = read_tensors(replace(files, tensors=where), dtype, where.__contains__)
    return {module_tensor(name): tensor for name, tensor in found}
