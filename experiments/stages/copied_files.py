"""What goes along when a stage writes a checkpoint anew beside its weights. Imports no torch."""

from __future__ import annotations

import shutil
from pathlib import Path

from experiments.engines.reference.inspection import CONFIG_FILE, INDEX_FILE

SCORES_FILE = "prune-scores.json"
"""Each layer's score from each calibration document, beside the checkpoint that was pruned by them."""

NOT_COPIED_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".md", "-report.json", SCORES_FILE)
"""Other forms of the weights, and cards, reports and rankings, which would tell of the checkpoint before."""


def copy_beside(before: Path, after: Path) -> None:
    """Copy tokenizer, chat template and settings; what tells of the weights each stage writes itself."""
    for path in _copied(before):
        shutil.copyfile(path, after / path.name)


def copied_bytes(folder: Path) -> int:
    """Bytes of what `copy_beside` copies of a checkpoint's folder, as far as its files are there."""
    return sum(path.stat().st_size for path in _copied(folder))


def _copied(folder: Path) -> list[Path]:
    return [
        path
        for path in sorted(folder.iterdir())
        if path.name not in (CONFIG_FILE, INDEX_FILE)
        and not path.name.endswith(NOT_COPIED_SUFFIXES)
        and path.is_file()
    ]
