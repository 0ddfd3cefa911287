"""Imports what the commands import, for the fork server of `warm.py`, but for PyTorch, which few want."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from sqlalchemy.orm import configure_mappers

from experiments.engines.garbage import unsearched

ROOMS = ("configs", "db", "knowledge", "agent", "cli")

LATER = ("rich.console", "rich.table", "typer._adapters", "typer._click.decorators")
"""What nearly every command imports only once it runs."""

# What is imported is garbage to no command: a fork that looked through it would copy its pages, each command.
with unsearched():
    for room in ROOMS:
        for module in pkgutil.walk_packages(import_module(room).__path__, f"{room}."):
            if not module.name.endswith(".__main__") and ".migrations" not in module.name:
                import_module(module.name)
    for name in LATER:
        import_module(name)
    configure_mappers()  # else each command does it at its first statement
