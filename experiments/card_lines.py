"""How the card of a model or a drafter sets its text."""

from __future__ import annotations

import textwrap

FINGERPRINT_DIGITS = 16
"""Hexadecimal digits of a fingerprint that the text shows; `card.json` has all of them."""

TEXT_WIDTH_CHARS = 110
"""Width of the lines of running text."""


def paragraph(*pieces: str) -> str:
    """Join the pieces of a paragraph and break its lines."""
    return textwrap.fill(" ".join(pieces), TEXT_WIDTH_CHARS, break_on_hyphens=False, break_long_words=False)
