"""The file of a checkpoint's tokenizer, and what is said where it is missing, by whoever needs it. Pure."""

from __future__ import annotations

from pathlib import Path

TOKENIZER_FILE = "tokenizer.json"

SAVE_TOKENIZER = "Save the tokenizer beside the weights, as save_pretrained does"
"""What to do where there is none; without a full stop."""


def no_tokenizer(checkpoint: Path) -> str:
    """That a checkpoint has no tokenizer, in a sentence."""
    return f"The checkpoint at {checkpoint} has no {TOKENIZER_FILE}."
