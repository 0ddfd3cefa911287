"""Tiny checkpoints whose sizes are whole groups of 32, with an MTP head."""

from dataclasses import replace
from pathlib import Path

import torch
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM
from transformers.models.qwen3_5_moe import Qwen3_5MoeForCausalLM

from tests.integration.engines.checkpoints import LAYERS, Sizes, tiny_mixture, tiny_model, write_checkpoint

CPU = torch.device("cpu")

SIZES = Sizes(hidden=64, intermediate=96, heads=4, kv_heads=2, linear_key_heads=2, linear_value_heads=4)
"""Four value heads over two key heads in the GDN layers, grouped heads in attention."""


def quantizable_model(
    layers: list[str] | None = None, seed: int = 0, *, vocabulary: int = 256, spread: float = 0.05
) -> Qwen3_5ForCausalLM:
    """Four value heads over two key heads in the GDN layers, grouped heads in attention."""
    return tiny_model(seed, layers or LAYERS, vocabulary, replace(SIZES, spread=spread))


def quantizable_mixture(
    layers: list[str] | None = None, seed: int = 0, *, vocabulary: int = 256, spread: float = 0.05
) -> Qwen3_5MoeForCausalLM:
    """The same with 8 experts that are 32 wide, of which a token goes through 2, and a shared one of 64."""
    return tiny_mixture(seed, layers or LAYERS, vocabulary, replace(SIZES, intermediate=64, spread=spread))


def quantizable(folder: Path, model: Qwen3_5ForCausalLM | Qwen3_5MoeForCausalLM, **form: object) -> Path:
    write_checkpoint(folder, model, dtype=torch.bfloat16, **form)  # type: ignore[arg-type]
    (folder / "tokenizer.json").write_text('{"kept": "naïve"}')
    (folder / "README.md").write_text("A card of the model before.")
    (folder / "prune-report.json").write_text("{}")
    return folder
