"""The wheel's build brings the browser's libraries into the package; without npm it goes on and says so."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

INSTALLER = Path("dashboard") / "browser_libraries.py"


class BrowserLibraries(BuildHookInterface):  # type: ignore[type-arg]
    """Runs the installer, by its file: the package's own dependencies are not there while it is built."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Install before the files of the wheel are gathered."""
        spec = importlib.util.spec_from_file_location("browser_libraries", Path(self.root) / INSTALLER)
        assert spec is not None
        assert spec.loader is not None
        installer = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(installer)
        told = None if installer.installed() else installer.install()
        if told is not None:
            self.app.display_warning(told)
