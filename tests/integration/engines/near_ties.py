"""How close the two best next tokens are, by transformers alone."""

from functools import cache
from pathlib import Path

import torch
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM


@cache
def _model(checkpoint: Path) -> Qwen3_5ForCausalLM:
    return Qwen3_5ForCausalLM.from_pretrained(checkpoint, dtype=torch.float32).eval()


def top_two_gap(checkpoint: Path, context: tuple[int, ...]) -> float:
    """Difference of the two largest logits after a context."""
    with torch.inference_mode():
        logits = _model(checkpoint)(torch.tensor([context])).logits[0, -1]
    best, second = logits.topk(2).values.tolist()
    return float(best - second)
