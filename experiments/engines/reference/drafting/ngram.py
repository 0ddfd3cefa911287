"""Drafting by looking up the last tokens in what was said before (prompt lookup decoding)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from experiments.engines.reference.drafting.port import Outcome
from experiments.measurement.evidence import Json

if TYPE_CHECKING:
    from experiments.engines.reference.decode import Prefilled

SHORTEST_NGRAM = 2
"""Tokens that must match at least; a single token recurs nearly always and foretells little."""


def lookup(tokens: Sequence[int], longest: int, draft_tokens: int) -> tuple[int, ...]:
    """What followed when the last tokens stood before: at most `draft_tokens` tokens, none without a match.

    Of the n-grams at the end, `longest` tokens down to two, the longest that stands earlier counts, and of
    its places the latest.
    """
    for length in range(min(longest, len(tokens) - 1), SHORTEST_NGRAM - 1, -1):
        pattern = tuple(tokens[-length:])
        for start in range(len(tokens) - length - 1, -1, -1):
            if tuple(tokens[start : start + length]) == pattern:
                return tuple(tokens[start + length : start + length + draft_tokens])
    return ()


class NgramDrafter:
    """Gives what `lookup` gives, from an index that grows with the text."""

    def __init__(self, longest: int, draft_tokens: int) -> None:
        self._longest = longest
        self._draft_tokens = draft_tokens
        self._tokens: list[int] = []
        self._after: dict[tuple[int, ...], int] = {}
        """By n-gram, the place after its latest standing that has a token after it."""

    def prepare(self, tokens: int) -> None:
        """Nothing."""

    def begin(self, prompt_ids: Sequence[int], first: int, prefilled: Prefilled | None) -> None:
        """Index the prompt."""
        self._tokens, self._after = [], {}
        self._take((*prompt_ids, first))

    def propose(self) -> Sequence[int]:
        """Look the last tokens up."""
        for length in range(min(self._longest, len(self._tokens) - 1), SHORTEST_NGRAM - 1, -1):
            place = self._after.get(tuple(self._tokens[-length:]))
            if place is not None:
                return self._tokens[place : place + self._draft_tokens]
        return ()

    def advance(self, outcome: Outcome) -> None:
        """Index what came."""
        self._take(outcome.tokens)

    def step_weight_bytes(self) -> int:
        """There are none."""
        return 0

    def describe(self) -> Mapping[str, Json]:
        """No weights."""
        return {"parameters": 0, "weight_bytes": 0, "ngram_tokens": self._longest}

    def _take(self, tokens: Sequence[int]) -> None:
        """Add tokens; each says what follows the n-grams that end before it."""
        for token in tokens:
            end = len(self._tokens)
            for length in range(SHORTEST_NGRAM, min(self._longest, end) + 1):
                self._after[tuple(self._tokens[end - length :])] = end
            self._tokens.append(token)
