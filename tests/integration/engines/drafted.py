"""Tiny targets and what drafts for them."""

import copy
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM
from transformers.models.qwen3_5_moe import Qwen3_5MoeForCausalLM

from experiments.drafters.dflash.files import save_drafter
from experiments.drafters.dflash.network import DFlashNetwork
from experiments.drafters.dflash.shape import DFlashShape
from experiments.engines.reference.checkpoint import load_model
from experiments.engines.reference.decode import Decoder
from experiments.engines.reference.drafting.factory import decoder_for
from experiments.engines.reference.drafting.order import DraftingOrder
from experiments.engines.reference.drafting.speculation import Speculation
from experiments.engines.reference.inspection import inspect_checkpoint
from experiments.engines.reference.mtp_head import MtpHead
from tests.integration.engines.checkpoints import (
    LAYERS,
    VOCABULARY,
    each_expert_alone,
    tiny_model,
    write_checkpoint,
)

TextModel = Qwen3_5ForCausalLM | Qwen3_5MoeForCausalLM


def write_target(
    folder: Path,
    model: Qwen3_5ForCausalLM | Qwen3_5MoeForCausalLM | None = None,
    *,
    each_expert: bool = False,
) -> Path:
    """A tiny checkpoint with an MTP head of the right sizes and random weights; `each_expert` gives each one
    tensors of its own, those of the head too."""
    model = model or tiny_model(layers=LAYERS)
    write_checkpoint(folder, model, each_expert=each_expert)
    torch.manual_seed(1)
    head = MtpHead(model)
    tensors = {
        name: tensor
        for name, tensor in load_file(folder / "model.safetensors").items()
        if not name.startswith("mtp.")
    }
    of_head = {
        f"mtp.{name}": torch.randn_like(tensor) * (0.25 if tensor.ndim > 1 else 0.05)
        for name, tensor in head.state_dict().items()
    }
    tensors |= each_expert_alone(of_head) if each_expert else of_head
    tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def write_nearly_the_same(folder: Path, model: TextModel, scale: float) -> Path:
    """A draft model whose greedy token is often, not always, that of `model`: its weights and some noise."""
    other = copy.deepcopy(model)
    torch.manual_seed(2)
    with torch.no_grad():
        for weight in other.parameters():
            weight.add_(torch.randn_like(weight) * weight.std() * scale)
    return write_checkpoint(folder, other)


def write_block_drafter(folder: Path) -> Path:
    """A DFlash drafter with random weights for `write_target`'s model."""
    torch.manual_seed(3)
    shape = DFlashShape(
        vocabulary=VOCABULARY,
        hidden=48,
        intermediate=64,
        layers=1,
        query_heads=2,
        kv_heads=1,
        head_size=32,
        block_tokens=4,
        mask_token_id=VOCABULARY - 1,
        target_layer_ids=(1, 4),
        target_layers=len(LAYERS),
        rope_theta=10_000.0,
        max_positions=4096,
    )
    save_drafter(DFlashNetwork(shape), folder)
    return folder


def with_and_without(
    checkpoint: Path,
    order: DraftingOrder,
    *,
    dtype: torch.dtype = torch.float32,
    mode: str = "off",
    cache_dir: Path = Path("unused"),
) -> tuple[Decoder, Speculation]:
    """A decoder without drafting and a speculation as ordered, of the same loaded model."""
    files = inspect_checkpoint(checkpoint)
    model = load_model(files, dtype, torch.device("cpu"))
    plain, _ = decoder_for(model, files, mode, cache_dir, DraftingOrder())
    _, speculation = decoder_for(model, files, mode, cache_dir, order)
    assert speculation is not None
    return plain, speculation
