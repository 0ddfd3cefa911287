"""Where state lies when nobody says otherwise, by the convention of each platform."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

APPLICATION = "autoinfer"


def default_data_dir(environment: Mapping[str, str], platform: str = sys.platform) -> Path:
    """The folder for a user's data.

    Linux and others: `$XDG_DATA_HOME/autoinfer`, else `~/.local/share/autoinfer` (XDG base directory
    specification, which says to pass over a relative path). macOS: `~/Library/Application Support/autoinfer`.
    Windows: `%LOCALAPPDATA%\\autoinfer`.
    """
    home = Path(environment.get("HOME") or Path.home())
    if platform == "darwin":
        return home / "Library" / "Application Support" / APPLICATION
    named = environment.get("LOCALAPPDATA" if platform == "win32" else "XDG_DATA_HOME", "")
    fallback = home / "AppData" / "Local" if platform == "win32" else home / ".local" / "share"
    return (Path(named) if named and Path(named).is_absolute() else fallback) / APPLICATION
