"""Many blocks in one pass over texts that are known: what a drafter is trained on and judged by.

At an *anchor*, a position whose token is taken as the last known one, the block's first place holds that
token and the rest are masks. All blocks of a text share its context; a block sees the positions before its
anchor and itself, no other block. One pass over all of them gives what `DFlashDrafter.propose` gives at each.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM

from experiments.drafters.dflash.network import DFlashNetwork
from experiments.drafters.dflash.target import FeatureTap

DECAY_TOKENS = 4.0
"""A drafted token weighs e times less in the loss this many places further on: it counts only when all
before it were accepted (arXiv 2602.06036 weighs blocks by an exponential; this length suits blocks of 8)."""


@dataclass(frozen=True)
class TargetReading:
    """What the target says of texts: `features` (texts, positions, width) and its `greedy` choice of the
    token after each position (texts, positions)."""

    features: Tensor
    greedy: Tensor


@torch.no_grad()
def read_target(target: Qwen3_5ForCausalLM, layer_ids: tuple[int, ...], ids: Tensor) -> TargetReading:
    """Run the target over texts of token ids (texts, positions)."""
    with FeatureTap(target, layer_ids) as tap:
        greedy = target(ids, use_cache=False).logits.argmax(-1)
        return TargetReading(tap.features(), greedy)


def visible(anchors: Tensor, positions: int, block_tokens: int) -> Tensor:
    """Return what each block position sees: boolean (texts, 1, blocks × tokens, positions + blocks × tokens).

    Args:
        anchors: (texts, blocks). positions: of the context. block_tokens: of a block.
    """
    texts, blocks = anchors.shape
    before = torch.arange(positions, device=anchors.device) < anchors[..., None]
    of_context = before.repeat_interleave(block_tokens, dim=1)
    number = torch.arange(blocks, device=anchors.device).repeat_interleave(block_tokens)
    of_blocks = (number[:, None] == number).expand(texts, -1, -1)
    return torch.cat([of_context, of_blocks], dim=-1)[:, None]


def draft_hidden(
    network: DFlashNetwork, target: Qwen3_5ForCausalLM, features: Tensor, ids: Tensor, anchors: Tensor
) -> Tensor:
    """Return the hidden states at the masks of each block: (texts, blocks, `block_tokens` − 1, hidden).

    Args:
        features: of `read_target`, at all positions of `ids`. ids: (texts, positions). anchors: (texts,
            blocks).
    """
    shape = network.shape
    texts, blocks = anchors.shape
    tokens = torch.full((texts, blocks, shape.block_tokens), shape.mask_token_id, device=ids.device)
    tokens[..., 0] = ids.gather(1, anchors)
    places = anchors[..., None] + torch.arange(shape.block_tokens, device=ids.device)
    context = network.context(features, torch.arange(ids.shape[1], device=ids.device)[None])
    hidden = network(
        target.model.embed_tokens(tokens.flatten(1)),
        places.flatten(1),
        context,
        visible(anchors, ids.shape[1], shape.block_tokens),
    )
    return hidden.unflatten(1, (blocks, shape.block_tokens))[:, :, 1:]  # type: ignore[no-any-return]


def labels(ids: Tensor, greedy: Tensor, anchors: Tensor, block_tokens: int) -> tuple[Tensor, Tensor]:
    """Return what the target would say at each mask, and whether that is known.

    The target's greedy choice is known as long as the text before it in the block is itself what the target
    would have said; the first place where the text departs still has its right label, later ones have none.

    Args:
        ids: (texts, positions). greedy: of `read_target`. anchors: (texts, blocks), each at most positions −
            `block_tokens`.

    Returns:
        Token ids and booleans, both (texts, blocks, `block_tokens` − 1).
    """
    texts, blocks = anchors.shape
    offsets = torch.arange(block_tokens - 1, device=ids.device)
    places = (anchors[..., None] + offsets).flatten(1)
    wanted = greedy.gather(1, places).view(texts, blocks, -1)
    said = ids.gather(1, places + 1).view(texts, blocks, -1)
    agreed = (said == wanted).long().cumprod(-1).bool()
    known = torch.cat([torch.ones_like(agreed[..., :1]), agreed[..., :-1]], dim=-1)
    return wanted, known


def draft_loss(
    network: DFlashNetwork, target: Qwen3_5ForCausalLM, reading: TargetReading, ids: Tensor, anchors: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the weighted mean cross-entropy of the drafts against the target's greedy choice, in nats, and
    the share of right first drafts (detached)."""
    block_tokens = network.shape.block_tokens
    wanted, known = labels(ids, reading.greedy, anchors, block_tokens)
    hidden = draft_hidden(network, target, reading.features, ids, anchors)
    logits = target.lm_head(hidden).float()
    losses = functional.cross_entropy(logits.flatten(0, 2), wanted.flatten(), reduction="none")
    offsets = torch.arange(block_tokens - 1, device=ids.device)
    weights = (known * torch.exp(-offsets / DECAY_TOKENS)).flatten()
    right = (logits[:, :, 0].argmax(-1) == wanted[:, :, 0]).float().mean()
    return (losses * weights).sum() / weights.sum(), right.detach()
