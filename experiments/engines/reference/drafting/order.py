"""What a configuration says of drafting, checked without loading any weights. Imports no torch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.checkpoints.tokenizer_file import TOKENIZER_FILE
from experiments.drafters.dflash.config import read_shape
from experiments.drafters.dflash.fitting import TargetSizes, check_same_model
from experiments.drafters.dflash.shape import DFlashShape
from experiments.drafters.packaged import packaged_drafter_path
from experiments.engines.hybrid_cache import DrafterLayers
from experiments.engines.port import Infeasible
from experiments.engines.reference.inspection import MTP_PREFIXES, CheckpointFiles, inspect_checkpoint
from experiments.measurement.evidence import Json
from experiments.reference_model.load import CheckpointMissing, checkpoint_fingerprint, reference_model_path
from experiments.shapes.marker import drafter_of_shape
from experiments.space.configuration import Configuration, KnobValue

METHODS = ("none", "mtp", "ngram", "draft_model", "dflash")
"""Values of `drafting.method`."""

PACKAGED = "packaged"
"""The value of `drafting.drafter` that names what comes with autoinfer, or with a shape."""

DEFAULTS: Mapping[str, KnobValue] = {
    "drafting.method": "none",
    "drafting.draft_tokens": 1,
    "drafting.drafter": PACKAGED,
    "drafting.ngram_tokens": 2,
}
"""What a configuration that lacks a knob gets; these are all the knobs."""

DRAFT_TOKENS_MAX = 7
"""Most tokens that the reference engine drafts a step, as many as its packaged drafter fills; another engine
may have a limit of its own."""

MTP_DRAFT_TOKENS_MAX = 4
"""Most tokens that an MTP head drafts, whatever the engine would let it: it is trained for one, and each
further one is drafted from its own output."""

NGRAM_TOKENS = (2, 3, 4)
"""Values of `drafting.ngram_tokens`."""


@dataclass(frozen=True)
class DraftingOrder:
    """How a launch drafts: the method, tokens drafted a step, the drafter's folder (empty where there is none
    or where the method brings its own), and the longest n-gram looked up."""

    method: str = "none"
    draft_tokens: int = 0
    drafter: str = ""
    ngram_tokens: int = 0

    @property
    def active(self) -> bool:
        """Whether anything is drafted."""
        return self.method != "none"


@dataclass(frozen=True)
class DrafterSource:
    """The folder of an external drafter, which may be trained again in place, and what is in it, as
    `checkpoint_fingerprint` names it."""

    folder: Path
    fingerprint: str

    def described(self) -> dict[str, Json]:
        """For the resolved configuration."""
        return {"folder": str(self.folder), "fingerprint": self.fingerprint}


def drafting_order(
    configuration: Configuration, *, draft_tokens_max: int = DRAFT_TOKENS_MAX
) -> DraftingOrder:
    """Read the knobs `drafting.*`. `draft_tokens_max` is the most that the engine drafts a step.

    Raises:
        Infeasible: kind `unsupported` for an unknown knob or method, kind `illegal` for a value out of range.
    """
    for knob in configuration:
        if knob.startswith("drafting.") and knob not in DEFAULTS:
            raise Infeasible("unsupported", f"There is no knob {knob}.")
    chosen = {name: configuration.get(name, value) for name, value in DEFAULTS.items()}
    method, drafter = str(chosen["drafting.method"]), str(chosen["drafting.drafter"])
    if method not in METHODS:
        raise Infeasible(
            "unsupported", f"There is no drafting.method={method}; it may be {', '.join(METHODS)}."
        )
    if method == "none":
        return DraftingOrder()
    most = min(MTP_DRAFT_TOKENS_MAX, draft_tokens_max) if method == "mtp" else draft_tokens_max
    may_be = f"with drafting.method={method} it may be 1 to {most}"
    draft_tokens = _among(chosen, "drafting.draft_tokens", range(1, most + 1), may_be)
    ngram_tokens = 0
    if method == "ngram":
        may_be = f"it may be {', '.join(map(str, NGRAM_TOKENS))}"
        ngram_tokens = _among(chosen, "drafting.ngram_tokens", NGRAM_TOKENS, may_be)
    return DraftingOrder(
        method, draft_tokens, drafter if method in ("draft_model", "dflash") else "", ngram_tokens
    )


def _among(chosen: Mapping[str, KnobValue], knob: str, numbers: Sequence[int], may_be: str) -> int:
    """The knob's value, which must be one of these numbers; `may_be` says which, as a clause."""
    value = chosen[knob]
    if isinstance(value, bool) or not isinstance(value, int) or value not in numbers:
        raise Infeasible("illegal", f"{knob} is {value!r}; {may_be}.")
    return value


