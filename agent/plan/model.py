"""What is known of a model before its weights are loaded, or even here: its shape, and how it is stored."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.ground.checkpoint import Checkpoint, find_checkpoint
from agent.ground.stored_spec import REFERENCE
from configs.catalog import Kind, packaged_names
from configs.models import ModelProfile, load_model_profile
from experiments.checkpoints.hub import missing_files
from experiments.engines.port import Infeasible
from experiments.engines.reference.inspection import CONFIG_FILE, QUANTIZATION_KEYS, inspect_checkpoint
from experiments.engines.reference.packed_layout import stored_quantized, unread_layout
from experiments.engines.reference.shape import read_profile
from experiments.engines.reference.stored_weights import bytes_by_part

NOT_SERVED = ("vision", "mtp")
"""Parts of a checkpoint that serving its text without drafting leaves out."""

SHAPE_FILES = (".yaml", ".yml")


@dataclass(frozen=True)
class ModelFound:
    """A model as far as it is known.

    `checkpoint` is None for a packaged shape, which has no weights anywhere. `whole` tells that its weights
    are here; `stored_bytes` are those of weights that are quantized as they are stored, `file_bytes` those
    of all weight files (None: not known). `unread` says how they are stored where no stage of ours reads it.
    """

    asked: str
    profile: ModelProfile
    checkpoint: Checkpoint | None = None
    whole: bool = False
    quantized: bool = False
    stored_bytes: int | None = None
    file_bytes: int | None = None
    unread: str | None = None

    @property
    def folder(self) -> Path | None:
        """The folder of a checkpoint whose weights are here."""
        return self.checkpoint.folder if self.checkpoint is not None and self.whole else None

    @property
    def name(self) -> str:
        """The model in a sentence: as it was asked for, with the commit that this is."""
        commit = None if self.checkpoint is None else self.checkpoint.commit
        return self.asked if commit is None or commit in self.asked else f"{self.asked}, commit {commit}"


def find_model(asked: str) -> ModelFound:
    """What is known of a packaged shape, a folder or a model of the hub, of which no weights are fetched.

    Raises `AutoinferError` with what to do for what is not there or is no Qwen3.5.
    """
    if asked != REFERENCE and (asked in packaged_names(Kind.MODELS) or asked.endswith(SHAPE_FILES)):
        return ModelFound(asked, load_model_profile(asked))
    return model_at(asked, find_checkpoint(asked, weights=False))


def model_at(asked: str, checkpoint: Checkpoint) -> ModelFound:
    """What is known of a checkpoint that was found; raises as `find_model`."""
    folder = checkpoint.folder
    profile = read_profile(folder).model_copy(update={"name": asked})
    if missing_files(folder):
        told = _told_quantization(folder)
        size, stored = checkpoint.weight_bytes, None if told is None else checkpoint.weight_bytes
        return ModelFound(
            asked, profile, checkpoint, False, told is not None, stored, size, unread_layout(told)
        )
    size = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    try:
        files = inspect_checkpoint(folder)
        quantized = stored_quantized(files)
        parts = bytes_by_part(files) if quantized else {}
    except Infeasible:  # what is wrong with it is told by the check of a campaign
        return ModelFound(asked, profile, checkpoint, True, file_bytes=size)
    served = sum(size for part, size in parts.items() if part not in NOT_SERVED)
    unread = unread_layout(files.quantization)
    return ModelFound(asked, profile, checkpoint, True, quantized, served or None, size, unread)


def _told_quantization(folder: Path) -> dict[str, Any] | None:
    """What config.json tells of quantized weights."""
    config = json.loads((folder / CONFIG_FILE).read_bytes())
    text = config.get("text_config", config)
    told = (config.get(key) or text.get(key) for key in QUANTIZATION_KEYS)
    return next((each for each in told if isinstance(each, dict)), None)
