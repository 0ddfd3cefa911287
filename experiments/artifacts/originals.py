"""A campaign's own checkpoint in a shared store, for machines that reach that and no folder of this.

It is there as an artifact is, under its fingerprint, so that what is fetched is compared file by file.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from experiments.artifacts.key import ArtifactKey
from experiments.artifacts.manifest import FILES_FOLDER, files_of
from experiments.artifacts.shared import SharedArtifacts
from experiments.checkpoints.hub import DESCRIPTION_FILES
from experiments.reference_model.load import checkpoint_fingerprint, fingerprinted_files

KIND = "original"


def original_key(fingerprint: str) -> ArtifactKey:
    """The key of the checkpoint of a fingerprint."""
    return ArtifactKey(KIND, {"model": fingerprint})


def original_files(folder: Path) -> list[str]:
    """The files that travel: those of the fingerprint, and what else describes a checkpoint.

    Raises `CheckpointMissing` for a folder that is none.
    """
    named = {Path(name).name for name, _, _ in fingerprinted_files(folder)}
    beside = {path.name for pattern in DESCRIPTION_FILES for path in folder.glob(pattern) if path.is_file()}
    return sorted(named | beside)


def put_original(
    shared: SharedArtifacts, folder: Path, tell: Callable[[str, int], None] = lambda name, size: None
) -> str | None:
    """Put a checkpoint into the shared store; `tell` hears of each file, with its bytes, before it goes.

    Returns the fingerprint; None where the store had it. Raises `CheckpointMissing` for a folder that is
    none, and what `SharedArtifacts` raises.
    """
    fingerprint = checkpoint_fingerprint(folder)
    key = original_key(fingerprint)
    if shared.manifest(key.digest) is not None:
        return None
    manifest = files_of(key, folder, original_files(folder), datetime.now(UTC).isoformat())
    shared.put_files(manifest, folder, tell=tell)
    return fingerprint


def fetch_original(shared: SharedArtifacts, fingerprint: str, folder: Path) -> Path | None:
    """Bring the checkpoint of a fingerprint into the empty `folder`; returns where its files lie, None where
    the store lacks it or has it damaged. Raises `SharedUnreachable`."""
    digest = original_key(fingerprint).digest
    return folder / FILES_FOLDER if shared.fetch(digest, folder) else None
