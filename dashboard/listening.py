"""The socket that the dashboard is served on: which address, and which port.

Nothing of the server is imported here, so that a campaign can name the address before it pays for one.
"""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass

from configs.errors import AutoinferError, UsageError
from dashboard.web.access import is_loopback

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8420

PORTS_TRIED = 20
"""Ports after the first that are tried where it is in use and was not asked for by name."""


@dataclass(frozen=True)
class Listening:
    """A listening socket with the address to open; `is_open` where other machines may reach it.

    Who connects before a server accepts waits for it.
    """

    socket: socket.socket
    address: str
    is_open: bool = False


def listen(host: str = DEFAULT_HOST, port: int | None = None) -> Listening:
    """Listen on the port, or the first free one from `DEFAULT_PORT` on where none is given.

    Raises `UsageError` for a host that is not this machine's, `AutoinferError` for a port in use.
    """
    wanted = range(DEFAULT_PORT, DEFAULT_PORT + PORTS_TRIED + 1) if port is None else (port,)
    for each in wanted:
        found = _socket_at(host, each)
        if found is not None:
            break
    else:
        raise AutoinferError(
            f"Port {wanted[0]} of {host} is in use."
            if port is not None
            else f"The ports {wanted[0]} to {wanted[-1]} of {host} are all in use.",
            "Give another with: autoinfer dashboard --port PORT",
        )
    return Listening(found, _address(host, found), is_open=not is_loopback(host))


def taken_over(descriptor: int) -> Listening:
    """The socket of this number, on which the parent process listens at a loopback address.

    Raises `UsageError` where there is none.
    """
    try:
        found = socket.socket(fileno=descriptor)
        host = found.getsockname()[0]
    except (OSError, IndexError) as error:
        raise UsageError(
            f"Number {descriptor} is no open socket ({error}).",
            "That option is for `autoinfer run`; without it: autoinfer dashboard --port PORT",
        ) from None
    return Listening(found, _address(host, found))


def _address(host: str, listening: socket.socket) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listening.getsockname()[1]}"


def _socket_at(host: str, port: int) -> socket.socket | None:
    """A listening socket; None where the port is in use, also by a socket that does not listen yet."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        made = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise UsageError(f"{host!r} is no address: {error.strerror}.", "Give --host an address.") from None
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
        made.listen()
    except OSError as error:
        made.close()
        if error.errno == errno.EADDRINUSE:
            return None
        raise UsageError(
            f"{host}:{port} can't be served on: {error.strerror}.",
            "Give --host an address of this machine and --port a number from 1024 on.",
        ) from None
    return made