def check_drafter(order: DraftingOrder, target: CheckpointFiles, *, built_here: bool = True) -> None:
    """Whether this checkpoint can be drafted for in this way, from headers and tokenizers alone.

    `built_here` tells that this package's own network runs what drafts, not an engine's. Whether a DFlash
    drafter fits the layers is known with the weights that are served, which may have fewer.

    Raises:
        Infeasible: kind `illegal` when the target has no MTP head, the drafter has another vocabulary, or
        drafts fewer tokens than are asked for; kind `checkpoint` when it is missing, broken, none for this
        method or of another hidden size; kind `unsupported` for one that is not run here.
    """
    if order.method == "mtp" and not any(name.startswith(MTP_PREFIXES) for name in target.tensors):
        raise Infeasible(
            "illegal",
            f"The checkpoint at {target.folder} has no MTP head (no mtp.* tensors); "
            "draft with another method, or with a checkpoint that has one.",
        )
    if order.method == "draft_model":
        drafter = inspect_checkpoint(drafter_folder(order, target.folder))
        _check_same_vocabulary("draft model", drafter.folder, drafter.text_config.get("vocab_size"), target)
    if order.method == "dflash":
        folder = drafter_folder(order, target.folder)
        shape = read_shape(folder, built_here=built_here)
        _check_same_vocabulary("drafter", folder, shape.vocabulary, target)
        check_same_model(shape, TargetSizes.of(target.text_config), folder)
        check_block(order.draft_tokens, shape.block_tokens, folder)


def check_block(draft_tokens: int, block_tokens: int, drafter: Path) -> None:
    """Whether a DFlash drafter fills so many tokens with one block, whose first is the last known one.

    Raises:
        Infeasible: kind `illegal`, when it does not, with how many it does.
    """
    most = block_tokens - 1
    if draft_tokens > most:
        raise Infeasible(
            "illegal",
            f"drafting.draft_tokens is {draft_tokens}; the drafter at {drafter} drafts {most} tokens at "
            f"once, so it may be 1 to {most}.",
        )


def drafter_folder(order: DraftingOrder, target: Path | None = None) -> Path:
    """The folder of a draft model or DFlash drafter for the checkpoint `target`. `packaged` is the reference
    model, or its drafter, and of a shape the DFlash drafter that it brings.

    Raises:
        Infeasible: kind `checkpoint`, when this installation came without it.
    """
    if order.drafter != PACKAGED:
        return Path(order.drafter).expanduser()
    if order.method == "dflash" and target is not None and (own := drafter_of_shape(target)) is not None:
        return own
    try:
        return packaged_drafter_path() if order.method == "dflash" else reference_model_path()
    except CheckpointMissing as missing:
        raise Infeasible("checkpoint", str(missing)) from None


def drafter_layers(order: DraftingOrder, target: Path | None = None) -> DrafterLayers | None:
    """The layers of attention of a DFlash drafter for the checkpoint `target`; None of another way to draft.
    Raises `Infeasible` for one that can't be read."""
    if order.method != "dflash":
        return None
    return layers_of(read_shape(drafter_folder(order, target), built_here=False))


def layers_of(drafter: DFlashShape) -> DrafterLayers:
    """The layers of a DFlash drafter, which are all of attention."""
    return DrafterLayers(drafter.layers, drafter.kv_heads, drafter.head_size)


def drafter_source(order: DraftingOrder, target: Path | None = None) -> DrafterSource:
    """Where the weights of a draft model or DFlash drafter for the checkpoint `target` come from, and what
    they are now.

    Raises:
        Infeasible: kind `checkpoint`, when there are none.
    """
    folder = drafter_folder(order, target)
    try:
        return DrafterSource(folder, checkpoint_fingerprint(folder))
    except CheckpointMissing as missing:
        raise Infeasible("checkpoint", str(missing)) from None


def _check_same_vocabulary(what: str, folder: Path, entries: object, target: CheckpointFiles) -> None:
    """A drafter must mean the same by each token id as its target; where either has no tokenizer the number
    of entries decides alone. `what` is how a sentence calls the drafter.

    Raises:
        Infeasible: kind `illegal`, when it does not.
    """
    wanted = target.text_config.get("vocab_size")
    if entries != wanted:
        raise Infeasible(
            "illegal",
            f"The {what} at {folder} has a vocabulary of {entries} tokens and its target one of {wanted}; "
            f"a {what} must share the target's vocabulary.",
        )
    tokenizers = [_tokens(each / TOKENIZER_FILE) for each in (folder, target.folder)]
    if None not in tokenizers and tokenizers[0] != tokenizers[1]:
        raise Infeasible(
            "illegal",
            f"The {what} at {folder} has another tokenizer than its target; "
            f"a {what} must share the target's vocabulary.",
        )


def _tokens(path: Path) -> Mapping[str, Any] | None:
    """The part of a tokenizer that gives tokens their ids; None where there is no tokenizer."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return {"model": data["model"], "added": data.get("added_tokens", [])}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as cause:
        raise Infeasible("checkpoint", f"{path} can't be read: {cause}.") from None
