"""Tiny checkpoints whose sizes are whole groups of 32, with an MTP head."""

from pathlib import Path

import torch
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM, Qwen3_5TextConfig

from tests.integration.engines.checkpoints import LAYERS, write_checkpoint

CPU = torch.device("cpu")


def quantizable_model(
    layers: list[str] | None = None, seed: int = 0, *, vocabulary: int = 256, spread: float = 0.05
) -> Qwen3_5ForCausalLM:
    """Four value heads over two key heads in the GDN layers, grouped heads in attention.

    `spread` is the standard deviation of the weights: small, so that layers do not amplify what rounding
    changes; with larger ones greedy text has variety.
    """
    layers = layers or LAYERS
    torch.manual_seed(seed)
    config = Qwen3_5TextConfig(
        architectures=["Qwen3_5ForCausalLM"],
        vocab_size=vocabulary,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=len(layers),
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        linear_key_head_dim=16,
        linear_value_head_dim=16,
        layer_types=layers,
        tie_word_embeddings=True,
        initializer_range=spread,
        mtp_num_hidden_layers=1,
    )
    return Qwen3_5ForCausalLM(config).eval()


def quantizable(folder: Path, model: Qwen3_5ForCausalLM, **form: object) -> Path:
    write_checkpoint(folder, model, dtype=torch.bfloat16, **form)  # type: ignore[arg-type]
    (folder / "tokenizer.json").write_text('{"kept": "naïve"}')
    (folder / "README.md").write_text("A card of the model before.")
    (folder / "prune-report.json").write_text("{}")
    return folder
