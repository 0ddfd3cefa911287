"""The card of a drafter for people, as Markdown. Imports no torch: a card is shown at once."""

from __future__ import annotations

from typing import Any

from experiments.card_lines import FINGERPRINT_DIGITS, paragraph


def render(card: dict[str, Any]) -> str:
    """Return the card as Markdown."""
    parts = [_purpose(card), _figures(card), _measuring(card)]
    if "training" in card:
        parts.append(_making(card["training"]))
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _purpose(card: dict[str, Any]) -> list[str]:
    shape, measured = card["shape"], card["measured_with"]
    text = paragraph(
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
    note = paragraph(
        "Tokens a step count the one that the target says itself: 1 is no use. A column gives the share of",
        "steps in which that draft was accepted, with all before it. No claim about speed is made.",
    )
    return ["## Acceptance", "", head, "|---" * (3 + drafted) + "|", *rows, "", note]


def _measuring(card: dict[str, Any]) -> list[str]:
    how = card["measured_with"]
    text = paragraph(
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
    run = paragraph(
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
    text = paragraph(
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
