"""A machine on a sheet: its name, and the key that commands take."""

from __future__ import annotations

from knowledge.machines import machine


def target_rows(target: str | None) -> list[tuple[str, str | None]]:
    """Rows with a target's name and, where that is another word, the key by which `finding add --target` and
    JSON call it."""
    name = None if target is None else machine(target)
    return [("target", name), ("target's key", None if name == target else target)]
