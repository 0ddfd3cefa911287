"""`make run` installs what its campaign uses, and no more; nothing is run here, make only tells its plan."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def planned(tmp_path: Path, *words: str) -> str:
    """What make would do where nothing is installed."""
    asked = ["make", "--dry-run", "--always-make", f"VENV={tmp_path}/venv", *words]
    return subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("words", "quantizes"),
    [
        (("run",), False),
        (("run", "RUN_ARGS=--budget 30m"), False),
        (("run", "RUN_ARGS=levers --budget 8h"), True),
        (("run", "RUN_ARGS=--campaign levers"), True),
        (("test",), True),
        (("bench",), True),
        (("quantize-env",), True),
    ],
)
def test_the_environment_that_quantizes_is_made_where_it_is_used(
    tmp_path: Path, words: tuple[str, ...], quantizes: bool
) -> None:
    assert (f"{tmp_path}/venv-quantize/bin/python -m pip install" in planned(tmp_path, *words)) is quantizes
