"""Samples text from a model, many rows at once, each with beginnings of its own. Imports torch.

No row is padded: all take the first tokens of their beginnings together, then one token a step, which is the
next of the beginning as long as it lasts, and a sampled one from then on. So rows of different beginnings
share a step, and the GatedDeltaNet state, which knows no mask, is exact.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from transformers.cache_utils import DynamicCache
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM

from experiments.cache_keyword import with_cache
from experiments.space.writing_rules import ROWS_AT_ONCE


@dataclass(frozen=True)
class Sampling:
    """`tokens` a row; a row that samples one of `ends` takes up its next beginning; ids from `vocabulary` on,
    which no text has, are never sampled; `seed` decides the numbers drawn for each row and place."""

    tokens: int
    ends: Collection[int]
    vocabulary: int
    temperature: float
    seed: str


class _Row:
    """A row's tokens so far, and those that are not the model's to choose."""

    def __init__(self, beginnings: Sequence[Sequence[int]], seed: str) -> None:
        self._beginnings = beginnings
        self._next = 1
        self.queue = list(reversed(beginnings[0]))
        self.ids: list[int] = []
        self.written = 0
        self._rng = random.Random(seed)

    def number(self) -> float:
        """The next uniform number from 0 to 1; one is drawn a step, whether it is used or not."""
        return self._rng.random()

    def take(self, sampled: int, ends: Collection[int]) -> int:
        """The next token: of the beginning while it lasts, else the sampled one."""
        if self.queue:
            token = self.queue.pop()
        else:
            token = sampled
            self.written += 1
            if token in ends:
                self.queue = list(reversed(self._beginnings[self._next % len(self._beginnings)]))
                self._next += 1
        self.ids.append(token)
        return token


@torch.inference_mode()
def write(
    model: Qwen3_5ForCausalLM, beginnings: Sequence[Sequence[Sequence[int]]], sampling: Sampling
) -> tuple[list[list[int]], list[int]]:
    """For each row's beginnings (token ids, none empty) its text of `tokens` ids, and how many it sampled."""
    rows = [_Row(each, f"{sampling.seed}/{index}") for index, each in enumerate(beginnings)]
    for first in range(0, len(rows), ROWS_AT_ONCE):
        _write_batch(model, rows[first : first + ROWS_AT_ONCE], sampling)
    return [row.ids for row in rows], [row.written for row in rows]


def _write_batch(model: Qwen3_5ForCausalLM, rows: Sequence[_Row], sampling: Sampling) -> None:
    prefill = min(sampling.tokens, *(len(row.queue) for row in rows))
    fed = [[row.take(-1, ()) for _ in range(prefill)] for row in rows]
    cache = DynamicCache(config=model.config)
    for _ in range(sampling.tokens - prefill):
        ids = torch.tensor(fed, device=model.device)
        logits = model(ids, **with_cache(cache), use_cache=True, logits_to_keep=1).logits[:, -1]
        sampled = sample(
            logits[:, : sampling.vocabulary], sampling.temperature, [row.number() for row in rows]
        )
        fed = [[row.take(token, sampling.ends)] for row, token in zip(rows, sampled, strict=True)]


def sample(logits: torch.Tensor, temperature: float, numbers: Sequence[float]) -> list[int]:
    """A token for each row of logits `[rows, vocabulary]`, by the inverse of the cumulated probabilities.

    `numbers`, one a row, are uniform in [0, 1): the same number and logits give the same token.
    """
    cumulated = torch.softmax(logits.double() / temperature, dim=-1).cumsum(-1)
    wanted = torch.tensor(numbers, dtype=torch.double, device=logits.device)[:, None] * cumulated[:, -1:]
    tokens = torch.searchsorted(cumulated, wanted, right=True)
    return [int(token) for token in tokens.flatten().clamp(max=logits.shape[-1] - 1).tolist()]
