"""The order that the reference engine gives its server; see `experiments.engines.messages`. Imports no
torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from experiments.engines.port import Infeasible
from experiments.engines.reference.drafting.order import PACKAGED, DraftingOrder
from experiments.reference_model.load import CheckpointMissing, reference_model_path


@dataclass(frozen=True)
class LaunchOrder:
    """The first line to a server: what to load and how. Paths are text; a `checkpoint` that is `packaged` is
    the reference model of the installation that serves. `threads` are intra-op; what begins with `draft` is
    as in `drafting.order.DraftingOrder`."""

    checkpoint: str
    device: str
    dtype: str
    threads: int
    compile: str
    cache_dir: str
    drafting_method: str = "none"
    draft_tokens: int = 0
    drafter: str = ""
    ngram_tokens: int = 0

    @property
    def folder(self) -> Path:
        """The folder of the checkpoint.

        Raises:
            Infeasible: kind `checkpoint`, when it is the packaged one and this installation came without it.
        """
        if self.checkpoint != PACKAGED:
            return Path(self.checkpoint)
        try:
            return reference_model_path()
        except CheckpointMissing as missing:
            raise Infeasible("checkpoint", str(missing)) from None

    @property
    def drafting(self) -> DraftingOrder:
        """How it drafts."""
        return DraftingOrder(self.drafting_method, self.draft_tokens, self.drafter, self.ngram_tokens)
