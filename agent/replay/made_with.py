"""What a replay was made with: the code, the packages that choose, Python and the processor."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from configs.cpu import probe_cpu
from experiments.measurement.environment import git_revision, package_version

PACKAGES: Mapping[str, str] = {"Optuna": "optuna", "SMAC3": "smac"}
"""Packages whose planners a table is replayed with, by the names that they go by."""

SHORT_COMMIT = 12
"""Digits of a commit in a sentence."""


@dataclass(frozen=True)
class MadeWith:
    """Versions, None where something is not installed, or where no work tree tells a commit; `changed` is
    whether tracked files differed from that commit."""

    autoinfer: str | None
    commit: str | None
    changed: bool | None
    python: str
    packages: Mapping[str, str | None]
    processor: str
    cores: int

    @property
    def words(self) -> str:
        """All of it in a line, what is missing too."""
        tree = ", with changes that are not committed" if self.changed else ""
        commit = f" (commit {self.commit[:SHORT_COMMIT]}{tree})" if self.commit else " (commit unknown)"
        packages = [f"{name} {found or 'not installed'}" for name, found in self.packages.items()]
        cores = "1 core" if self.cores == 1 else f"{self.cores} cores"
        told = [f"autoinfer {self.autoinfer or 'of unknown version'}{commit}", *packages]
        return ", ".join([*told, f"Python {self.python}", f"{self.processor} ({cores})"])


def made_with() -> MadeWith:
    """What this process would replay with."""
    commit, changed = git_revision(Path(__file__).parents[2])
    processor = probe_cpu()
    return MadeWith(
        package_version("autoinfer"),
        commit,
        changed,
        platform.python_version(),
        {name: package_version(package) for name, package in PACKAGES.items()},
        processor.name,
        processor.cores,
    )
