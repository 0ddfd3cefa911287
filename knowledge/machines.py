"""What a machine is called where people read: by its name, not by the key that tells it from others. Pure."""

from __future__ import annotations

import re

KINDS = frozenset({"cpu", "cuda", "gpu"})
"""Kinds that the keys of machines begin with."""


def machine(target: str) -> str:
    """A target's key as words: `NVIDIA H200 (151 GB)` of `cuda:NVIDIA H200:151 GB`; as it is where it names a
    device or rented machines."""
    kind, _, rest = target.partition(":")
    name, _, size = rest.partition(":")
    return f"{name} ({size})" if kind in KINDS and name and size and "," not in target else target


_KEYS = re.compile(rf"\b(?:{'|'.join(sorted(KINDS))}):[^:;,`\n]+:\d+ (?:GB|cores?)\b")


def machines_named(text: str) -> str:
    """A sentence with each machine's key in it as words, as a finding's claim has one in its scope."""
    return _KEYS.sub(lambda found: machine(found.group()), text)
