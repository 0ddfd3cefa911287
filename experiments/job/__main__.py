"""`python -m experiments.job [FOLDER]`: runs the job of a folder, or forks what an executor asks for."""

from __future__ import annotations

import sys
from pathlib import Path

from configs.library_threads import without_threads
from experiments.engines.garbage import unsearched
from experiments.executors.forking import serve


def main() -> int:
    """Load what every job needs, then run.

    No look for garbage goes through what was loaded: each would copy its pages, in every job that is forked.
    """
    with without_threads(), unsearched():
        from experiments.job.assembly import assemble, prepare
        from experiments.job.process import run_in_folder

        prepare()
    if sys.argv[1:]:
        return run_in_folder(Path(sys.argv[1]), assemble)
    serve(lambda folder: run_in_folder(folder, assemble))
    return 0


if __name__ == "__main__":
    sys.exit(main())
