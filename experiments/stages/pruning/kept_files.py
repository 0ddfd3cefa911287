"""Files of what was scored: each whole or not there, and read back only as it was written. Imports no torch.

A file holds a line of JSON and, before it, the SHA-256 of that line. It is written beside its place, forced
to the disk and renamed, so a kill or a power cut leaves no half of one; what is damaged all the same is said
in the log and counts as absent.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
from pathlib import Path

from experiments.disk import told_in_words
from experiments.measurement.evidence import Json

_LOG = logging.getLogger(__name__)


def write_kept(path: Path, data: Json) -> bool:
    """Write a file, its folder too; whether that was possible. Where not (a full disk, say), the log says so
    and what would be in it is computed again the next time."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("wb", dir=path.parent, suffix=".unfinished", delete=False) as file:
            try:
                line = json.dumps(data).encode()
                file.write(_digest(line) + b"\n" + line)
                file.flush()
                os.fsync(file.fileno())
                os.replace(file.name, path)
            except OSError:
                os.unlink(file.name)
                raise
    except OSError as error:
        why = told_in_words(str(error))
        _LOG.warning("Scores can't be kept in %s (%s); they are used all the same.", path.parent, why)
        return False
    return True


def read_kept(path: Path) -> Json | None:
    """What `write_kept` wrote there; None where there is no file, or one that is damaged, which is logged."""
    try:
        digest, line = path.read_bytes().split(b"\n", 1)
        if digest != _digest(line):
            raise ValueError("its checksum is another")
        found: Json = json.loads(line)
        return found
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        damaged(path, error)
        return None


def damaged(path: Path, error: Exception) -> None:
    """Say in the log that a file of kept scores is of no use."""
    _LOG.warning("%s is damaged (%s); it is ignored, and what was in it is scored again.", path, error)


def _digest(line: bytes) -> bytes:
    return hashlib.sha256(line).hexdigest().encode()
