"""What a decode loop needs of a drafter that reads the target's hidden states, and how to get one.

The loop asks for a draft, lets the target verify it, and comes back with the hidden states of the positions
that stood. Nothing here imports torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor
    from transformers.models.qwen3_5 import Qwen3_5ForCausalLM


class HiddenStateDrafter(Protocol):
    """Drafts a block at once from the target's hidden states; holds the state of one sequence."""

    @property
    def target_layer_ids(self) -> tuple[int, ...]:
        """The target's layers, from 0, after which the residual stream is read, in the order of features.

        They are places in the loaded target: after depth pruning, already remapped. The last layer's stream
        is read before the final norm (transformers' `hidden_states[-1]` is after it: hook the layer).
        """
        ...

    @property
    def block_tokens(self) -> int:
        """Tokens of a block: the last known one and `block_tokens - 1` drafted ones."""
        ...

    @property
    def parameters(self) -> int:
        """Weights of its own, embedding and head not counted: they are the target's."""
        ...

    def reset(self) -> None:
        """Forget the sequence; the next `propose` begins at position 0."""
        ...

    def propose(self, last_token_id: int, features: Tensor, position: int) -> list[int]:
        """Draft the `block_tokens - 1` tokens after the last known one; a caller may verify fewer.

        Args:
            last_token_id: the newest token, which the target has not read yet.
            features: the streams of the target's layers, joined in the order of `target_layer_ids`, of the
                positions read since the last call, `[new positions, len(target_layer_ids) * hidden]`.
            position: where the newest token stands, which is also the number of positions before it; the
                features are those of `position - len(features)` up to `position - 1`. What was kept of that
                range before is replaced, and what was kept beyond it forgotten, so a rolled-back position is
                simply given again.

        Raises:
            ValueError: the features have another width, or positions before them were never given.
        """
        ...


def load_drafter(
    path: Path, target: Qwen3_5ForCausalLM, kept_layers: Sequence[int] | None = None
) -> HiddenStateDrafter:
    """Load the drafter in a folder for this target, on the target's device and in its dtype.

    Args:
        path: a folder with `config.json` (architecture `DFlashDraftModel`) and safetensors.
        target: gives embedding and head.
        kept_layers: after depth pruning, which layers of the model that the drafter was trained for are left,
            in order; None when it is whole.

    Raises:
        Infeasible: kind `checkpoint`, when the folder holds no readable drafter, or one for another target.
    """
    from experiments.drafters.dflash.drafter import DFlashDrafter

    return DFlashDrafter.load(path, target, kept_layers)
