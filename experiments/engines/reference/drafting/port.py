"""The drafter's port: what the decode loop asks of whatever drafts tokens. Imports no torch itself.

For each request the loop calls `begin` once, and then in turn `propose` and, when the target has verified the
drafts, `advance`. A drafter holds the state of one sequence and takes itself back to what stands; its drafts
decide how fast the text comes, never what it says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from experiments.measurement.evidence import Json

if TYPE_CHECKING:
    from torch import Tensor

    from experiments.engines.reference.decode import Prefilled


@dataclass(frozen=True)
class Outcome:
    """What a verification step gave: the drafts that stand and the target's own token after them (`tokens`,
    at least one), the MTP head's drafts for what follows where one runs in the step, and the features of the
    tokens that were read and stay (the last known token and the drafts that stand), if asked for."""

    tokens: tuple[int, ...]
    drafts: tuple[int, ...]
    features: Tensor | None


class Drafter(Protocol):
    """Drafts what a target may say next."""

    def prepare(self, tokens: int) -> None:
        """Make ready for sequences of so many tokens, prompt included; may compile."""
        ...

    def begin(self, prompt_ids: Sequence[int], first: int, prefilled: Prefilled) -> None:
        """A new sequence: its prompt, the target's first token after it, and what the prefill gave."""
        ...

    def propose(self) -> Sequence[int]:
        """Draft the tokens after the last known one; none when there is nothing to go by."""
        ...

    def advance(self, outcome: Outcome) -> None:
        """The target has verified the drafts proposed last."""
        ...

    def step_weight_bytes(self) -> int:
        """Bytes of weights read to draft for one step."""
        ...

    def describe(self) -> Mapping[str, Json]:
        """What drafts, for the resolved configuration: `parameters`, `weight_bytes` and what is its own."""
        ...
