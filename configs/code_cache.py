"""Where compiled code is kept: a folder that compilers can be handed."""

from __future__ import annotations

import hashlib
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from configs.data_dir import APPLICATION
from configs.errors import UsageError

CACHE_FOLDER = "cache"
"""The folder in the data folder."""

OWN_DIGITS = 12
"""Hexadecimal digits of the digest of a data folder's path that tell its cache from another's."""

TO_NAME_ANOTHER = "Set AUTOINFER_CACHE_DIR to a folder whose path has no space, quote or backslash."
"""What to do about a folder whose name falls apart."""


def falls_apart(folder: Path) -> bool:
    """Whether the path is other than one word to a shell.

    PyTorch (2.13, `torch/_inductor/cpp_builder.py`) writes it into the compiler's command line as it is and
    takes that line apart again as a shell would, so each compilation for a processor fails, of the vLLM that
    serves there too.
    """
    text = folder.as_posix()
    try:
        return shlex.split(text) != [text]
    except ValueError:
        return True


def default_cache_dir(data_dir: Path, environment: Mapping[str, str], platform: str = sys.platform) -> Path:
    """The folder in `data_dir`; where its path falls apart, as that of macOS's data folder does, one of this
    data folder's own among the user's caches, if that path is better.

    Linux and others: in `$XDG_CACHE_HOME/autoinfer`, else `~/.cache/autoinfer` (XDG base directory
    specification). macOS: in `~/Library/Caches/autoinfer`.
    """
    inside = data_dir / CACHE_FOLDER
    if not falls_apart(inside):
        return inside
    home = Path(environment.get("HOME") or Path.home())
    named = Path(environment.get("XDG_CACHE_HOME", ""))
    caches = home / "Library" / "Caches" if platform == "darwin" else home / ".cache"
    if platform != "darwin" and named.is_absolute():
        caches = named
    own = hashlib.sha256(str(data_dir.absolute()).encode()).hexdigest()[:OWN_DIGITS]
    beside = caches / APPLICATION / own
    return inside if falls_apart(beside) else beside


def check_compilable(folder: Path) -> None:
    """Raise `UsageError` where code for a processor can't be compiled in `folder` for its name."""
    if falls_apart(folder):
        raise UsageError(
            f"Compiled code would be kept in {str(folder)!r}, and the compiler that PyTorch calls takes such "
            "a path for several words or another.",
            TO_NAME_ANOTHER,
        )
