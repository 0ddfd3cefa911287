"""A checkpoint's path without words by which vLLM chooses how to draft.

Whatever method it is told, a vLLM takes drafts for EAGLE's, DFlash's or DSpark's where the path of what
drafts has the name of one in it (`vllm/config/speculative.py`, "Automatically detect the method"; seen with
0.33): an MTP head of a checkpoint below `bench/dflash/` is read as a DFlash drafter, and does not load.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from experiments.engines.port import Infeasible
from experiments.engines.server_process import SHORT_FOLDER

MISLEADING_WORDS = ("eagle-", "eagle3", "dflash", "dspark")


def misleading(folder: Path) -> bool:
    """Whether vLLM would take a method from the path."""
    return any(word in str(folder).lower() for word in MISLEADING_WORDS)


def plain_path(folder: Path, kept: Path, others: Sequence[Path] = (SHORT_FOLDER,)) -> Path:
    """The folder by a path that names no method: its own, or that of a link to it below `kept`, or below the
    first of `others` that can have one where `kept` names a method too. It is the same each time, for vLLM's
    compile cache goes by it.

    Raises:
        Infeasible: `unsupported` where none of them can have a link.
    """
    if not misleading(folder):
        return folder
    folder = folder.absolute()
    for link in _links(
        folder, [each.absolute() for each in (kept, *others) if not misleading(each.absolute())]
    ):
        try:
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(folder)
        except FileExistsError:
            if not link.is_symlink() or link.readlink() != folder:
                continue  # somebody else's
        except OSError:
            continue
        return link
    raise Infeasible(
        "unsupported",
        f"vLLM takes its way of drafting from words in the path {folder}, and no link to it can be made: "
        f"name this folder, or the data folder if it lies there, without {', '.join(MISLEADING_WORDS)}.",
    )


def _links(folder: Path, parents: Sequence[Path]) -> Iterator[Path]:
    name = hashlib.sha256(str(folder).encode()).hexdigest()[:16]
    for parent in parents:
        for attempt in range(3):
            yield parent / f"autoinfer-{name}-{attempt}"
