"""What random prompts are drawn from: words that a tokenizer reads back from a text as the tokens they are.

A prompt of any tokens has no text that is read as it, and so can't go to a server as its users' prompts do.
Of words that begin with a space a tokenizer of Qwen's kind (byte-level BPE, which never joins two words)
reads each by itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from experiments.checkpoints.tokenizer_file import TOKENIZER_FILE

WORD = re.compile("Ġ[A-Za-z]+")
"""A word with the space before it, as byte-level BPE writes that."""

FEWEST = 100
"""Fewer words than this would make prompts alike."""


@lru_cache(maxsize=4)
def random_words(checkpoint: Path, vocabulary: int) -> Sequence[int]:
    """The words of the checkpoint's tokenizer, by token id; every token of the model's `vocabulary` where it
    has no tokenizer, or one without such words."""
    try:
        told = json.loads((checkpoint / TOKENIZER_FILE).read_text(encoding="utf-8"))
        tokens = dict(told["model"]["vocab"]).items()
    except (OSError, ValueError, KeyError, TypeError):
        return range(vocabulary)
    words = sorted(number for token, number in tokens if WORD.fullmatch(token) and number < vocabulary)
    return tuple(words) if len(words) >= FEWEST else range(vocabulary)
