"""Installs the browser's libraries from npm into the package: `python -m dashboard.browser_libraries`.

With `--from node_modules` they are taken from a folder into which npm has installed them already.

They are never committed: versions stand in `package.json`, contents in `package-lock.json`. The wheel's build
runs this too, so it needs nothing but Python, and where Node is missing it says so and leaves the rest as it
is: the dashboard then works without live updates, charts that zoom and the graph's canvas.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
VENDOR = Path(__file__).parent / "static" / "vendor"

FILES = {
    "htmx.min.js": "htmx.org/dist/htmx.min.js",
    "hx-sse.min.js": "htmx.org/dist/ext/hx-sse.min.js",
    "uPlot.iife.min.js": "uplot/dist/uPlot.iife.min.js",
    "uPlot.min.css": "uplot/dist/uPlot.min.css",
    "cytoscape.min.js": "cytoscape/dist/cytoscape.min.js",
    "htmx.LICENSE": "htmx.org/LICENSE",
    "uPlot.LICENSE": "uplot/LICENSE",
    "cytoscape.LICENSE": "cytoscape/LICENSE",
}
"""Files of the packages that pages use, with their licences, by the name that they get."""

NO_NODE = (
    "npm was not found, so the dashboard goes without live updates and the graph's canvas: install Node 20 "
    "or newer, then run python -m dashboard.browser_libraries"
)


def installed() -> bool:
    """Whether all files are there."""
    return all((VENDOR / name).is_file() for name in FILES)


def install(root: Path = ROOT, vendor: Path = VENDOR) -> str | None:
    """Install what `package-lock.json` in `root` names; a sentence where that was not possible."""
    npm = shutil.which("npm")
    if npm is None:
        return NO_NODE
    with tempfile.TemporaryDirectory(prefix="autoinfer-npm-") as folder:
        for name in ("package.json", "package-lock.json", ".npmrc"):
            shutil.copy(root / name, folder)
        done = subprocess.run([npm, "ci"], cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            return f"npm could not install the browser's libraries: {last}"
        take_from(Path(folder) / "node_modules", vendor)
    return None


def take_from(modules: Path, vendor: Path = VENDOR) -> None:
    """Copy the files from where npm installed them; raises `OSError` where one is missing."""
    vendor.mkdir(parents=True, exist_ok=True)
    for name, source in FILES.items():
        shutil.copy(modules / source, vendor / name)


def main(words: Sequence[str] = tuple(sys.argv[1:])) -> int:
    """Install, and say where that was not possible: set-up goes on without.

    With `--from FOLDER` what is not in the folder is a failure: whoever names it counts on it.
    """
    if not words:
        told = install()
        if told is not None:
            print(told, file=sys.stderr)
        return 0
    if len(words) != 2 or words[0] != "--from":
        print(f"{' '.join(words)} has no meaning here: name a folder by --from, or nothing.", file=sys.stderr)
        return 2
    try:
        take_from(Path(words[1]))
    except OSError as error:
        print(f"{error.filename} can't be taken: {error.strerror}. Run npm ci there first.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
