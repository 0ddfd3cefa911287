"""Drafting with the target's own MTP head: it runs within the decode step, so a step is one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from experiments.engines.reference.decode import Decoder, Prefilled
from experiments.engines.reference.drafting.port import Outcome
from experiments.engines.reference.module_bytes import bytes_of, bytes_read
from experiments.measurement.evidence import Json


class MtpDrafter:
    """Hands on what the head drafted in the last step; reads the prompt with it, which no step does."""

    def __init__(self, decoder: Decoder, draft_tokens: int) -> None:
        """`decoder` has the head."""
        self._decoder = decoder
        self._draft_tokens = draft_tokens
        self._drafts: tuple[int, ...] = ()

    def prepare(self, tokens: int) -> None:
        """Nothing: the head is part of the decoder's step."""

    def begin(self, prompt_ids: Sequence[int], first: int, prefilled: Prefilled) -> None:
        """Fill the head's keys and values for the prompt and draft from its last position."""
        step = self._decoder.step(self._draft_tokens + 1).module
        assert step.head is not None
        keys, values = prefilled.sequence.state.layers[-2:]
        device = prefilled.hidden.device
        following = torch.tensor([[*prompt_ids[1:], first]], device=device)
        output = step.head(
            self._decoder.model, prefilled.hidden, following, torch.tensor(0, device=device), keys, values
        )
        last = torch.tensor(len(prompt_ids) - 1, device=device)
        self._drafts = tuple(step.draft_on(output[:, -1:], last, keys, values).tolist())

    def propose(self) -> Sequence[int]:
        """The drafts of the last step."""
        return self._drafts

    def advance(self, outcome: Outcome) -> None:
        """Take over the drafts of this step."""
        self._drafts = outcome.drafts

    def step_weight_bytes(self) -> int:
        """The head and the target's output head, once for each token drafted; of the head's experts those of
        every token that the step read, and then those of one token."""
        assert self._decoder.head is not None
        rows = (self._draft_tokens + 1, *(self._draft_tokens - 1) * (1,))
        own = sum(bytes_read(self._decoder.head, each) for each in rows)
        return own + self._draft_tokens * bytes_of(self._decoder.model.lm_head)

    def describe(self) -> Mapping[str, Json]:
        """The head's own weights; the embedding and the output head that it shares are the target's."""
        assert self._decoder.head is not None
        return {
            "parameters": sum(weight.numel() for weight in self._decoder.head.parameters()),
            "weight_bytes": bytes_of(self._decoder.head),
            "in_step": True,
        }
