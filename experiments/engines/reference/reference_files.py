"""The arrays in which a reference's distributions are stored, and how large they are; without torch."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

FULL_VOCABULARY_MAX = 8192
"""Largest vocabulary whose whole distributions are stored."""

TOP_TOKENS = 64
"""Tokens kept of a row of a larger vocabulary."""


@dataclass(frozen=True)
class StoredArray:
    """One array: its file's name without suffix, its items a row (None: one, without an axis), their type."""

    name: str
    width: int | None
    kind: str

    def shape(self, rows: int) -> tuple[int, ...]:
        """Its shape with so many rows."""
        return (rows,) if self.width is None else (rows, self.width)


def arrays_of(vocabulary: int) -> tuple[StoredArray, ...]:
    """The arrays of a reference over so many tokens: the layout `full`, or `top`."""
    if vocabulary <= FULL_VOCABULARY_MAX:
        return (StoredArray("log_probs", vocabulary, "float16"),)
    return (
        StoredArray("top_ids", TOP_TOKENS, "int32"),
        StoredArray("top_log_probs", TOP_TOKENS, "float16"),
        StoredArray("rest_mass", None, "float32"),
    )


def reference_bytes(vocabulary: int, rows: int) -> int:
    """Bytes of the arrays of a reference of so many rows, without the files' headers."""
    return sum(prod(each.shape(rows)) * np.dtype(each.kind).itemsize for each in arrays_of(vocabulary))
