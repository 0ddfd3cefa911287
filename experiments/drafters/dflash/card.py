"""Writes the card of a drafter: how it was made, and how much of its drafts the target accepts.

`card.json` holds the figures for programs, `README.md` says the same to people. Both are made from what the
recipe noted (`training.json`) and from measuring the folder as it stands, so that the card speaks of the
rounded weights.
"""

from __future__ import annotations

import hashlib
import json
import platform
import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from experiments.corpora.instructions import held_out_items
from experiments.drafters.dflash.acceptance import acceptance_by_class
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

TEXT_WIDTH_CHARS = 110
"""Width of the lines of running text."""

FINGERPRINT_DIGITS = 16
"""Hexadecimal digits of a fingerprint that the text shows; `card.json` has all of them."""


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


def render(card: dict[str, Any]) -> str:
    """Return the card as Markdown."""
    parts = [_purpose(card), _figures(card), _measuring(card)]
    if "training" in card:
        parts.append(_making(card["training"]))
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _paragraph(*pieces: str) -> str:
    return textwrap.fill(" ".join(pieces), TEXT_WIDTH_CHARS, break_on_hyphens=False, break_long_words=False)


def _purpose(card: dict[str, Any]) -> list[str]:
    shape, measured = card["shape"], card["measured_with"]
    text = _paragraph(
        "A block-diffusion drafter (DFlash, arXiv 2602.06036), here beside the target with the fingerprint",
        f"`{measured['target_fingerprint'][:FINGERPRINT_DIGITS]}`: {shape['layers']} layers of width",
        f"{shape['hidden']}, {card['parameters']:,} weights of its own, {card['weight_bytes']:,} bytes in",
        f"bfloat16. It reads the target's layers {', '.join(map(str, shape['target_layer_ids']))} and drafts",
        f"{shape['block_tokens'] - 1} tokens in one pass; embedding and head are the target's. The format is",
        "vLLM 0.32's `DFlashDraftModel`.",
    )
    return ["# A DFlash drafter", "", text]


def _figures(card: dict[str, Any]) -> list[str]:
    drafted = card["shape"]["block_tokens"] - 1
    head = (
        "| content | steps | tokens a step | "
        + " | ".join(f"draft {place + 1}" for place in range(drafted))
        + " |"
    )
    rows = [
        f"| {name} | {each['steps']:,} | {each['tokens_per_step']:.3f} | "
        + " | ".join(f"{rate:.1%}" for rate in each["rate_by_position"])
        + " |"
        for name, each in card["acceptance"].items()
    ]
    note = _paragraph(
        "Tokens a step count the one that the target says itself: 1 is no use. A column gives the share of",
        "steps in which that draft was accepted, with all before it. No claim about speed is made.",
    )
    return ["## Acceptance", "", head, "|---" * (3 + drafted) + "|", *rows, "", note]


def _measuring(card: dict[str, Any]) -> list[str]:
    how = card["measured_with"]
    text = _paragraph(
        f"`autoinfer drafter score`: held-out prompts of {how['prompt_tokens']} tokens, up to",
        f"{how['prompts_per_class']} a class, {how['continuation_tokens']} tokens decoded greedily from",
        "each by the target alone, and the steps of greedy verification walked over that text.",
        f"{how['dtype']}, {how['hardware']}, torch {how['torch']}, Python {how['python']}; the held-out text",
        "is the standard library's and differs a little between Python versions, and so do the figures.",
        "Greedy text of a small model soon repeats itself, and repetition is easy to draft.",
    )
    return ["## How it was measured", "", text]


def _making(training: dict[str, Any]) -> list[str]:
    plan, own, data = training["plan"], training["self_text"], training["data"]
    library, versions = data["standard_library"], training["versions"]
    run = _paragraph(
        f"`autoinfer drafter train --seed {training['seed']} --steps {plan['steps']}`:",
        f"{plan['steps']:,} steps of {plan['rows']} texts of {plan['length']} tokens with up to",
        f"{plan['anchors']} blocks in each; {training['training_s']:.0f} s of training after",
        f"{training['reading_s']:.0f} s of reading and {training['writing_s']:.0f} s of letting the target",
        f"write, on one {training['hardware']}, torch {versions['torch']}, Python {versions['python']}.",
        "The labels are the target's own greedy choices. At the end the loss was",
        f"{training['last_loss_nats']:.3f} nats, and {training['last_first_right']:.1%} of first drafts were",
        "right, on training text.",
    )
    shares = ", ".join(f"{name} {share:.0%}" for name, share in training["shares"].items())
    text = _paragraph(
        f"Text, by shares: {shares}. Library: the standard library's training modules",
        f"({library['bytes']:,} bytes, {library['licence']}, fingerprint",
        f"`{library['fingerprint'][:FINGERPRINT_DIGITS]}`). Instructions:",
        f"{training['instruction_items']:,} items made from it and from the packages. Self:",
        f"{own['rows']:,} greedy continuations of {own['tokens']} tokens by the target. Packages:",
        f"{len(data['packages'])} permissively licensed ones, {data['package_tokens']:,} tokens, less every",
        "file that shares six lines of code with a held-out module; `training.json` names each with version,",
        "licence and fingerprint.",
    )
    return ["## How it was made", "", run, "", text]
