"""What a question used: tokens that the endpoint told, and requests that may have used some and told none.

Endpoints bill what was computed, whether or not an answer arrived. So a request that was sent and not
answered (cut off, late, unreadable) counts as one that told nothing, and is bounded by who keeps the budget:
by the tokens that were sent, and the most that an answer may have. One that never left this machine, and one
that the server says it did not begin, used nothing. Pure.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

OK = 200

MAY_HAVE_RUN = frozenset({500, 502, 504})
"""Error statuses after which an answer may have been begun: a fault in the midst of it, or a proxy that lost
it. The others say that nothing was: refused (4xx), not known (501), not let in (503, 529)."""

MOST_TOKENS = 10**9
"""Tokens beyond which what a server counts is no count."""


@dataclass(frozen=True)
class Usage:
    """Tokens that requests told together, None where none did; `untold_prompts` and `untold_answers` are the
    requests that may have used some for a prompt, for an answer, and told no count."""

    prompt_tokens: int | None = None
    answer_tokens: int | None = None
    untold_prompts: int = 0
    untold_answers: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            _sum(self.prompt_tokens, other.prompt_tokens),
            _sum(self.answer_tokens, other.answer_tokens),
            self.untold_prompts + other.untold_prompts,
            self.untold_answers + other.untold_answers,
        )

    def untold(self, sent: int, longest: int) -> tuple[int, int]:
        """The most that was used and not told, tokens of prompts and of answers: a prompt counts as `sent`,
        an answer as `longest`."""
        return self.untold_prompts * sent, self.untold_answers * longest


NOTHING = Usage()
"""That of a request that never left this machine."""

UNTOLD = Usage(untold_prompts=1, untold_answers=1)
"""That of a request that was sent, and of which nothing more is known."""


def usage_of(status: int, body: bytes) -> Usage:
    """What an answer of a server says that it used, and whether it should have said so."""
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        told = None
    found = told.get("usage") if isinstance(told, dict) else None
    counts = found if isinstance(found, dict) else {}
    asked, answered = _count(counts.get("prompt_tokens")), _count(counts.get("completion_tokens"))
    may = status == OK or status in MAY_HAVE_RUN or asked is not None or answered is not None
    return Usage(asked, answered, int(may and asked is None), int(may and answered is None))


def _sum(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else one + other


def _count(value: object) -> int | None:
    """A number of tokens; None for what is none."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS:
        return value
    return None
