"""Drafting with another, smaller model of the same vocabulary, decoded greedily beside the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from experiments.engines.reference.decode import Decoder
from experiments.engines.reference.drafting.order import DrafterSource
from experiments.engines.reference.drafting.port import Outcome
from experiments.engines.reference.module_bytes import bytes_of
from experiments.engines.reference.profile import weight_bytes
from experiments.measurement.evidence import Json

if TYPE_CHECKING:
    import torch

    from experiments.engines.reference.decode import Prefilled, Reading
    from experiments.engines.reference.decode import Sequence as Decoded


class DraftModelDrafter:
    """Decodes the draft model a token at a time and marks its state after each, to go back to what stands."""

    def __init__(self, decoder: Decoder, draft_tokens: int, source: DrafterSource) -> None:
        """`decoder` is the draft model's own, with steps of one token."""
        self._decoder = decoder
        self._draft_tokens = draft_tokens
        self._source = source
        self._sequence: Decoded | None = None
        self._unread: list[int] = []
        self._marks: list[tuple[int, tuple[torch.Tensor, ...]]] = []

    def prepare(self, tokens: int) -> None:
        """Build the draft model's step."""
        self._decoder.prepare(tokens)

    def begin(self, prompt_ids: Sequence[int], first: int, prefilled: Prefilled) -> None:
        """Prefill the draft model."""
        self._sequence = self._decoder.begin(prompt_ids).sequence
        self._unread = [first]

    def propose(self) -> Sequence[int]:
        """Read what is known and not yet read, then draft greedily."""
        for token in self._unread[:-1]:
            self._read(token)
        drafts: list[int] = []
        self._marks = []
        token = self._unread[-1]
        for _ in range(self._draft_tokens):
            token = self._read(token).best[0]
            drafts.append(token)
            self._marks.append(self._at.state.mark())
        return drafts

    def advance(self, outcome: Outcome) -> None:
        """Go back to the state after the last draft that stands; the last draft of all was never read."""
        standing = len(outcome.tokens) - 1
        if standing < self._draft_tokens:
            self._at.state.back_to(self._marks[standing])
            self._unread = [outcome.tokens[-1]]
        else:
            self._unread = list(outcome.tokens[-2:])

    def step_weight_bytes(self) -> int:
        """The draft model, once for each token drafted; of the embedding one row."""
        return self._draft_tokens * sum(weight_bytes(self._decoder.model).values())

    def describe(self) -> Mapping[str, Json]:
        """The draft model's weights, each counted once, and where they come from."""
        return {
            "parameters": sum(weight.numel() for weight in self._decoder.model.parameters()),
            "weight_bytes": bytes_of(self._decoder.model),
            **self._source.described(),
            "layers": self._decoder.model.config.num_hidden_layers,
        }

    @property
    def _at(self) -> Decoded:
        assert self._sequence is not None, "begin comes first"
        return self._sequence

    def _read(self, token: int) -> Reading:
        reading = self._at.read([token])
        self._at.keep(1)
        return reading
