"""Tiny Qwen3.5-type checkpoints whose greedy text is not the same token over and over."""

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM, Qwen3_5TextConfig
from transformers.models.qwen3_5_moe import Qwen3_5MoeForCausalLM, Qwen3_5MoeTextConfig

VOCABULARY = 512

LAYERS = ["linear_attention", "full_attention", "linear_attention", "linear_attention", "full_attention"]


@dataclass(frozen=True)
class Sizes:
    """Widths and heads of a tiny model. `spread` is the standard deviation of the weights: large, so that
    layers outweigh the embedding and greedy text has variety; small, so that layers do not amplify what
    rounding changes."""

    hidden: int = 48
    intermediate: int = 64
    heads: int = 2
    kv_heads: int = 1
    linear_key_heads: int = 1
    linear_value_heads: int = 2
    spread: float = 0.25


def tiny_config(
    layers: list[str] | None = None, vocabulary: int = VOCABULARY, sizes: Sizes = Sizes()
) -> Qwen3_5TextConfig:
    layers = layers or LAYERS[:4]
    return Qwen3_5TextConfig(
        architectures=["Qwen3_5ForCausalLM"],
        vocab_size=vocabulary,
        hidden_size=sizes.hidden,
        intermediate_size=sizes.intermediate,
        num_hidden_layers=len(layers),
        num_attention_heads=sizes.heads,
        num_key_value_heads=sizes.kv_heads,
        head_dim=32,
        linear_num_key_heads=sizes.linear_key_heads,
        linear_num_value_heads=sizes.linear_value_heads,
        linear_key_head_dim=16,
        linear_value_head_dim=16,
        layer_types=layers,
        tie_word_embeddings=True,
        initializer_range=sizes.spread,
        mtp_num_hidden_layers=1,
    )


def tiny_model(
    seed: int = 0,
    layers: list[str] | None = None,
    vocabulary: int = VOCABULARY,
    sizes: Sizes = Sizes(),
) -> Qwen3_5ForCausalLM:
    torch.manual_seed(seed)
    return Qwen3_5ForCausalLM(tiny_config(layers, vocabulary, sizes)).eval()


def tiny_mixture(
    seed: int = 0,
    layers: list[str] | None = None,
    vocabulary: int = VOCABULARY,
    sizes: Sizes = Sizes(),
) -> Qwen3_5MoeForCausalLM:
    """A Mixture of 8 experts, of which a token goes through 2 and the shared one."""
    told = tiny_config(layers, vocabulary, sizes).to_dict()
    others = ("architectures", "model_type", "intermediate_size")
    config = Qwen3_5MoeTextConfig(
        **{name: value for name, value in told.items() if name not in others},
        architectures=["Qwen3_5MoeForCausalLM"],
        shared_expert_intermediate_size=sizes.intermediate,
        moe_intermediate_size=sizes.intermediate // 2,
        num_experts=8,
        num_experts_per_tok=2,
    )
    torch.manual_seed(seed)
    return Qwen3_5MoeForCausalLM(config).eval()


def each_expert_alone(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors with each expert in ones of its own, as transformers saves them."""
    found = {}
    for name, value in tensors.items():
        experts, is_one, last = name.partition(".experts.")
        if not is_one:
            found[name] = value
            continue
        parts = (last,) if last == "down_proj" else ("gate_proj", "up_proj")
        for number, own in enumerate(value):
            for part, rows in zip(parts, own.chunk(len(parts)), strict=True):
                found[f"{experts}.experts.{number}.{part}.weight"] = rows
    return found


def take_layer_apart(folder: Path, layer: int) -> Path:
    """Give each expert of one layer tensors of its own in a checkpoint of one file, and leave the others."""
    tensors = load_file(folder / "model.safetensors")
    own = {name: value for name, value in tensors.items() if name.startswith(f"model.layers.{layer}.")}
    rest = {name: value for name, value in tensors.items() if name not in own}
    found = {name: value.contiguous() for name, value in {**rest, **each_expert_alone(own)}.items()}
    save_file(found, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def write_checkpoint(
    folder: Path,
    model: Qwen3_5ForCausalLM | Qwen3_5MoeForCausalLM,
    *,
    wrapper: bool = False,
    shards: int = 1,
    dtype: torch.dtype = torch.float32,
    each_expert: bool = False,
) -> Path:
    """Write as Qwen publishes: `wrapper` nests the text model beside a vision tower, `shards` splits the
    weights, `each_expert` gives each one tensors of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        name: value.to(dtype) for name, value in model.state_dict().items() if name != "lm_head.weight"
    }
    if each_expert:
        tensors = each_expert_alone(tensors)
    dense = isinstance(model, Qwen3_5ForCausalLM)
    tensors["mtp.fc.weight"] = torch.arange(6, dtype=dtype).reshape(2, 3)
    tensors["mtp.layers.0.mlp.up_proj.weight"] = torch.ones(2, 2, dtype=dtype)
    config = model.config.to_dict()
    if wrapper:
        tensors = {
            name.replace("model.", "model.language_model.", 1) if name.startswith("model.") else name: value
            for name, value in tensors.items()
        }
        tensors["model.visual.patch_embed.weight"] = torch.ones(3, dtype=dtype)
        config = {
            "model_type": "qwen3_5" if dense else "qwen3_5_moe",
            "architectures": [f"Qwen3_5{'' if dense else 'Moe'}ForConditionalGeneration"],
            "tie_word_embeddings": True,
            "text_config": {name: value for name, value in config.items() if name != "tie_word_embeddings"},
            "vision_config": {},
        }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text("{}")
    tensors = {name: value.clone().contiguous() for name, value in tensors.items()}
    if shards == 1:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        return folder
    weight_map = {}
    for shard in range(shards):
        name = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        part = dict(list(tensors.items())[shard::shards])
        save_file(part, folder / name, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(part, name)
    index = {"metadata": {"total_size": 0}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder
