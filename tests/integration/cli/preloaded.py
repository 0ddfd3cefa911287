"""Imports what the commands import, for the fork server of `warm.py`, but for PyTorch, which few want."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from experiments.engines.garbage import unsearched

ROOMS = ("configs", "db", "knowledge", "agent", "cli")

# What is imported is garbage to no command: a fork that looked through it would copy its pages, each command.
with unsearched():
    for room in ROOMS:
        for module in pkgutil.walk_packages(import_module(room).__path__, f"{room}."):
            if not module.name.endswith(".__main__") and ".migrations" not in module.name:
                import_module(module.name)
