"""How much of a drafter's blocks its target accepts, by a walk over the target's own greedy text.

Greedy verification never changes the text, so the target decodes alone once, and the drafter's blocks at
every position of that text are made in one pass. Then the steps are walked: from a known token, the drafts
are taken as far as they are the text; the step yields them and the token that the target says after them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM

from experiments.corpora.instructions import InstructionItem
from experiments.drafters.dflash.blocks import draft_hidden, read_target
from experiments.drafters.dflash.network import DFlashNetwork
from experiments.engines.reference.drafting.acceptance import acceptance_length, position_rates
from experiments.measurement.content_prompts import CONTENT_CLASSES
from experiments.reference_model.scores import (
    CONTINUATION_TOKENS,
    LoadedCheckpoint,
    content_prompts,
    greedy,
)


@dataclass(frozen=True)
class Acceptance:
    """What was accepted over `steps` steps.

    `tokens_per_step` counts the target's own token, so 1 is no use at all and the block's size the most;
    `rate_by_position[i]` is the share of steps in which draft i was accepted, all before it included.
    """

    steps: int
    tokens_per_step: float
    rate_by_position: tuple[float, ...]


def accepted_lengths(text: Sequence[int], drafts: Sequence[Sequence[int]], first: int) -> list[int]:
    """Walk a text and return how many drafts each step accepted.

    Args:
        text: token ids. drafts: for each position, the tokens drafted after it when its token is the last
            known one; the walk ends where they would reach beyond the text. first: the first known position.
    """
    lengths = []
    known = first
    while known < len(drafts) and known + len(drafts[known]) < len(text):
        following = text[known + 1 : known + 1 + len(drafts[known])]
        accepted = 0
        while accepted < len(following) and drafts[known][accepted] == following[accepted]:
            accepted += 1
        lengths.append(accepted)
        known += 1 + accepted
    return lengths


def summarise(lengths: Sequence[int], drafted: int) -> Acceptance:
    """Return the figures of steps that accepted so many of `drafted` tokens each.

    Raises:
        ValueError: there is no step.
    """
    if not lengths:
        raise ValueError("no step was walked; the texts are shorter than a block")
    step_tokens = [1 + length for length in lengths]
    return Acceptance(len(lengths), acceptance_length(step_tokens), position_rates(step_tokens, drafted))


@torch.inference_mode()
def drafts_everywhere(network: DFlashNetwork, target: Qwen3_5ForCausalLM, ids: Tensor) -> list[list[int]]:
    """Return the block drafted at each position of one text (positions,) that leaves room for it; position 0
    has no context and an empty draft."""
    shape = network.shape
    text = ids[None]
    reading = read_target(target, shape.target_layer_ids, text)
    anchors = torch.arange(1, len(ids) - shape.block_tokens + 1, device=ids.device)[None]
    hidden = draft_hidden(network, target, reading.features, text, anchors)
    drafted: list[list[int]] = target.lm_head(hidden).argmax(-1)[0].tolist()
    return [[], *drafted]


def measure_acceptance(
    network: DFlashNetwork, checkpoint: LoadedCheckpoint, prompts: Tensor, tokens: int = CONTINUATION_TOKENS
) -> Acceptance:
    """Return the acceptance over greedy continuations of prompts (rows, length), each `tokens` long."""
    texts = greedy(checkpoint, prompts.to(checkpoint.model.device), tokens)
    lengths: list[int] = []
    for text in texts:
        drafts = drafts_everywhere(network, checkpoint.model, text)
        lengths += accepted_lengths(text.tolist(), drafts, prompts.shape[1])
    return summarise(lengths, network.shape.block_tokens - 1)


def acceptance_by_class(
    network: DFlashNetwork, checkpoint: LoadedCheckpoint, items: Sequence[InstructionItem], rows: int
) -> dict[str, Acceptance]:
    """Return the acceptance on up to `rows` held-out prompts of each content class."""
    return {
        content: measure_acceptance(network, checkpoint, content_prompts(checkpoint, content, items)[:rows])
        for content in CONTENT_CLASSES
    }
