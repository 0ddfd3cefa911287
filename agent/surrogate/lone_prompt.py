"""What the baseline's profile tells of a lone prompt up to its first token (docs/profile.md). Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FirstTokenShares:
    """Shares of the time to a first token, 0 to 1: of the layers' products, of what no kernel runs in, and of
    experts. What is left are other kernels, HTTP and a tokenizer."""

    products: float
    outside: float
    experts: float = 0.0


@dataclass(frozen=True)
class LonePrompt:
    """What a profile says of a lone prompt: ms from the request to its first token within the engine, how
    many of them no kernel runs in, and how many the layers' products and experts take."""

    first_token_ms: float
    outside_ms: float
    products_ms: float
    experts_ms: float = 0.0

    def shares(self, ttft_ms: float) -> FirstTokenShares:
        """The shares of a first token that was timed over HTTP to take so long; of the profile's own, where
        that took longer."""
        whole_ms = max(ttft_ms, self.first_token_ms)
        return FirstTokenShares(
            self.products_ms / whole_ms, self.outside_ms / whole_ms, self.experts_ms / whole_ms
        )

    @property
    def told(self) -> str:
        """What products and experts take of it, a clause."""
        experts = f" and experts {self.experts_ms:.1f}" if self.experts_ms else ""
        return (
            f"by the baseline's profile products take {self.products_ms:.1f}{experts} of the "
            f"{self.first_token_ms:.1f} ms to a lone prompt's first token"
        )
