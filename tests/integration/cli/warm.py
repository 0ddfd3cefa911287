"""The command in a process of its own that need not import anew what every command imports.

Python's fork server imports the product once; each command line is then run by a fork of it, with its own
environment, folder, output and exit code. What starting the interpreter shows is not seen this way:
`Autoinfer.fresh` is the installed script.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.context import ForkServerContext
from pathlib import Path

PRELOADED = "tests.integration.cli.preloaded"


def fork_server() -> ForkServerContext:
    """The context whose processes have imported everything; its server lives as long as this process."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([PRELOADED, __name__])
    return context


def run_forked(
    words: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    files: tuple[Path, Path],
    limit_s: float,
) -> int:
    """Run one command line to its end, its output and errors into two files; the exit code."""
    process = fork_server().Process(target=_command, args=(list(words), dict(environment), folder, files))
    process.start()
    process.join(limit_s)
    code = process.exitcode
    process.kill()
    process.join()
    process.close()
    if code is None:
        raise TimeoutError(f"autoinfer {' '.join(words)} did not end within {limit_s:g} s")
    return code


def _command(words: list[str], environment: dict[str, str], folder: Path, files: tuple[Path, Path]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for number, file in enumerate(files, start=1):
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(opened, number)
        os.close(opened)
    places = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [place for place in places if place and place not in sys.path]
    sys.argv = ["autoinfer", *words]
    from cli.main import main

    main()
