"""A room imports only from the rooms below it, and what the command line loads stays light."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

HEAVY = ("torch", "transformers", "optuna", "scipy", "sqlalchemy", "networkx", "alembic")


def test_rooms_import_only_downwards() -> None:
    outcome = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()", "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_the_command_line_loads_nothing_heavy() -> None:
    program = f"import sys, cli.main; print([m for m in {HEAVY!r} if m in sys.modules])"
    outcome = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert outcome.stdout.strip() == "[]"
