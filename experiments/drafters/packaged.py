"""Finds the packaged drafter of the packaged reference model; imports no torch."""

from pathlib import Path

from experiments.reference_model.load import CheckpointMissing


def packaged_drafter_path() -> Path:
    """Return the folder of the DFlash drafter that comes with the reference model.

    Raises:
        CheckpointMissing: the installation came without it.
    """
    folder = Path(__file__).parent / "dflash" / "weights"
    if not (folder / "model.safetensors").is_file():
        raise CheckpointMissing(
            f"The reference model's drafter is not in {folder}.",
            "Install autoinfer again, or train one with `autoinfer drafter train`.",
        )
    return folder
