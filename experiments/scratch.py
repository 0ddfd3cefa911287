"""Scratch folders: a process deletes its own, and the next that is made sweeps those of killed processes.

A folder has a file that its maker keeps locked (`flock`), which the system lets go when the maker dies, by
SIGKILL too. So what nobody holds is nobody's, whichever container its maker ran in; what has no such file is
somebody else's and stays. On a file system without locks nothing is swept. Only the standard library is
imported: a folder is made in the Pythons of other engines too.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType

HELD = ".held-by-autoinfer"
"""The file in a folder that its maker keeps locked."""


class ScratchFolder:
    """A new folder `path` below `parent`, held until `close`; a context, too.

    The kind begins its name. Raises `OSError` where none can be made.
    """

    def __init__(self, kind: str, parent: Path) -> None:
        parent.mkdir(parents=True, exist_ok=True)
        sweep(kind, parent)
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=f"{kind}-", dir=parent))
            self._held: int | None = _locked(self.path, os.O_CREAT, fcntl.LOCK_EX)
            if self.path.is_dir():  # else another process swept it before it was held
                return

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Delete the folder with all that is in it; idempotent."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._held is not None:
            os.close(self._held)
            self._held = None


def sweep(kind: str, parent: Path) -> None:
    """Delete the folders of a kind that nobody holds any more; what can't be deleted stays."""
    for path in parent.glob(f"{kind}-*"):
        held = _locked(path, 0, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if held is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(held)


def count_held(kind: str, parent: Path) -> int:
    """How many folders of a kind there are that somebody holds; what nobody does is deleted."""
    sweep(kind, parent)
    return sum(1 for _ in parent.glob(f"{kind}-*"))


def _locked(folder: Path, flags: int, mode: int) -> int | None:
    """Lock a folder's file; the descriptor that holds it, None where it is held, gone, or can't be."""
    try:
        held = os.open(folder / HELD, os.O_RDWR | os.O_NOFOLLOW | flags, 0o600)
    except OSError:
        return None
    with suppress(OSError):
        fcntl.flock(held, mode)
        if os.fstat(held).st_nlink:
            return held
    os.close(held)
    return None
