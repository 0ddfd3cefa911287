"""Processes that tests start end with the test process, even where it is killed and no fixture is left to.

By util-linux's `setpriv --pdeathsig`, which is Linux alone; elsewhere fixtures end them as ever. The
signal comes when the thread that started a process ends: start them from a thread that stays.
"""

import shutil
from collections.abc import Sequence


def not_outliving(words: Sequence[str], number: str = "KILL") -> list[str]:
    """The command that runs `words` and is sent this signal when who started it is gone; it keeps its id."""
    setpriv = shutil.which("setpriv")
    return list(words) if setpriv is None else [setpriv, "--pdeathsig", number, "--", *words]
