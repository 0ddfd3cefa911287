"""Whether the first tokens that an engine answers with are a model's own, up to what 16 bits round.

In bfloat16 a near tie goes the other way, and where it is one of a router's, a token is sent to another
expert and its logits move far. So tokens are judged by the logits that float32 gives them, and a few are let
go astray: of 40 prompts of mixtures packed in five formats (`wide_mixture.py`; by hand, one of them in
`test_first_tokens.py`) bfloat16 on a processor has 0 to 2 do so, and products with the scales of other
outputs, without their zero points or with two experts exchanged in each layer 13 and more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from experiments.engines.reference.checkpoint import load_model
from experiments.engines.reference.inspection import inspect_checkpoint

MOST_ASTRAY = 5
"""One token of so many may be astray."""

Prompts = Sequence[Sequence[int]]


@dataclass(frozen=True)
class FirstTokens:
    """The logits of the first token after each prompt in float32, and how far from the best one a token may
    lie: twice what bfloat16 moves the logits of a prompt in the middle, for the best one and another may move
    towards each other."""

    exact: torch.Tensor
    margin: float

    @property
    def distinct(self) -> int:
        """How many tokens there are among the best ones."""
        return len(set(self.exact.argmax(1).tolist()))

    @property
    def astray_at_most(self) -> int:
        """How many tokens of the model's own may be astray."""
        return len(self.exact) // MOST_ASTRAY

    def astray(self, tokens: Sequence[int]) -> int:
        """How many of the tokens, one after each prompt, float32 would not come near to."""
        best, own = self.exact.amax(1), self.exact.gather(1, torch.tensor(tokens)[:, None])[:, 0]
        return int((best - own > self.margin).sum())


def computed(checkpoint: Path, prompts: Prompts) -> FirstTokens:
    """The first tokens by transformers' own model on a processor, with the weights as they are stored."""
    exact, rounded = (after(loaded(checkpoint, dtype), prompts) for dtype in (torch.float32, torch.bfloat16))
    return FirstTokens(exact, 2 * float((exact - rounded).abs().amax(1).median()))


def loaded(checkpoint: Path, dtype: torch.dtype) -> torch.nn.Module:
    """Transformers' own model with the weights as they are stored, on a processor."""
    return load_model(inspect_checkpoint(checkpoint), dtype, torch.device("cpu"))


def after(model: torch.nn.Module, prompts: Prompts) -> torch.Tensor:
    """A model's logits after prompts of one length."""
    with torch.inference_mode():
        logits: torch.Tensor = model(torch.tensor(prompts)).logits
        return logits[:, -1].float()
