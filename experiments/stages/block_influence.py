"""Block Influence of each layer: how much it turns the hidden state. Imports torch; runs in a process of its
own.

Block Influence of layer i is 1 − E[cos(x_i, x_{i+1})] over tokens, with x_i the hidden state that goes into
the layer and x_{i+1} what comes out (ShortGPT, arXiv 2403.03853). Both are read by hooks on the layers: the
last entry of transformers' `output_hidden_states` is after the final norm, and would make the last layer look
busy.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM


@torch.inference_mode()
def block_influence(model: Qwen3_5ForCausalLM, documents: Sequence[Sequence[int]]) -> list[float]:
    """Block Influence of each layer over all tokens of the documents (token ids), each read on its own."""
    layers = list(model.model.layers)
    cosines = [0.0] * len(layers)
    tokens = 0

    def hook(index: int) -> None:
        def after(module: torch.nn.Module, args: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
            before, behind = args[0].float(), output.float()
            cosine = torch.nn.functional.cosine_similarity(before, behind, dim=-1)
            cosines[index] += float(cosine.double().sum())

        handles.append(layers[index].register_forward_hook(after))

    handles: list[torch.utils.hooks.RemovableHandle] = []
    for index in range(len(layers)):
        hook(index)
    try:
        for document in documents:
            ids = torch.tensor([list(document)], device=model.device)
            model.model(ids, use_cache=False)
            tokens += ids.numel()
    finally:
        for handle in handles:
            handle.remove()
    return [1 - total / tokens for total in cosines]
