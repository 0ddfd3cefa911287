"""One request to an endpoint and its answer, both bounded: the thin edge to the network.

The standard library's client, because what matters here is what it does not do: no redirect is followed (it
would carry the key elsewhere), no proxy of the environment is asked, no more than so many bytes are read, and
the connection is shut at the deadline wherever it hangs: in the handshake, between two bytes of a header, or
in a stream that never ends.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from configs.errors import AutoinferError

MOST_BYTES = 1 << 20
"""Bytes of an answer that are read: a thousand times what an answer needs."""

CHUNK_BYTES = 1 << 14
"""Bytes that are read at once."""

CONNECT_S = 10.0
"""Seconds for the connection."""


GIVEN_UP = "The question was given up."
"""What is said of a question that was cut off from this side."""


TRUST = (
    "Name the file of the authority that signed it in SSL_CERT_FILE, or ask an endpoint whose certificate is."
)
"""What to do about a certificate that is not trusted; the standard library reads that variable."""

NO_TLS = "WRONG_VERSION_NUMBER"
"""How OpenSSL calls an answer that is not in TLS."""

PLAIN = "Write its address with http:// where it is on this machine."
"""What to do about a server that speaks no TLS."""


class Unreachable(AutoinferError):
    """The endpoint did not answer as a server does: it may at the next attempt."""


class Untrusted(Unreachable):
    """No encrypted connection comes about with what answers there: nor will it at the next attempt."""


class Cancelled(AutoinferError):
    """The question was given up."""


@dataclass(frozen=True)
class Answered:
    """An answer of a server: its status, the headers that matter, and its body."""

    status: int
    content_type: str
    retry_after_s: float | None
    body: bytes


class Line:
    """The connection of one question, which another thread may cut; `sent` counts the requests that went out
    on it."""

    def __init__(self) -> None:
        self.sent = 0
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._cut = threading.Event()

    @property
    def is_cut(self) -> bool:
        """Whether it was given up."""
        return self._cut.is_set()

    def wait(self, seconds: float) -> None:
        """Wait so long, or until it is given up."""
        self._cut.wait(seconds)

    def cut(self) -> None:
        """Give the question up; whoever waits for it gets `Cancelled`."""
        with self._lock:
            self._cut.set()
            _shut(self._socket)

    @contextlib.contextmanager
    def holding(self, opened: socket.socket | None) -> Iterator[None]:
        """Let the connection be cut meanwhile."""
        with self._lock:
            self._socket = opened
            if self._cut.is_set():
                _shut(opened)
        try:
            yield
        finally:
            with self._lock:
                self._socket = None


def exchange(
    url: str,
    body: bytes | None,
    *,
    key: str,
    deadline: float,
    line: Line,
    most_bytes: int = MOST_BYTES,
    clock: Callable[[], float] = time.monotonic,
) -> Answered:
    """Send the body as JSON, or ask without one, and return the answer, whatever its status.

    `deadline` is a moment of `clock`, in seconds. Raises `Unreachable` where there is no answer until then or
    one that is too long, `Untrusted` where its certificate is not to be trusted or it speaks no TLS, and
    `Cancelled` where the line was cut.
    """
    left_s = deadline - clock()
    if line.is_cut:
        raise Cancelled(GIVEN_UP)
    if left_s <= 0:
        raise Unreachable("No answer came in time.")
    parts = urlsplit(url)
    connection = _connection(parts.scheme, parts.hostname or "", parts.port, min(CONNECT_S, left_s))
    late = threading.Event()
    watch: threading.Timer | None = None
    try:
        connection.connect()
        opened: socket.socket = connection.sock

        def end() -> None:
            late.set()
            _shut(opened)

        watch = threading.Timer(max(0.0, deadline - clock()), end)
        watch.daemon = True
        watch.start()
        opened.settimeout(max(0.01, deadline - clock()))
        with line.holding(opened):
            headers = {
                "Content-Type": "application/json",
                "Accept": "application/json",
                "User-Agent": "autoinfer",
            }
            if key:
                headers["Authorization"] = f"Bearer {key}"
            method = "GET" if body is None else "POST"
            line.sent += 1
            connection.request(method, parts.path or "/", body, headers)
            answer = connection.getresponse()
            told = _read(answer, most_bytes)
        if late.is_set() or line.is_cut:  # what was shut reads as the end of an answer
            raise Unreachable("The answer was cut off.")
        return Answered(
            answer.status,
            answer.headers.get_content_type() if answer.headers.get("Content-Type") else "",
            _seconds(answer.headers.get("Retry-After")),
            told,
        )
    except (OSError, http.client.HTTPException, ValueError, Unreachable) as error:
        if line.is_cut:
            raise Cancelled(GIVEN_UP) from None
        if late.is_set() or isinstance(error, TimeoutError):
            raise Unreachable("No answer came in time.") from None
        if isinstance(error, Unreachable):
            raise
        if isinstance(error, ssl.SSLCertVerificationError):
            why = error.verify_message.strip().rstrip(".")
            raise Untrusted(f"The endpoint's certificate is not trusted: {why}.", TRUST) from None
        if isinstance(error, ssl.SSLError) and error.reason == NO_TLS:
            raise Untrusted("The endpoint speaks no TLS.", PLAIN) from None
        raise Unreachable(f"The endpoint can't be reached: {_reason(error)}.") from None
    finally:
        if watch is not None:
            watch.cancel()
        connection.close()


def _connection(scheme: str, host: str, port: int | None, timeout_s: float) -> http.client.HTTPConnection:
    if scheme == "https":
        return http.client.HTTPSConnection(
            host, port, timeout=timeout_s, context=ssl.create_default_context()
        )
    return http.client.HTTPConnection(host, port, timeout=timeout_s)


def _read(answer: http.client.HTTPResponse, most_bytes: int) -> bytes:
    """The body; raises `Unreachable` where it is longer than so many bytes."""
    found = bytearray()
    while chunk := answer.read1(CHUNK_BYTES):
        found += chunk
        if len(found) > most_bytes:
            raise Unreachable(f"The answer is longer than {most_bytes} bytes.")
    if answer.length:  # the rest of what its header promised
        raise Unreachable("The answer was cut off.")
    return bytes(found)


def _shut(opened: socket.socket | None) -> None:
    if opened is not None:
        with contextlib.suppress(OSError):
            opened.shutdown(socket.SHUT_RDWR)


def _seconds(told: str | None) -> float | None:
    """What `Retry-After` says in seconds; None where it says nothing, or a date."""
    try:
        seconds = float(told or "")
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def _reason(error: Exception) -> str:
    """The cause in a few words, without what a server wrote."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__
