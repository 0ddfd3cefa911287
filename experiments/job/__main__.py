"""`python -m experiments.job [FOLDER]`: the process of a job, started when the job is there or before."""

from __future__ import annotations

import sys

from experiments.executors import guard


def main() -> int:
    """Watch the executor first, then load what every job needs, then run the one that is told."""
    guard.watch_from_environment()
    from experiments.job.assembly import assemble, prepare
    from experiments.job.process import run_in_folder, told_folder

    prepare()
    folder = told_folder(sys.argv[1:])
    return 0 if folder is None else run_in_folder(folder, assemble)


if __name__ == "__main__":
    sys.exit(main())
