"""The name of a run's pod: `autoinfer-` and the run's key, so that the one tells the other. Pure."""

from __future__ import annotations

import re

NAME_PREFIX = "autoinfer-"

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)


def is_key(text: str) -> bool:
    """Whether a run's key is well formed: up to 100 letters, digits, dots and dashes."""
    return _KEY.fullmatch(text) is not None


def name_of(key: str) -> str:
    """The name of the key's pod."""
    return NAME_PREFIX + key


def key_of(name: str) -> str | None:
    """The key that a pod of this name was made for; None for a pod of somebody else."""
    key = name.removeprefix(NAME_PREFIX)
    return key if name.startswith(NAME_PREFIX) and is_key(key) else None
