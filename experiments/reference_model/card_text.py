"""The model card as Markdown, from the figures of `card.json`."""

from typing import Any

from experiments.card_lines import FINGERPRINT_DIGITS, paragraph
from experiments.corpora.standard_library import HELD_OUT_ONE_IN


def render(card: dict[str, Any]) -> str:
    """Return the card as Markdown."""
    parts = (_purpose(card), _figures(card["scores"]), _scoring(card["scores"]), _making(card["training"]))
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _purpose(card: dict[str, Any]) -> list[str]:
    """Return what the model is and is not."""
    shape = card["training"]["shape"]
    text = paragraph(
        f"A small trained hybrid of Qwen3.5's architecture: {shape['layers']} layers, GatedDeltaNet and",
        f"gated attention 3:1, hidden size {shape['hidden']}, GatedDeltaNet with",
        f"{shape['gdn_key_heads']} key and {shape['gdn_value_heads']} value heads, tied embeddings,",
        "one MTP layer (`mtp.*`);",
        f"{card['weight_bytes']:,} bytes in bfloat16. It exists so that quality, quantization, pruning and",
        "acceptance mean something without a download. It writes text that looks like Python and is of no",
        "other use. A result measured on it is no statement about Qwen3.5.",
    )
    return ["# The reference model of autoinfer", "", text]


def _figures(scores: dict[str, Any]) -> list[str]:
    """Return the table of scores."""
    held_out, xz, instructions = scores["held_out"], scores["xz_bits_per_byte"], scores["instructions"]
    rows = {
        f"held-out bits per byte, {held_out['documents']} documents": f"{held_out['bits_per_byte']:.4f}",
        f"the same, the first {held_out['subset_bytes']:,} bytes": f"{held_out['subset_bits_per_byte']:.4f}",
        "`xz -9e` on the held-out modules": f"{xz['held_out_modules']:.3f}",
        "`xz -9e` on training and held-out modules together": f"{xz['whole_text']:.3f}",
        f"instruction score, {instructions['items']} held-out items, exact": f"{instructions['score']:.1%}",
    }
    rows |= {f"instruction score: {kind}": f"{share:.0%}" for kind, share in instructions["by_kind"].items()}
    lengths = scores.get("acceptance_length_k1", {})
    rows |= {f"acceptance length, k = 1, greedy: {name}": f"{mean:.3f}" for name, mean in lengths.items()}
    return ["| figure | value |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items())]


def _scoring(scores: dict[str, Any]) -> list[str]:
    """Return how the figures came about."""
    versions, held_out = scores["scored_with"], scores["held_out"]
    fingerprint = held_out["fingerprint"][:FINGERPRINT_DIGITS]
    text = paragraph(
        f"Python {versions['python']}, torch {versions['torch']},",
        f"transformers {versions['transformers']}, on a CPU, {versions['dtype']}.",
        "Held-out documents are slices of the standard library's held-out modules",
        f"(one in {HELD_OUT_ONE_IN}, by a hash of the name), {held_out['bytes']:,} bytes,",
        f"each scored alone after `<|endoftext|>`; fingerprint `{fingerprint}`.",
        "The text differs a little between Python versions, and so does the figure.",
        "Acceptance length: tokens that a step yields when the MTP head drafts one;",
        "128 tokens are decoded greedily from each of up to 32 held-out prompts a class.",
        "Greedy text of so small a model soon repeats itself, and repetition is easy to draft.",
    )
    return ["## How it was scored", "", text]


def _making(training: dict[str, Any]) -> list[str]:
    """Return how the model was trained, on what."""
    library, versions = training["data"]["standard_library"], training["versions"]
    run = paragraph(
        f"`autoinfer reference train`: seed {training['seed']}, {training['steps_done']:,} steps,",
        f"{training['tokens_seen']:,} tokens in windows of {training['plan']['length']:,};",
        f"{training['training_s']:.0f} s of training after {training['reading_s']:.0f} s of reading, on one",
        f"{training['hardware']}, torch {versions['torch']}, Python {versions['python']}.",
    )
    text = paragraph(
        f"Text: the standard library's training modules ({library['bytes']:,} bytes, {library['licence']},",
        f"fingerprint `{library['fingerprint'][:FINGERPRINT_DIGITS]}`), {training['instruction_items']:,}",
        "instruction items made from them and from the packages below, and the source of these packages,",
        "less every file that shares six lines of code with a held-out module:",
    )
    packages = [
        f"| {source['name']} | {source['version']} | {source['licence']} | {source['bytes']:,} "
        f"| `{source['fingerprint'][:FINGERPRINT_DIGITS]}` |"
        for source in training["data"]["packages"]
    ]
    head = ["| package | version | licence | bytes | fingerprint |", "|---|---|---|---|---|"]
    return ["## How it was made", "", run, "", text, "", *head, *packages]
