"""Writes the card of a drafter: how it was made, and how much of its drafts the target accepts.

`card.json` holds the figures for programs, `README.md` says the same to people. Both are made from what the
recipe noted (`training.json`) and from measuring the folder as it stands, so that the card speaks of the
rounded weights.
"""

from __future__ import annotations

import hashlib
import json
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from experiments.corpora.instructions import held_out_items
from experiments.drafters.dflash.acceptance import acceptance_by_class
from experiments.drafters.dflash.card_text import render
from experiments.drafters.dflash.files import WEIGHT_FILE, read_drafter
from experiments.drafters.dflash.target import fitted, load_target
from experiments.reference_model.load import checkpoint_fingerprint
from experiments.reference_model.recipe import hardware_name
from experiments.reference_model.scores import CONTINUATION_TOKENS, PROMPT_TOKENS, PROMPTS_PER_CLASS
from experiments.stages.pruning.layer_removal import KEPT_LAYERS

TRAINING_FILE = "training.json"
"""What the recipe noted while it trained."""

CARD_FILE = "card.json"
"""The figures of the card."""

INSTRUCTION_ITEMS = 320
"""Held-out items from which chats of five are made: enough for `PROMPTS_PER_CLASS` of them."""


def write_card(folder: Path, card: dict[str, Any]) -> None:
    """Write `card.json` and `README.md` into a drafter's folder; files of that name are replaced."""
    (folder / CARD_FILE).write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")
    (folder / "README.md").write_text(render(card), encoding="utf-8")


def measure(
    folder: Path, checkpoint: Path, device: torch.device, rows: int = PROMPTS_PER_CLASS
) -> dict[str, Any]:
    """Measure the drafter in `folder` beside a target and return the card's figures; write nothing.

    A target that was pruned here tells which layers it kept.

    Args:
        rows: prompts of each content class at most. About a minute on two cores at the default.

    Raises:
        Infeasible: kind `checkpoint`, when one of them can't be loaded or they don't fit.
    """
    network = read_drafter(folder)
    target = load_target(checkpoint, device)
    network = fitted(network, target.model, folder, getattr(target.model.config, KEPT_LAYERS, None))
    acceptance = acceptance_by_class(network, target, held_out_items(INSTRUCTION_ITEMS), rows)
    card: dict[str, Any] = {
        "shape": asdict(network.shape),
        "parameters": sum(each.numel() for each in network.parameters()),
        "weights_sha256": hashlib.sha256((folder / WEIGHT_FILE).read_bytes()).hexdigest(),
        "weight_bytes": (folder / WEIGHT_FILE).stat().st_size,
        "acceptance": {name: asdict(each) for name, each in acceptance.items()},
        "measured_with": {
            "target_fingerprint": checkpoint_fingerprint(checkpoint),
            "prompts_per_class": rows,
            "prompt_tokens": PROMPT_TOKENS,
            "continuation_tokens": CONTINUATION_TOKENS,
            "hardware": hardware_name(device),
            "dtype": str(target.model.dtype).removeprefix("torch."),
            "python": platform.python_version(),
            "torch": torch.__version__,
        },
    }
    if (folder / TRAINING_FILE).is_file():
        card["training"] = json.loads((folder / TRAINING_FILE).read_text(encoding="utf-8"))
    return card
