"""What a machine is called where people read: by its name, not by the key that tells it from others. Pure."""

from __future__ import annotations

import re

KINDS = frozenset({"cpu", "cuda", "gpu"})
"""Kinds that the keys of machines begin with."""


def machine(target: str) -> str:
    """A target's key as words: `NVIDIA H200 (151 GB)` of `cuda:NVIDIA H200:151 GB`, of a rented one
    `NVIDIA L4 (24 GB, modal)`; as it is where it names a device or rented machines."""
    kind, _, rest = target.partition(":")
    name, _, size = rest.partition(":")
    is_key = kind in KINDS and name and size and "," not in target
    return f"{name} ({size.replace(':', ', ')})" if is_key else target


_KEYS = re.compile(rf"\b(?:{'|'.join(sorted(KINDS))}):[^:;,`\n]+:\d+ (?:GB|cores?)\b(?::\w+)?")


def machines_named(text: str) -> str:
    """A sentence with each machine's key in it as words, as a finding's claim of older versions has one in
    its scope."""
    return _KEYS.sub(lambda found: machine(found.group()), text)


def is_called(target: str, part: str) -> bool:
    """Whether a target has this in its name, as pages tell it, or in its key; in letters of either case."""
    return any(part.casefold() in each.casefold() for each in (target, machine(target)))
