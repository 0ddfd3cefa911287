"""Block Influence of each layer: how much it turns the hidden state. Imports torch; runs in a process of its
own.

Block Influence of layer i is 1 − E[cos(x_i, x_{i+1})] over tokens, with x_i the hidden state that goes into
the layer and x_{i+1} what comes out (ShortGPT, arXiv 2403.03853). Both are read at the layers: the last
entry of transformers' `output_hidden_states` is after the final norm, and would make the last layer look
busy.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM

from experiments.engines.reference.checkpoint import layer_kinds
from experiments.stages.pruning.choosing import Choice
from experiments.stages.pruning.kept_rows import NOTHING_KEPT, KeptRows
from experiments.stages.pruning.layer_walk import LayerWalk
from experiments.stages.pruning.scores import LayerScores, Ranking, ranked_once


def rank_by_block_influence(
    model: Qwen3_5ForCausalLM,
    documents: Sequence[Sequence[int]],
    choice: Choice,
    workers: int = 1,
    kept: KeptRows = NOTHING_KEPT,
) -> Ranking:
    """The layers of least Block Influence go."""
    return ranked_once(block_influence(model, documents, workers, kept), layer_kinds(model), choice)


def block_influence(
    model: Qwen3_5ForCausalLM,
    documents: Sequence[Sequence[int]],
    workers: int = 1,
    kept: KeptRows = NOTHING_KEPT,
) -> LayerScores:
    """Block Influence of each layer in each document (token ids)."""
    walk = LayerWalk(model, documents, workers, kept)

    def influence(before: torch.Tensor, after: torch.Tensor) -> float:
        cosine = torch.nn.functional.cosine_similarity(before.float(), after.float(), dim=-1)
        return 1 - float(cosine.double().mean())

    rows = walk.each_document(
        lambda number: tuple(influence(*step) for step in walk.steps(number)), walk.all_layers
    )
    return LayerScores(rows, tuple(map(len, documents)))
