"""Writes the model card of a reference checkpoint: where it comes from and what it can do.

`card.json` holds the figures for programs, `README.md` says the same to people. Both are made from what the
recipe noted (`training.json`) and from scoring the file as it stands, so that the card speaks of the rounded
weights.
"""

import json
import lzma
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.corpora.instructions import KINDS, held_out_items
from experiments.corpora.standard_library import (
    LICENCE,
    Document,
    all_modules,
    fingerprint,
    held_out_documents,
    held_out_modules,
)
from experiments.measurement.content_prompts import CONTENT_CLASSES
from experiments.reference_model.card_text import render
from experiments.reference_model.load import checkpoint_fingerprint

TRAINING_FILE = "training.json"
"""What the recipe noted while it trained."""

SUBSET_BYTES = 65_536
"""Size of the fixed held-out subset whose figure a quick check compares."""

INSTRUCTION_ITEMS = 700
"""Held-out items of the card: 100 of each kind, a standard error of at most 1.9 points together."""


@dataclass(frozen=True)
class CardScale:
    """How much is scored for a card; less is for tests."""

    held_out_bytes: int | None = None
    items: int = INSTRUCTION_ITEMS
    acceptance: bool = True


def write_card(folder: Path, scale: CardScale | None = None) -> dict[str, Any]:
    """Score the checkpoint in `folder`, write `card.json` and `README.md` beside it, and return the figures.

    Takes some minutes on two cores at the default scale.
    """
    card = {
        "checkpoint_fingerprint": checkpoint_fingerprint(folder),
        "weight_bytes": (folder / "model.safetensors").stat().st_size,
        "training": json.loads((folder / TRAINING_FILE).read_text(encoding="utf-8")),
        "scores": score(folder, scale or CardScale()),
    }
    (folder / "card.json").write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")
    (folder / "README.md").write_text(render(card), encoding="utf-8")
    return card


def score(folder: Path, scale: CardScale) -> dict[str, Any]:
    """Return the figures of a checkpoint: text, compression beside it, instructions, drafting."""
    import torch
    import transformers

    from experiments.reference_model import scores

    checkpoint = scores.load_checkpoint(folder)
    documents = held_out_documents(scale.held_out_bytes)
    subset = held_out_documents(SUBSET_BYTES)
    bits = dict(
        zip((piece.name for piece in documents), scores.document_bits(checkpoint, documents), strict=True)
    )
    items = held_out_items(scale.items)
    right = scores.answers(checkpoint, items)
    by_kind = {
        kind: sum(ok for item, ok in zip(items, right, strict=True) if item.kind == kind)
        / max(1, sum(item.kind == kind for item in items))
        for kind in KINDS
    }
    figures: dict[str, Any] = {
        "scored_with": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "dtype": "float32 arithmetic on the bfloat16 weights",
        },
        "held_out": {
            "licence": LICENCE,
            "documents": len(documents),
            "bytes": text_bytes(documents),
            "fingerprint": fingerprint(documents),
            "bits_per_byte": sum(bits.values()) / text_bytes(documents),
            "subset_bytes": text_bytes(subset),
            "subset_bits_per_byte": sum(bits[piece.name] for piece in subset if piece.name in bits)
            / text_bytes([piece for piece in subset if piece.name in bits]),
        },
        "xz_bits_per_byte": {
            "held_out_modules": xz_bits_per_byte(held_out_modules()),
            "whole_text": xz_bits_per_byte(all_modules()),
        },
        "instructions": {"items": len(items), "score": sum(right) / len(right), "by_kind": by_kind},
    }
    if scale.acceptance:
        figures["acceptance_length_k1"] = {
            content: scores.acceptance_length(checkpoint, scores.content_prompts(checkpoint, content, items))
            for content in CONTENT_CLASSES
        }
    return figures


def text_bytes(documents: Sequence[Document]) -> int:
    """Return the size of all texts together, in UTF-8 bytes."""
    return sum(len(document.text.encode()) for document in documents)


def xz_bits_per_byte(documents: Sequence[Document]) -> float:
    """Return how far `xz -9e` gets on the texts joined: a yardstick that needs no model."""
    text = "".join(document.text for document in documents).encode()
    return len(lzma.compress(text, preset=9 | lzma.PRESET_EXTREME)) * 8 / len(text)
