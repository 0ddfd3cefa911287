"""What opens a dashboard that other machines can reach: a file's token, stored ones, or one of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from configs.errors import PermissionRefused, UsageError
from dashboard.web.access import Access, StoredTokens
from db.access_tokens import digest_of, live_names, new_token
from db.session import Database

LEAST_CHARACTERS = 16
"""Of a token in a file: fewer could be tried through."""

LARGEST_BYTES = 4096
"""Of a file with a token: what is larger is another file."""


@dataclass(frozen=True)
class Opened:
    """Who may ask, the token that was made for this server alone if one was, and what is told beside the
    address; no secret of a file."""

    access: Access = field(default_factory=Access)
    token: str | None = None
    told: tuple[str, ...] = ()

    @property
    def suffix(self) -> str:
        """What is added to the printed address of pages, where the token is asked for once."""
        return "" if self.token is None else f"/?token={self.token}"


def opened_by(database: Database, token_file: Path | None) -> Opened:
    """What opens it: the tokens in the database, as they hold at each request, and that of the file if given.

    Where there is neither, a token is made for this one server, and is in the address alone. Raises
    `UsageError` and `PermissionRefused` for a file that has none, and as `Database.read`.
    """
    with database.read() as session:
        some_stored = bool(live_names(session))
    if token_file is not None:
        own = digest_of(read_token(token_file))
        told = f"It asks for the token in {token_file}, or for one of `autoinfer token list`."
        return Opened(Access(asks=True, tokens=StoredTokens(database, own)), told=(told,))
    if some_stored:
        told = (
            "It asks for a token: one of `autoinfer token list`, or a new one of `autoinfer token new NAME`."
        )
        return Opened(Access(asks=True, tokens=StoredTokens(database)), told=(told,))
    token = new_token()
    return Opened(Access(asks=True, tokens=StoredTokens(database, digest_of(token))), token)


def read_token(path: Path) -> str:
    """The token in a file, without the white space around it.

    Raises `UsageError` for what holds none, `PermissionRefused` for what may not be read.
    """
    hint = "Correct dashboard_token_file, or leave it out."
    try:
        with path.open("rb") as file:
            text = file.read(LARGEST_BYTES + 1).decode("ascii").strip()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise UsageError(f"There is no file {path} to read the dashboard's token from.", hint) from None
    except PermissionError:
        raise PermissionRefused(
            f"The file {path} with the dashboard's token may not be read.", hint
        ) from None
    except UnicodeDecodeError:
        text = ""
    if len(text) > LARGEST_BYTES or not text.isprintable() or len(text.split()) != 1:
        raise UsageError(f"The file {path} holds no token: one word in letters, digits and signs.", hint)
    if len(text) < LEAST_CHARACTERS:
        raise UsageError(
            f"The token in {path} has {len(text)} characters, and must have {LEAST_CHARACTERS} at least.",
            "Put a longer one into the file, such as that of: openssl rand -hex 32",
        )
    return text
