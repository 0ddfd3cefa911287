"""A new database for a test: migrations run once in a process, and every test gets a copy of what they left.

What making a database does, and each migration, is tested in `tests/integration/db`.
"""

import tempfile
from functools import cache
from pathlib import Path

from db.session import Database, open_database

FILE_NAME = "autoinfer.db"


def database_url(folder: Path) -> str:
    return f"sqlite:///{folder / FILE_NAME}"


@cache
def migrated_file() -> bytes:
    """The file of a database that was just made and closed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        open_database(database_url(folder), create=True).close()
        (file,) = folder.iterdir()  # closed: there is no log beside it
        return file.read_bytes()


def new_database(folder: Path) -> Database:
    """The database in the folder; an empty one, in a new folder if need be, where there was none."""
    file = folder / FILE_NAME
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        file.write_bytes(migrated_file())
    return open_database(database_url(folder))
