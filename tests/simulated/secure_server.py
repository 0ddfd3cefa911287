"""A server on 127.0.0.1 that speaks TLS with a certificate that nobody signed but itself."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PEM, KEY_FORMAT = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8


@contextmanager
def secure_server(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Serve until the block ends; its address, and the keys of the requests that reached it."""
    got: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_POST(self) -> None:
            got.append(self.headers.get("Authorization", ""))

    class Server(ThreadingHTTPServer):
        def finish_request(self, request: object, client_address: object) -> None:
            with suppress(OSError):  # a handshake that the other side ends
                secured = context.wrap_socket(request, server_side=True)  # type: ignore[arg-type]
                super().finish_request(secured, client_address)  # type: ignore[arg-type]

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*_signed_by_itself(folder))
    server = Server(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=server.serve_forever, args=(0.01,))
    serving.start()
    try:
        yield f"https://localhost:{server.server_port}", got
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


def _signed_by_itself(folder: Path) -> tuple[Path, Path]:
    """The files of a certificate for localhost and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    files = folder / "certificate.pem", folder / "key.pem"
    files[0].write_bytes(certificate.public_bytes(PEM))
    files[1].write_bytes(key.private_bytes(PEM, KEY_FORMAT, serialization.NoEncryption()))
    return files
