"""Drafting with a DFlash drafter: a block at once, from the hidden states of some of the target's layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from experiments.drafters.port import HiddenStateDrafter
from experiments.engines.reference.drafting.order import DrafterSource, check_block
from experiments.engines.reference.drafting.port import Outcome
from experiments.measurement.evidence import Json

if TYPE_CHECKING:
    from torch import Tensor

    from experiments.engines.reference.decode import Prefilled


class DFlashAdapter:
    """Keeps the features of what was read since the last draft and hands them to the drafter."""

    def __init__(
        self, drafter: HiddenStateDrafter, draft_tokens: int, source: DrafterSource, element_bytes: int
    ) -> None:
        """`element_bytes` are those of a weight as loaded.

        Raises:
            Infeasible: kind `illegal`, when the drafter's block is shorter than the drafts asked for.
        """
        check_block(draft_tokens, drafter.block_tokens, source.folder)
        self._drafter = drafter
        self._draft_tokens = draft_tokens
        self._source = source
        self._element_bytes = element_bytes
        self._features: Tensor | None = None
        self._last = 0
        self._position = 0

    @property
    def feature_layers(self) -> tuple[int, ...]:
        """The target's layers whose outputs are read."""
        return self._drafter.target_layer_ids

    def prepare(self, tokens: int) -> None:
        """Nothing."""

    def begin(self, prompt_ids: Sequence[int], first: int, prefilled: Prefilled) -> None:
        """Forget the sequence before; keep the prompt's features."""
        self._drafter.reset()
        self._last, self._position, self._features = first, len(prompt_ids), prefilled.features

    def propose(self) -> Sequence[int]:
        """Draft a block and take of it what is to be verified."""
        assert self._features is not None, "the target's step gives no features"
        block = self._drafter.propose(self._last, self._features, self._position)
        return block[: self._draft_tokens]

    def advance(self, outcome: Outcome) -> None:
        """Keep the features of what stands."""
        self._last, self._features = outcome.tokens[-1], outcome.features
        self._position += len(outcome.tokens)

    def step_weight_bytes(self) -> int:
        """The drafter once, whatever it drafts; embedding and head are the target's."""
        return self._drafter.parameters * self._element_bytes

    def describe(self) -> Mapping[str, Json]:
        """The drafter's own weights and where they come from, its block and the layers it reads."""
        return {
            "parameters": self._drafter.parameters,
            "weight_bytes": self.step_weight_bytes(),
            **self._source.described(),
            "block_tokens": self._drafter.block_tokens,
            "target_layers": list(self._drafter.target_layer_ids),
        }
