"""The one hierarchy of errors that a user sees.

Every refusal and failure that a user can cause or cure is an `AutoinferError`: one sentence that says what
happened, with the value, and one that says what to do next. The command line prints both and ends with
`exit_code`; a traceback is for our own mistakes only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

EXIT_FAILURE = 1
"""Exit code of a command that could not do its work."""

EXIT_USAGE = 2
"""Exit code of a command that was asked for something it cannot accept."""

EXIT_OPEN = 3
"""Exit code of a command that found nothing wrong, and can't say yet, or not here, that all is well."""


class AutoinferError(Exception):
    """Something the user can understand and act upon.

    `message` is the sentence for the user, `hint` says what to do next (may be empty), `exit_code` is what
    the command line ends with. `quotes` are the parts of the message that others wrote, such as a cause from
    a log or a file: whoever tells them to a machine marks them as data.
    """

    exit_code: int = EXIT_FAILURE

    def __init__(
        self, message: str, hint: str = "", exit_code: int | None = None, *, quotes: Sequence[str] = ()
    ) -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint
        self.quotes = tuple(quotes)
        if exit_code is not None:
            self.exit_code = exit_code

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()

    def marked(self, name: Callable[[str], str], text: Callable[[str], str]) -> tuple[str, str]:
        """Message and hint, with what others wrote as `text` tells it, and with names from outside as `name`
        does."""
        message = self.message
        for each in filter(None, self.quotes):
            message = message.replace(each, text(each))
        return message, self.hint


class UsageError(AutoinferError):
    """The input is not acceptable: an unknown name, a value outside its range, a malformed label."""

    exit_code = EXIT_USAGE


class PermissionRefused(AutoinferError):
    """The operating system or the server does not let this user read or write there."""


class DiskFull(AutoinferError):
    """No space is left where something had to be written; what was stored before is untouched."""


class ProviderUnreachable(AutoinferError):
    """A provider of remote machines did not answer: whether it did what it was asked for is not known."""


class LeaseLost(AutoinferError):
    """The lease ran out and another process took over: nothing of this attempt may be recorded."""


class DatabaseError(AutoinferError):
    """The database cannot be used as it is."""


class DatabaseMissing(DatabaseError):
    """There is no database at this address."""


class NotADatabase(DatabaseError):
    """There is something at this address, but it is not a database of autoinfer."""


class DatabaseTooNew(DatabaseError):
    """A newer version of autoinfer wrote this database."""


class DatabaseTooOld(DatabaseError):
    """An older version of autoinfer wrote this database; it must be upgraded first."""


class DatabaseLocked(DatabaseError):
    """Another process held the database for longer than we wait."""


class DatabaseReadOnly(DatabaseError):
    """The database, or the folder it lies in, may only be read."""


class DatabaseDamaged(DatabaseError):
    """The database file is malformed, or the disk under it fails."""


class DatabaseUnreachable(DatabaseError):
    """The database server does not answer or refuses the connection."""


PASSING = (DatabaseLocked, DatabaseUnreachable)
"""What may pass by itself: whoever has time tries the same step again."""

WAITED_FOR = (*PASSING, DiskFull)
"""What a worker waits for, too, because it would lose what it measured: a full disk under the database, where
somebody may make room."""
