"""A checkpoint of a Qwen3.5's own size with random weights, so that what reads, quantizes and prunes files is
tried at that size where the published ones can't be had.

    python -m tests.device.random_checkpoint qwen3.5-4b FOLDER --device cuda:0

Weights are those with which transformers' own model begins, in bfloat16, and the MTP head those of a layer of
attention; the tokenizer is the packaged model's. What such a model says is noise: times, memory and what
fails are all that is to be quoted of it. Needs torch and transformers; a 4B takes 8.8 GB on the disk.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM, Qwen3_5TextConfig
from transformers.models.qwen3_5_moe import Qwen3_5MoeForCausalLM, Qwen3_5MoeTextConfig

from configs.model_types import MOE_TYPES
from configs.models import load_model_profile
from experiments.engines.vllm.wrapped_checkpoint import wrapped_name
from experiments.reference_model.load import reference_model_path
from experiments.shapes.config import shape_config

SHARD_BYTES = 4_000_000_000

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")

FULL_ATTENTION = "full_attention"


def main() -> None:
    """Write it."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("shape")
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--device", default="cpu", help="where the weights are drawn")
    arguments.add_argument("--layers", type=int, help="as many layers, in place of all")
    arguments.add_argument("--seed", type=int, default=0)
    given = arguments.parse_args()
    config = shape_config(load_model_profile(given.shape), None)
    text = config["text_config"]
    if given.layers:
        text["layer_types"] = text["layer_types"][: given.layers]
        text["num_hidden_layers"] = given.layers
    given.folder.mkdir(parents=True)
    torch.manual_seed(given.seed)
    written = write_shards(given.folder, tensors(text, given.device))
    (given.folder / "config.json").write_text(json.dumps(config, indent=1))
    for name in TOKENIZER_FILES:
        shutil.copy(reference_model_path() / name, given.folder / name)
    print(f"{given.folder}: {written / 1e9:.2f} GB")


def tensors(text: Mapping[str, object], device: str) -> dict[str, torch.Tensor]:
    """The tensors by the names under which Qwen publishes them, those of the MTP head at the top."""
    found = {
        wrapped_name(name): value
        for name, value in drawn(text, device).items()
        if name != "lm_head.weight" or not text["tie_word_embeddings"]
    }
    if not text["mtp_num_hidden_layers"]:
        return found
    one = drawn({**text, "layer_types": [FULL_ATTENTION], "num_hidden_layers": 1, "vocab_size": 8}, device)
    head = {name.replace("model.", "mtp.", 1): value for name, value in one.items() if ".layers.0." in name}
    width = int(str(text["hidden_size"]))
    norms = ("norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden")
    head |= {f"mtp.{name}.weight": one["model.norm.weight"].clone() for name in norms}
    head["mtp.fc.weight"] = 0.02 * torch.randn(width, 2 * width, device=device, dtype=torch.bfloat16)
    return found | head


def drawn(text: Mapping[str, object], device: str) -> dict[str, torch.Tensor]:
    """The tensors with which transformers' text model of this configuration begins."""
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(device):
        if text["model_type"] in MOE_TYPES:
            return dict(Qwen3_5MoeForCausalLM(Qwen3_5MoeTextConfig(**text)).state_dict())
        return dict(Qwen3_5ForCausalLM(Qwen3_5TextConfig(**text)).state_dict())


def write_shards(folder: Path, found: Mapping[str, torch.Tensor]) -> int:
    """Write them in files of at most `SHARD_BYTES` with their index; the bytes of all."""
    shards: list[dict[str, torch.Tensor]] = [{}]
    held = 0
    for name, value in found.items():
        size = value.numel() * value.element_size()
        if held and held + size > SHARD_BYTES:
            shards.append({})
            held = 0
        shards[-1][name] = value
        held += size
    places = {}
    for number, shard in enumerate(shards, start=1):
        name = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        save_file({key: value.cpu().contiguous() for key, value in shard.items()}, folder / name)
        places |= dict.fromkeys(shard, name)
    total = sum(value.numel() * value.element_size() for value in found.values())
    index = {"metadata": {"total_size": total}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return total


if __name__ == "__main__":
    main()
