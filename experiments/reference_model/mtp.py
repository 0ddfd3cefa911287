"""The MTP head: one more layer that drafts the token after next, as Qwen3.5 has it.

From the trunk's final hidden state at position i (after the norm) and the embedding of token i + 1, each
normalised and joined (embedding first), `fc` makes the input of one attention layer; its normed output,
through the tied embedding, predicts token i + 2. The tensor names are those of Qwen3.5's checkpoints and of
vLLM's `qwen3_5_mtp`.
"""

import torch
from torch import Tensor, nn

from experiments.reference_model.architecture import Shape
from experiments.reference_model.network import Layer, ZeroCentredNorm

MTP_TENSORS = (
    "mtp.fc.weight",
    "mtp.layers.0.input_layernorm.weight",
    "mtp.layers.0.mlp.down_proj.weight",
    "mtp.layers.0.mlp.gate_proj.weight",
    "mtp.layers.0.mlp.up_proj.weight",
    "mtp.layers.0.post_attention_layernorm.weight",
    "mtp.layers.0.self_attn.k_norm.weight",
    "mtp.layers.0.self_attn.k_proj.weight",
    "mtp.layers.0.self_attn.o_proj.weight",
    "mtp.layers.0.self_attn.q_norm.weight",
    "mtp.layers.0.self_attn.q_proj.weight",
    "mtp.layers.0.self_attn.v_proj.weight",
    "mtp.norm.weight",
    "mtp.pre_fc_norm_embedding.weight",
    "mtp.pre_fc_norm_hidden.weight",
)
"""Every tensor of the head, as a Qwen3.5 checkpoint names them."""


class MtpHead(nn.Module):
    """Drafts the token after next from the trunk's hidden states; holds no embedding of its own."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.pre_fc_norm_embedding = ZeroCentredNorm(shape.hidden)
        self.pre_fc_norm_hidden = ZeroCentredNorm(shape.hidden)
        self.fc = nn.Linear(2 * shape.hidden, shape.hidden, bias=False)
        self.layers = nn.ModuleList([Layer(shape, attention=True)])
        self.norm = ZeroCentredNorm(shape.hidden)

    def forward(self, trunk_hidden: Tensor, next_embeddings: Tensor) -> Tensor:
        """Return hidden states whose logits predict the token after next.

        Args:
            trunk_hidden: the trunk's final hidden states, after its norm, (batch, tokens, hidden).
            next_embeddings: the embedding of the token that follows each position, the same shape.
        """
        joined = torch.cat(
            [self.pre_fc_norm_embedding(next_embeddings), self.pre_fc_norm_hidden(trunk_hidden)], dim=-1
        )
        return self.norm(self.layers[0](self.fc(joined)))  # type: ignore[no-any-return]
