"""Reasons in short: the first statement of a sentence, with its figure. Pure."""

from __future__ import annotations

import re

_FIGURE = re.compile(r"(?<![\w.=-])[−+]?\d+(?:[.,]\d+)*(?![\w=])")
"""A number that stands for itself: none of a label (`H-012`), a name (`g32`) or a value (`bits=4`)."""

_DEEPER = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}


def first_statement(text: str) -> str:
    """The text up to the semicolon after its first statement with a figure; after its first statement where
    none has one. What stands in parentheses is one statement with what it is about."""
    parts, depth = [""], 0
    for sign in text:
        depth = max(0, depth + _DEEPER.get(sign, 0))
        if sign == ";" and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    last = next((place for place, part in enumerate(parts) if _FIGURE.search(part)), 0)
    return ";".join(parts[: last + 1]).rstrip()
