"""Text that the target writes itself: what a drafter will meet at work.

Greedy decoding drifts away from the text it began with, and a draft is judged against that. So half of what a
drafter learns from are the target's own greedy continuations of the beginnings of training texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from experiments.reference_model.scores import LoadedCheckpoint, greedy
from experiments.reference_model.token_stream import TokenPool

PREFILL_LOGITS_MAX = 2**32
"""Logits of one prefill, tokens × vocabulary: 17 GB in float32. A smaller batch is taken where it would be
more."""


@dataclass(frozen=True)
class SelfTextPlan:
    """How much text to write: `rows` texts, `batch` at once, each `tokens` long after a prompt.

    The lengths of prompts take turns from batch to batch.
    """

    rows: int
    batch: int
    prompt_lengths: tuple[int, ...]
    tokens: int


def write_self_text(
    checkpoint: LoadedCheckpoint,
    sources: Sequence[tuple[TokenPool, float]],
    plan: SelfTextPlan,
    generator: torch.Generator,
    report: Callable[[int], None] = lambda _: None,
) -> TokenPool:
    """Return prompts with the target's greedy continuations, an end of text after each, on its device.

    Args:
        sources: where prompts are drawn from, with their shares; on the target's device.
        report: called with the rows written so far, after each batch.
    """
    end = sources[0][0].end_of_text
    written: list[Tensor] = []
    starts: list[Tensor] = []
    place = rows_done = 0
    while rows_done < plan.rows:
        prompt_tokens = plan.prompt_lengths[len(written) % len(plan.prompt_lengths)]
        most = max(1, PREFILL_LOGITS_MAX // (prompt_tokens * checkpoint.model.config.vocab_size))
        rows = min(plan.batch, plan.rows - rows_done, most)
        prompts = draw_windows(sources, rows, prompt_tokens - 1, generator)
        # A window begins with the end of text, which `TokenPool.windows` will put there again.
        ids = greedy(checkpoint, prompts, plan.tokens)[:, 1:]
        ids = torch.cat([ids, torch.full_like(ids[:, :1], end)], dim=1)
        written.append(ids.flatten().int())
        starts.append(place + torch.arange(rows, device=ids.device) * ids.shape[1])
        place += ids.numel()
        rows_done += rows
        report(rows_done)
    tokens = torch.cat(written)
    return TokenPool(
        tokens, torch.ones(len(tokens), dtype=torch.float16, device=tokens.device), torch.cat(starts), end
    )


def draw_windows(
    sources: Sequence[tuple[TokenPool, float]], rows: int, length: int, generator: torch.Generator
) -> Tensor:
    """Draw token ids (rows, length + 1), the end of text first, by the sources' shares, which need not sum to
    one."""
    total = sum(share for _, share in sources)
    drawn: list[Tensor] = []
    left = rows
    for index, (pool, share) in enumerate(sources):
        wanted = left if index == len(sources) - 1 else min(left, round(rows * share / total))
        left -= wanted
        if wanted:
            drawn.append(pool.windows(wanted, length, generator)[0])
    return torch.cat(drawn)
