"""Statements are compiled once for all databases of a test process, not anew for each test's database.

SQLAlchemy keeps what it compiled for as long as an engine lives, and every test has an engine of its own:
compiling took a fifth of the processor time of tests that drive a campaign in their own process. What is
compiled is a value: SQL and how its parameters and columns are read. It holds nothing of a database, and is
the same for every one that the product opens in SQLite, which all have one schema and one way to write
JSON. What is written as text may be asked of an older schema, with other columns, and is compiled for each
engine as ever.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, TextClause
from sqlalchemy.util import LRUCache

from db import session

MOST_STATEMENTS = 2000


class _Compiled(LRUCache[Any, Any]):
    """A key begins with the engine's dialect, an object of its own for each; the rest tells the statement."""

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(key[1:], default)

    def __setitem__(self, key: Any, compiled: Any) -> None:
        if not isinstance(compiled.statement, TextClause):
            super().__setitem__(key[1:], compiled)


def compile_statements_once() -> None:
    """Let all databases that are opened from now on in SQLite share what was compiled."""
    made, compiled = session._sqlite_engine, _Compiled(MOST_STATEMENTS)

    def sharing(*words: Any, **more: Any) -> Engine:
        engine = made(*words, **more)
        engine.update_execution_options(compiled_cache=compiled)
        return engine

    session._sqlite_engine = sharing
