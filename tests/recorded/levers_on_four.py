"""The database that a campaign of levers on four H200s left, unpacked; what it is stands in its page."""

import lzma
from pathlib import Path

from db.session import Database, open_database

KEPT = Path(__file__).parents[2] / "docs" / "results" / "campaigns" / "h200-levers-four.db.xz"


def levers_on_four(folder: Path) -> Database:
    """Its database, brought up to date, in a folder of the test's."""
    (folder / "autoinfer.db").write_bytes(lzma.decompress(KEPT.read_bytes()))
    return open_database(f"sqlite:///{folder}/autoinfer.db", upgrade=True)
