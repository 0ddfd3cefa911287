"""A worker process and its parent: requests come by stdin, and the end of stdin means that the parent is
gone."""

from __future__ import annotations

import json
import os
import queue
import threading
from typing import IO, Any

import psutil

from experiments.executors import guard

EXIT_PARENT_GONE = 3
"""Exit code when stdin ended: nobody is left to answer."""

Requests = queue.SimpleQueue[dict[str, Any]]


def requests_from(stream: IO[bytes]) -> Requests:
    """Queue the requests of a stream not read yet, one JSON object a line, from a thread of its own.

    The thread reads on while the main thread computes; at the end of the stream it ends every process that
    this one has started (compilers) and then this one. Within a job the executor's guard is watched too.
    """
    guard.watch_from_environment()
    requests: Requests = queue.SimpleQueue()
    # by a reader of its own: a Python that ends aborts where another thread waits within that of sys.stdin
    own = os.fdopen(os.dup(stream.fileno()), "rb")
    threading.Thread(target=_read, args=(own, requests), name="requests", daemon=True).start()
    return requests


def _read(stream: IO[bytes], requests: Requests) -> None:
    for text in stream:
        requests.put(json.loads(text))
    for child in psutil.Process().children(recursive=True):
        try:
            child.kill()
        except psutil.NoSuchProcess:
            continue
    os._exit(EXIT_PARENT_GONE)


def search_path(package_root: str) -> str:
    """`PYTHONPATH` for a worker process: this package's root first, then what the parent has."""
    return os.pathsep.join([package_root, *filter(None, [os.environ.get("PYTHONPATH")])])
