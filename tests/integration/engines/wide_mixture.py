"""A small Mixture of Experts whose sizes kernels of GPUs compute with, and prompts of its own vocabulary."""

from random import Random

import torch
from transformers.models.qwen3_5_moe import Qwen3_5MoeForCausalLM, Qwen3_5MoeTextConfig

from tests.integration.engines.checkpoints import Sizes, tiny_mixture

SERVED = {
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "head_dim": 128,
    "initializer_range": 0.05,
}

_DRAWN = Random(0)
PROMPTS = [tuple(_DRAWN.randrange(3, 500) for _ in range(40)) for _ in range(40)]


def mixture(width: int = 128) -> Qwen3_5MoeForCausalLM:
    """With experts that are so wide, and a hidden size of 256."""
    sizes = Sizes(hidden=256, intermediate=2 * width, linear_value_heads=2)
    told = {**tiny_mixture(sizes=sizes).config.to_dict(), **SERVED}
    torch.manual_seed(0)
    config = {name: value for name, value in told.items() if name != "rope_parameters"}
    return Qwen3_5MoeForCausalLM(Qwen3_5MoeTextConfig(**config)).eval()
