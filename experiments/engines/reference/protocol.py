"""The order that the reference engine gives its server; see `experiments.engines.messages`. Imports no
torch."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.engines.reference.drafting.order import DraftingOrder


@dataclass(frozen=True)
class LaunchOrder:
    """The first line to a server: what to load and how. Paths are text; `threads` are intra-op; what begins
    with `draft` is as in `drafting.order.DraftingOrder`."""

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
    def drafting(self) -> DraftingOrder:
        """How it drafts."""
        return DraftingOrder(self.drafting_method, self.draft_tokens, self.drafter, self.ngram_tokens)
