"""Where the checkpoint of a stored campaign lies on this machine, which need not be the one it began on."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from agent.ground.shape import find_shape
from agent.ground.stored_spec import FOUND, is_packaged
from configs.campaign import CHECKPOINT, DUMMY
from configs.catalog import Kind, packaged_names
from configs.errors import AutoinferError
from db.models import Campaign
from experiments.checkpoints.hub import cached_here, pinned_in
from experiments.engines.reference.inspection import CONFIG_FILE
from experiments.reference_model.load import (
    CheckpointMissing,
    checkpoint_fingerprint,
    reference_model_path,
)


class CheckpointElsewhere(AutoinferError):
    """The model of a stored campaign is not on this machine, so what rests on its shape can't be computed."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"The campaign's model is not on this machine ({folder} has no {CONFIG_FILE}), and what is legal "
            "and what is expected of a change can't be computed without its shape.",
            "Put the model's folder back in its place, or ask on the machine where the campaign ran.",
        )


def checkpoint_here(campaign: Campaign) -> Path:
    """The folder of a stored campaign's checkpoint on this machine; reads alone, and fetches nothing.

    It is where the campaign found it, else where this machine has the same: this installation's packaged
    model, the hub's cache, a packaged shape made anew. Where none of them is, the folder that it had.
    """
    folder = Path(campaign.spec[FOUND]["checkpoint"])
    if (folder / CONFIG_FILE).is_file():
        return folder
    asked, weights = str(campaign.spec.get("model")), str(campaign.spec.get("weights", CHECKPOINT))
    if is_packaged(asked, weights):
        return _packaged(campaign.model_fingerprint) or folder
    if weights == DUMMY:
        return _shape(asked, folder.name) or folder
    pinned = pinned_in(folder)
    return (None if pinned is None else cached_here(pinned)) or folder


def absent_for_jobs(campaign: Campaign) -> str | None:
    """Why no job of the campaign could find its model on this machine, as a clause; None where one could, or
    could fetch it: a job takes the folder that the campaign had, or a commit of the hub."""
    folder = Path(campaign.spec[FOUND]["checkpoint"])
    weights = str(campaign.spec.get("weights", CHECKPOINT))
    if is_packaged(str(campaign.spec.get("model")), weights) or folder.is_dir():
        return None
    return None if pinned_in(folder) is not None else f"the campaign's model {folder} is not on this machine"


def check_here(folder: Path) -> None:
    """Raise `CheckpointElsewhere` for a campaign's checkpoint that is not on this machine."""
    if not (folder / CONFIG_FILE).is_file():
        raise CheckpointElsewhere(folder)


def _packaged(fingerprint: str) -> Path | None:
    """This installation's packaged model; None where it has none, or another one."""
    try:
        ours = reference_model_path()
    except CheckpointMissing:
        return None
    return ours if checkpoint_fingerprint(ours) == fingerprint else None


@cache
def _shape(model: str, name: str) -> Path | None:
    """The packaged shape, which its folder's name tells by digest, for as long as this process lives; None
    where this installation has no such shape."""
    if model not in packaged_names(Kind.MODELS):
        return None
    scratch = Path(tempfile.mkdtemp(prefix="autoinfer-shape-"))
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    found = find_shape(model, scratch).folder
    return found if found.name == name else None
