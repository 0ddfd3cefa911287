"""The shape of a checkpoint, from its config.json and the headers of its weight files. Imports no torch."""

from __future__ import annotations

import json
from pathlib import Path

from configs.checkpoints import profile_of_checkpoint
from configs.errors import AutoinferError
from configs.models import ModelProfile
from experiments.engines.reference.inspection import CONFIG_FILE
from experiments.engines.reference.stored_parameters import stored_parameters
from experiments.reference_model.load import no_checkpoint


def read_profile(checkpoint: Path) -> ModelProfile:
    """The shape of a checkpoint, with the MTP head that its weight files hold.

    Raises `CheckpointMissing` when it has no configuration, `AutoinferError` when that can't be read.
    """
    path = checkpoint / CONFIG_FILE
    if not path.is_file() and (missing := no_checkpoint(checkpoint)) is not None:
        raise missing
    try:
        config = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise AutoinferError(
            f"{path} can't be read ({why}).", "Name a folder with a whole checkpoint."
        ) from error
    stored = stored_parameters(checkpoint)
    layers = None if stored is None else stored.mtp_layers
    return profile_of_checkpoint(config, checkpoint.name, str(path), layers)
