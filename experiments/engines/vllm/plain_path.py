"""A checkpoint's path without words by which vLLM chooses how to draft.

Whatever method it is told, a vLLM takes drafts for EAGLE's, DFlash's or DSpark's where the path of what
drafts has the name of one in it (`vllm/config/speculative.py`, "Automatically detect the method"; seen with
0.33): an MTP head of a checkpoint below `bench/dflash/` is read as a DFlash drafter, and does not load.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from experiments.engines.port import Infeasible

MISLEADING_WORDS = ("eagle-", "eagle3", "dflash", "dspark")


def misleading(folder: Path) -> bool:
    """Whether vLLM would take a method from the path."""
    return any(word in str(folder).lower() for word in MISLEADING_WORDS)


def plain_path(folder: Path, links: Path | None = None) -> Path:
    """The folder by a path that names no method: its own, or that of a link to it below `links` (the folder
    for temporary files without), which is the same each time, for vLLM's compile cache goes by it.

    Raises:
        Infeasible: `unsupported` where the path of `links` names a method too.
    """
    if not misleading(folder):
        return folder
    folder = folder.absolute()
    for link in _links(folder, links or Path(tempfile.gettempdir())):
        try:
            link.symlink_to(folder)
        except FileExistsError:
            if not link.is_symlink() or link.readlink() != folder:
                continue  # somebody else's
        if misleading(link):
            link.unlink()
            break
        return link
    raise Infeasible(
        "unsupported",
        f"vLLM takes its way of drafting from words in the path {folder}: give the checkpoint by a path "
        f"without {', '.join(MISLEADING_WORDS)}.",
    )


def _links(folder: Path, below: Path) -> Iterator[Path]:
    name = hashlib.sha256(str(folder).encode()).hexdigest()[:16]
    for attempt in range(10):
        yield below / f"autoinfer-{name}-{attempt}"
