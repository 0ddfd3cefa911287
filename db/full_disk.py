"""Reading a SQLite file whose disk has no room for the files that SQLite keeps beside a database in use.

A reader of a write-ahead log needs a small file beside the database that tells where what lies in the log.
Where nobody has the database open and no log is left, all that was stored is in the file itself, which SQLite
reads without any other when it is told that nobody changes it (`immutable=1`; SQLite's documentation, "URI
Filenames"). Whoever begins to write meanwhile has found room, and then the next reader does too. So each
connection is tried as ever first, and none is kept.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote


def connect_without_files_beside(path: Path, timeout_s: float) -> Callable[[], sqlite3.Connection]:
    """What opens a connection to the file that only reads, as ever where that can be done.

    It raises `sqlite3.OperationalError` where a log is left, which can't be read without a file beside it.
    """

    def connect() -> sqlite3.Connection:
        as_ever = sqlite3.connect(path, timeout=timeout_s, check_same_thread=False)
        try:
            as_ever.execute("SELECT count(*) FROM sqlite_schema").close()
        except sqlite3.OperationalError:
            as_ever.close()
            if _has_log(path):
                raise
            address = f"file:{quote(str(path))}?mode=ro&immutable=1"
            return sqlite3.connect(address, uri=True, timeout=timeout_s, check_same_thread=False)
        return as_ever

    return connect


def _has_log(path: Path) -> bool:
    log = path.with_name(f"{path.name}-wal")
    return log.exists() and log.stat().st_size > 0
