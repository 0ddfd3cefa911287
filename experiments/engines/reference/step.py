"""The decode step as a function of tensors of fixed shape, so that it can be compiled once and for all.

One step reads one token, or, with drafting, a known token and drafts of those after it. The forward is made
of transformers' own modules and weights; only two things are ours, because a compiler and drafting need them
so: attention keeps keys and values in buffers of a fixed *capacity* (the most tokens of context) instead of
a cache that grows, and GatedDeltaNet layers give their state after each token (`gated_delta.py`). Decoding
without drafting is the step of one token, so what drafting changes is drafting alone.

Of the tokens read a draft stands when it is the target's greedy token and all before it stand; the target's
token after the last that stands is one more. So a step yields one token at least (Leviathan et al., arXiv
2211.17192, the greedy case). An MTP head, where one drafts, runs in the same forward: a step is one call.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM

from experiments.cache_keyword import with_cache
from experiments.engines.reference.attention import KeyValueBuffers, visible
from experiments.engines.reference.checkpoint import layer_kinds
from experiments.engines.reference.gated_delta import gated_delta_tokens
from experiments.engines.reference.mtp_head import MtpHead


class DecodeStep(nn.Module):
    """Read tokens; give logits, how many drafts stand, and new drafts where there is an MTP head.

    `forward(tokens, position, *state)`: `tokens` int64 `[1, tokens]`, the known one and the drafts;
    `position` int64 `[]`, where the known one stands; `state` as `SequenceState.inputs` gives it, whose keys
    and values are changed in place. Returns

    - a report, int64 `[1 + tokens + drafts]`: how many drafts stand, the greedy token after each token, and
      what the head drafts to follow those that stand (`tokens − 1` of them; none without a head);
    - the logits, `[tokens, vocabulary]`;
    - the outputs of `feature_layers` joined, `[tokens, layers · hidden]`, where there are any;
    - for each GatedDeltaNet layer the rows and states of `gated_delta_tokens`.
    """

    def __init__(
        self,
        model: Qwen3_5ForCausalLM,
        capacity: int,
        tokens: int = 1,
        head: MtpHead | None = None,
        feature_layers: tuple[int, ...] = (),
    ) -> None:
        super().__init__()
        self.model = model
        self.head = head
        self.capacity = capacity
        self.tokens = tokens
        self.feature_layers = feature_layers

    def forward(self, tokens: Tensor, position: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        """See the class."""
        hidden, features, gated_delta = self.trunk(tokens, position, *state)
        logits = self.model.lm_head(hidden)[0]
        best = logits.argmax(-1)
        standing = (best[:-1] == tokens[0, 1:]).to(torch.long).cumprod(0).sum()
        report = [standing.view(1), best]
        if self.head is not None:
            report.append(self.draft(hidden, best, standing, position, state[-2], state[-1]))
        return (torch.cat(report), logits, *features, *gated_delta)

    def trunk(
        self, tokens: Tensor, position: Tensor, *state: Tensor
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Final hidden states after the norm `[1, tokens, hidden]`, the features (one tensor or none), and
        the rows and states of each GatedDeltaNet layer."""
        body = self.model.model
        places = position + torch.arange(self.tokens, device=tokens.device)
        hidden = body.embed_tokens(tokens)
        rotary = body.rotary_emb(hidden, places.expand(3, 1, -1))
        mask = visible(places, self.capacity)
        read: dict[int, Tensor] = {}
        gated_delta: list[Tensor] = []
        for index, kind in enumerate(layer_kinds(self.model)):
            layer, first, second = body.layers[index], state[2 * index], state[2 * index + 1]
            normed = layer.input_layernorm(hidden)
            if kind == "linear_attention":
                mixed, rows, states = gated_delta_tokens(layer.linear_attn, normed, first, second)
                gated_delta += [rows, states]
            else:
                mixed, _ = layer.self_attn(
                    hidden_states=normed,
                    position_embeddings=rotary,
                    attention_mask=mask,
                    **with_cache(KeyValueBuffers(places, {index: (first, second)})),
                )
            hidden = hidden + mixed
            hidden = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
            if index in self.feature_layers:
                read[index] = hidden[0]
        features = [torch.cat([read[index] for index in self.feature_layers], dim=-1)] if read else []
        return body.norm(hidden), features, gated_delta

    def draft(
        self, hidden: Tensor, best: Tensor, standing: Tensor, position: Tensor, keys: Tensor, values: Tensor
    ) -> Tensor:
        """The head's drafts after the tokens that stand, int64 `[tokens − 1]`.

        The head reads every position, since the token after it is the target's own wherever it stands; what
        it writes at the others is written again in the next step. From the last position that stands it goes
        on with its own hidden states.
        """
        assert self.head is not None
        output = self.head(self.model, hidden, best[None], position, keys, values)
        return self.draft_on(output.index_select(1, standing.view(1)), position + standing, keys, values)

    def draft_on(self, output: Tensor, position: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Drafts from the head's output at a position, `[1, 1, hidden]`, as `draft` gives them."""
        assert self.head is not None
        drafts = [self.model.lm_head(output)[0].argmax(-1)]
        for further in range(1, self.tokens - 1):
            output = self.head(self.model, output, drafts[-1][None], position + further, keys, values)
            drafts.append(self.model.lm_head(output)[0].argmax(-1))
        return torch.cat(drafts)
