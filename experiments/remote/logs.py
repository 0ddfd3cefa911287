"""A copy of a remote run's log in its folder here, where pages and commands look for logs.

    <root>/<key>/log.txt       the text
    <root>/<key>/copied.json   how far the remote log was read, and how long the text was then

What was appended after the last count was written is cut off and read again, so that a crash doubles nothing.
"""

from __future__ import annotations

import json
from pathlib import Path

from experiments.executors.port import Executor
from experiments.worker.log_tails import RUN_LOG

_COPIED = "copied.json"

MOST_CHUNKS = 16
"""Pieces that are fetched at one look: a long log must not hold up the other runs."""

MOST_CHUNKS_AT_LAST = 1024
"""Likewise at the last look, after which nothing is fetched any more."""


class LogCopy:
    """Follows the log of one run."""

    def __init__(self, root: Path, key: str) -> None:
        self._folder = root / key
        self._cursor: int | None = None
        self._bytes = 0

    def update(self, executor: Executor, ref: str, *, last: bool = False) -> None:
        """Fetch what was added since the last call, at the `last` all of it; raises what the executor raises,
        and `OSError`."""
        if self._cursor is None:
            self._begin()
        for _ in range(MOST_CHUNKS_AT_LAST if last else MOST_CHUNKS):
            assert self._cursor is not None
            chunk = executor.logs(ref, self._cursor)
            if chunk is None or not chunk.text:
                return
            self._append(chunk.text, chunk.cursor)

    def _begin(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            told = json.loads((self._folder / _COPIED).read_bytes())
            self._cursor, self._bytes = int(told["cursor"]), int(told["bytes"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            self._cursor, self._bytes = 0, 0
        with (self._folder / RUN_LOG).open("ab") as log:
            log.truncate(self._bytes)

    def _append(self, text: str, cursor: int) -> None:
        data = text.encode()
        with (self._folder / RUN_LOG).open("ab") as log:
            log.write(data)
        self._cursor, self._bytes = cursor, self._bytes + len(data)
        temporary = self._folder / (_COPIED + ".tmp")
        temporary.write_text(json.dumps({"cursor": self._cursor, "bytes": self._bytes}))
        temporary.rename(self._folder / _COPIED)
