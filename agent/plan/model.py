"""What is known of a model before its weights are loaded, or even here: its shape, and how it is stored."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from agent.ground.checkpoint import Checkpoint, find_checkpoint
from agent.ground.legal import packaged_drafter
from agent.ground.stored_spec import REFERENCE
from configs.catalog import Kind, packaged_names
from configs.models import ModelProfile, load_model_profile
from experiments.checkpoints.hub import missing_files
from experiments.checkpoints.hub_headers import tensor_bytes
from experiments.drafters.dflash.shape import DFlashShape
from experiments.engines.port import Infeasible
from experiments.engines.reference.inspection import inspect_checkpoint, told_quantization
from experiments.engines.reference.packed_layout import (
    packing_of,
    packing_told,
    stored_quantized,
    unread_layout,
)
from experiments.engines.reference.shape import read_profile
from experiments.engines.reference.stored_weights import as_stored, by_profile_part, bytes_by_part
from experiments.shapes.drafter import drafter_for
from experiments.space.stored_packing import StoredPacking

NOT_SERVED = ("vision", "mtp")
"""Parts of a checkpoint that serving its text without drafting leaves out."""

SHAPE_FILES = (".yaml", ".yml")

WEIGHT_SUFFIX = ".safetensors"


@dataclass(frozen=True)
class ModelFound:
    """A model as far as it is known.

    `checkpoint` is None for a packaged shape, which has no weights anywhere. `whole` tells that its weights
    are here; `stored_bytes` are those of weights that are quantized as they are stored (by part the profile
    has them), `file_bytes` those of all weight files (None: not known). `unread` says how they are stored
    where no stage of ours reads it, `packing` how they are packed where kernels can be named for that.
    """

    asked: str
    profile: ModelProfile
    checkpoint: Checkpoint | None = None
    whole: bool = False
    quantized: bool = False
    stored_bytes: int | None = None
    file_bytes: int | None = None
    unread: str | None = None
    packing: StoredPacking | None = None

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
        told = told_quantization(folder)
        size, stored = checkpoint.weight_bytes, None if told is None else checkpoint.weight_bytes
        listed = None if told is None else _listed_bytes(checkpoint)
        profile = profile if listed is None else profile.as_stored(by_profile_part(listed))
        ways = (unread_layout(told), packing_told(told, listed or ()))
        return ModelFound(asked, profile, checkpoint, False, told is not None, stored, size, *ways)
    size = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    try:
        files = inspect_checkpoint(folder)
        quantized = stored_quantized(files)
        parts = bytes_by_part(files) if quantized else {}
        profile = as_stored(profile, files)
    except Infeasible:  # what is wrong with it is told by the check of a campaign
        return ModelFound(asked, profile, checkpoint, True, file_bytes=size)
    served = sum(size for part, size in parts.items() if part not in NOT_SERVED)
    ways = (unread_layout(files.quantization), packing_of(files))
    return ModelFound(asked, profile, checkpoint, True, quantized, served or None, size, *ways)


@lru_cache(maxsize=8)
def model_in(asked: str, folder: Path) -> ModelFound:
    """As `model_at`, of a folder whose files stay as they are, as a campaign's do: read once a process."""
    return model_at(asked, Checkpoint(folder))


def packaged_with(model: ModelFound, *, made_up: bool) -> DFlashShape | None:
    """The DFlash drafter that is packaged for a model; of one whose weights are `made_up`, whose shape may
    not be written yet, the one that it brings. None where there is none."""
    if made_up:
        return drafter_for(model.profile)
    return None if model.folder is None else packaged_drafter(model.folder)


def _listed_bytes(checkpoint: Checkpoint) -> dict[str, int] | None:
    """Bytes of the tensors of a checkpoint of the hub whose weights are not here; None where the hub does not
    tell them."""
    if checkpoint.source is None or checkpoint.commit is None:
        return None
    wanted = [each for each in missing_files(checkpoint.folder) if each.endswith(WEIGHT_SUFFIX)]
    return tensor_bytes(checkpoint.source, checkpoint.commit, wanted)
