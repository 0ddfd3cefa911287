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
    for path in sorted(before.iterdir()):
        copied = path.name not in (CONFIG_FILE, INDEX_FILE) and not path.name.endswith(NOT_COPIED_SUFFIXES)
        if path.is_file() and copied:
            shutil.copyfile(path, after / path.name)
