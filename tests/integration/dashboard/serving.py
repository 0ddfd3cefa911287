"""A dashboard in a process of its own, by the command, and an address of every page."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from dashboard.app import PAGES
from db.labels import Noun, format_label
from tests.waiting import PATIENCE_S


@contextmanager
def serving(data_dir: Path, port: int = 0, *options: str) -> Iterator[str]:
    """Serve the database in the folder, on any free port for 0, with further options of the command; gives
    the address."""
    command = [sys.executable, "-m", "cli", "dashboard", "--json", "--port", str(port)]
    command += ["--data-dir", str(data_dir), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["address"]
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


def addresses(numbers: Mapping[Noun, int], rows: int | None = None) -> dict[str, str]:
    """An address of every page by its name; a label in a path is that of the noun with this number.

    A list shows so many `rows`, or as many as it does by itself. Raises `KeyError` for a page whose path
    names nothing that is known here, so that none is left out.
    """
    labels = {noun: format_label(noun, number) for noun, number in numbers.items()}
    by_start = {
        "campaigns": labels[Noun.CAMPAIGN],
        "hypotheses": labels[Noun.HYPOTHESIS],
        "experiments": labels[Noun.EXPERIMENT],
        "knowledge": labels[Noun.FINDING],
        "queue": labels[Noun.HYPOTHESIS],
    }
    found = {}
    for page in PAGES:
        path = page.path
        if "{" in path:
            start, end = path.index("{"), path.index("}")
            path = f"{path[:start]}{by_start[path.split('/')[1]]}{path[end + 1 :]}"
        limited = rows is not None and "limit" in page.filters.model_fields
        found[page.name] = f"{path}?limit={rows}" if limited else path
    if "compare" in found:
        found["compare"] += f"?ids={labels[Noun.EXPERIMENT]},{format_label(Noun.EXPERIMENT, 2)}"
    return found
