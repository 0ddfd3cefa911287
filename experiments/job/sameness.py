"""Whether a checkpoint is still the one that the campaign looked at."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from configs.errors import AutoinferError
from experiments.reference_model.load import checkpoint_fingerprint, fingerprinted_files

FOLDER = "fingerprints"
"""Where fingerprints are kept in the cache: hashing tens of GB before every job would take minutes."""


def check_sameness(checkpoint: Path, wanted: str, cache_dir: Path) -> None:
    """Raise `AutoinferError` when the checkpoint's content is not that of the fingerprint `wanted`.

    It is no `Infeasible`, which would speak against the candidate: nothing is learnt about any configuration.
    """
    if kept_fingerprint(checkpoint, cache_dir) != wanted:
        raise AutoinferError(
            f"The checkpoint at {checkpoint} is not the one that the campaign began with: its files have "
            "changed.",
            "Put the old files back, or begin a new campaign: autoinfer run --new",
        )


def kept_fingerprint(checkpoint: Path, cache_dir: Path) -> str:
    """The checkpoint's fingerprint; files are read only once for the same paths, sizes and times."""
    files = json.dumps(fingerprinted_files(checkpoint.resolve()))
    kept = cache_dir / FOLDER / hashlib.sha256(files.encode()).hexdigest()
    try:
        return kept.read_text(encoding="ascii")
    except FileNotFoundError:
        pass
    found = checkpoint_fingerprint(checkpoint.resolve())
    kept.parent.mkdir(parents=True, exist_ok=True)
    temporary = kept.with_name(f"{kept.name}.{os.getpid()}")
    temporary.write_text(found, encoding="ascii")
    temporary.rename(kept)
    return found
