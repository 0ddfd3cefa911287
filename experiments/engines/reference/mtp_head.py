"""The MTP head of a Qwen3.5 checkpoint (`mtp.*`), from transformers' own layer.

At position i it joins the trunk's final hidden state (after the norm) and the embedding of token i + 1, each
normalised, embedding first; `fc` makes of them the input of one attention layer; its normed output, through
the trunk's own head, predicts token i + 2. Fed its own output in place of the trunk's hidden state it drafts
further tokens, as vLLM does (`qwen3_5_mtp`).
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM

from experiments.cache_keyword import with_cache
from experiments.engines.port import Infeasible
from experiments.engines.reference.attention import KeyValueBuffers, visible
from experiments.engines.reference.checkpoint import read_tensors
from experiments.engines.reference.inspection import MTP_PREFIXES, CheckpointFiles
from experiments.engines.reference.joined_experts import join_experts


class MtpHead(nn.Module):
    """The head's own weights; embedding, rotary table and output head are the trunk's. Its layer is of the
    class of the trunk's, so that of a Mixture of Experts it has as many experts of its own."""

    def __init__(self, trunk: Qwen3_5ForCausalLM) -> None:
        super().__init__()
        config, layer, norm = trunk.config, type(trunk.model.layers[0]), type(trunk.model.norm)
        own = copy.deepcopy(config)
        own.num_hidden_layers, own.layer_types = 1, ["full_attention"]
        size, epsilon = config.hidden_size, config.rms_norm_eps
        self.pre_fc_norm_embedding = norm(size, eps=epsilon)
        self.pre_fc_norm_hidden = norm(size, eps=epsilon)
        self.fc = nn.Linear(2 * size, size, bias=False)
        self.layers = nn.ModuleList([layer(own, 0)])
        self.norm = norm(size, eps=epsilon)

    def forward(
        self,
        trunk: Qwen3_5ForCausalLM,
        hidden: Tensor,
        next_tokens: Tensor,
        position: Tensor,
        keys: Tensor,
        values: Tensor,
    ) -> Tensor:
        """Hidden states `[1, tokens, hidden]` whose logits predict the token after next.

        Args:
            trunk: gives embedding and rotary table.
            hidden: the trunk's final hidden states after its norm, or the head's own, `[1, tokens, hidden]`.
            next_tokens: the token that follows each of them, int64 `[1, tokens]`.
            position: where the first of them stands, int64 `[]`.
            keys: of the head's layer, `[1, kv heads, capacity, head dimensions]`; changed in place.
            values: likewise.
        """
        places = position + torch.arange(hidden.shape[1], device=hidden.device)
        joined = torch.cat(
            [
                self.pre_fc_norm_embedding(trunk.model.embed_tokens(next_tokens)),
                self.pre_fc_norm_hidden(hidden),
            ],
            dim=-1,
        )
        output = self.layers[0](
            self.fc(joined),
            position_embeddings=trunk.model.rotary_emb(hidden, places.expand(3, 1, -1)),
            attention_mask=visible(places, keys.shape[-2]),
            **with_cache(KeyValueBuffers(places, {0: (keys, values)})),
        )
        normed: Tensor = self.norm(output)
        return normed


def load_head(files: CheckpointFiles, model: Qwen3_5ForCausalLM) -> MtpHead:
    """The MTP head of a checkpoint, on the model's device and in its dtype.

    Raises:
        Infeasible: kind `illegal` when there is none, kind `checkpoint` when its tensors are not those of
        one Qwen3.5 MTP layer of the model's sizes.
    """
    state = _head_tensors(files, model.dtype)
    if not state:
        raise Infeasible(
            "illegal",
            f"The checkpoint at {files.folder} has no MTP head (no mtp.* tensors); "
            "draft with another method, or with a checkpoint that has one.",
        )
    with torch.device("meta"):
        head = MtpHead(model)
    wanted = head.state_dict()
    for name in sorted(wanted.keys() | state.keys()):
        if name not in state or name not in wanted or wanted[name].shape != state[name].shape:
            raise Infeasible(
                "checkpoint",
                f"The MTP head in {files.folder} is not one of Qwen3.5's: mtp.{name} "
                + ("is missing." if name not in state else "is unknown or has another shape."),
            )
    head.load_state_dict(state, strict=True, assign=True)
    head.requires_grad_(False)
    head.train(False)
    return head.to(model.device)


def _head_tensors(files: CheckpointFiles, dtype: torch.dtype) -> dict[str, Tensor]:
    """The head's tensors by their names within it; packed ones unpacked, experts joined."""

    def within(stored_name: str) -> str | None:
        found = (each for each in MTP_PREFIXES if stored_name.startswith(each))
        prefix = next(found, None)
        return None if prefix is None else stored_name.removeprefix(prefix)

    read = dict(read_tensors(files, dtype, lambda stored_name: within(stored_name) is not None))
    if files.has_experts:
        join_experts(read, files.text_config["num_experts"])
    return {str(within(stored_name)): tensor for stored_name, tensor in read.items()}
