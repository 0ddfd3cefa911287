"""`python -m experiments.job FOLDER`: the process that an executor starts."""

from __future__ import annotations

import sys
from pathlib import Path

from experiments.executors import guard


def main() -> int:
    """Watch the executor first, then load and run."""
    guard.watch_from_environment()
    from experiments.job.assembly import assemble
    from experiments.job.process import run_in_folder

    return run_in_folder(Path(sys.argv[1]), assemble)


if __name__ == "__main__":
    sys.exit(main())
