"""Ctrl C, and the SIGTERM of a service manager, that are not lost.

Python raises KeyboardInterrupt wherever it happens to be; in a finalizer, such as that of a database
connection, it drops the exception and goes on. So a flag is kept beside it, and whoever loops looks at it.

Within the database's own code nothing is raised: half-way into a transaction, or out of it, that would leave
a connection with the write lock to whoever collects it, and every worker that is to end would wait for it.
Nor is it between that code and the block that it opens a transaction for, which is `contextlib`'s.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType

DATABASE_CODE = ("db", "sqlalchemy", "contextlib")
"""Packages whose functions, and all that they call, are not left half-way; `contextlib` enters and leaves
the blocks of transactions."""


ENDING = (signal.SIGINT, signal.SIGTERM)
"""The signals by which a person or a service manager asks a command to end."""


class Interrupt:
    """Within it Ctrl C or SIGTERM raises KeyboardInterrupt, at once, at the next `check`, or at its end. For
    the main thread alone.

    A signal that was to be ignored, as Ctrl C in the background of a shell, still is.
    """

    def __init__(self) -> None:
        self._happened = False
        self._before = {each: signal.getsignal(each) for each in ENDING}

    def __enter__(self) -> Interrupt:
        for each in self._heard:
            signal.signal(each, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in self._heard:
            signal.signal(each, self._before[each])
        if error is None:
            self.check()

    @property
    def is_heard(self) -> bool:
        """Whether Ctrl C ends this process, outside of it too."""
        return signal.SIGINT in self._heard

    @property
    def _heard(self) -> tuple[signal.Signals, ...]:
        return tuple(each for each, before in self._before.items() if before is not signal.SIG_IGN)

    @contextmanager
    def put_off(self) -> Iterator[None]:
        """Within the block, after this one's own, SIGTERM ends nothing: it is kept for the next `check`.

        Ctrl C, which a person presses again who won't wait, is as it was.
        """
        if signal.SIGTERM not in self._heard:
            yield
            return
        before = signal.signal(signal.SIGTERM, self._keep)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)

    def check(self) -> None:
        """Raise KeyboardInterrupt if it happened, wherever the first one got lost."""
        if self._happened:
            self._happened = False
            raise KeyboardInterrupt

    def _keep(self, number: int, frame: FrameType | None) -> None:
        self._happened = True

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._happened = True
        if not _in_the_database(frame):
            raise KeyboardInterrupt


def _in_the_database(frame: FrameType | None) -> bool:
    while frame is not None:
        if str(frame.f_globals.get("__name__")).partition(".")[0] in DATABASE_CODE:
            return True
        frame = frame.f_back
    return False
