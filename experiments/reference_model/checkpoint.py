"""Writes and reads the reference model's checkpoint: what transformers and vLLM load, `mtp.*` included."""

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import nn

from experiments.reference_model.architecture import Shape, text_config
from experiments.reference_model.mtp import MtpHead
from experiments.reference_model.network import Trunk, initialise
from experiments.reference_model.tokenizer import save_tokenizer, special_token_ids


class ReferenceNetwork(nn.Module):
    """The trunk (`model.*`) and the MTP head (`mtp.*`) under the names of a Qwen3.5 checkpoint."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.model = Trunk(shape)
        self.mtp = MtpHead(shape)


def fresh_network(shape: Shape, seed: int) -> ReferenceNetwork:
    """Return a network with weights drawn from the seed."""
    network = ReferenceNetwork(shape)
    initialise(network.model, seed)
    initialise(network.mtp, seed + 1)
    return network


def write_checkpoint(network: ReferenceNetwork, shape: Shape, tokenizer: Tokenizer, folder: Path) -> None:
    """Write config, bf16 weights and tokenizer into `folder`; files of that name are replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    text_config(shape, **special_token_ids(tokenizer)).save_pretrained(folder)
    tensors = {
        name: tensor.detach().to("cpu", torch.bfloat16).contiguous()
        for name, tensor in sorted(network.state_dict().items())
    }
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    save_tokenizer(tokenizer, folder)


def read_mtp_head(folder: Path, shape: Shape) -> MtpHead:
    """Load the MTP head of a checkpoint in float32."""
    tensors = load_file(folder / "model.safetensors")
    head = MtpHead(shape)
    prefix = "mtp."
    head.load_state_dict(
        {n.removeprefix(prefix): t.float() for n, t in tensors.items() if n.startswith(prefix)}
    )
    return head.requires_grad_(False)
