"""The text that layers are ranked on: running text from the training side of the standard library."""

from __future__ import annotations

from pathlib import Path

from experiments.corpora.standard_library import each_training_document
from experiments.measurement.prompts import end_of_text_id, load_tokenizer

CALIBRATION_DOCUMENTS = 16
CALIBRATION_TOKENS = 512
"""Calibration text: so many training documents of so many tokens, 8,192 in all. Held-out text is left to the
evaluation."""


def calibration_documents(checkpoint: Path) -> list[tuple[int, ...]]:
    """Training text of the standard library for a checkpoint's tokenizer: token ids, one list a document.

    The first modules by name that are long enough, each from its beginning; no sample of all of them.
    """
    tokenizer = load_tokenizer(checkpoint)
    end = end_of_text_id(tokenizer)
    found: list[tuple[int, ...]] = []
    for document in each_training_document():
        ids = tokenizer.encode(document.text).ids[:CALIBRATION_TOKENS]
        if len(ids) == CALIBRATION_TOKENS:
            found.append(tuple(ids) if end is None else (end, *ids[:-1]))
        if len(found) == CALIBRATION_DOCUMENTS:
            break
    return found
