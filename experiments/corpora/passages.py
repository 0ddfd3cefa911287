"""Finds long passages that two texts share, so that vendored copies of held-out modules are never trained on.

A passage is six lines of code in a row, stripped of indentation, blank lines and comment lines left out.
Comments are left out because licence headers are shared by files that have nothing else in common;
indentation is, because a copy inside a class is still a copy.
"""

import hashlib
from collections.abc import Set

PASSAGE_LINES = 6
"""Lines of a passage: long enough that two authors don't write the same by chance."""

PASSAGE_MIN_CHARS = 120
"""Six closing brackets are no passage: its text must have this many characters."""


def passage_hashes(text: str) -> set[int]:
    """Return a 64-bit hash of every passage of the text."""
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    hashes = set()
    for start in range(len(lines) - PASSAGE_LINES + 1):
        passage = "\n".join(lines[start : start + PASSAGE_LINES])
        if len(passage) >= PASSAGE_MIN_CHARS:
            hashes.add(int.from_bytes(hashlib.blake2b(passage.encode(), digest_size=8).digest(), "big"))
    return hashes


def shares_passage(text: str, hashes: Set[int]) -> bool:
    """Tell whether the text has a passage whose hash is among `hashes`."""
    return not hashes.isdisjoint(passage_hashes(text))
