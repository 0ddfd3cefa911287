"""A TCP proxy on loopback that can be told to lose the network: in silence, as a pulled cable does."""

import select
import socket
import threading
from contextlib import suppress

CHUNK_BYTES = 1 << 16
LOOK_S = 0.05


class Proxy:
    """Forwards connections to `port`; its own is `self.port`.

    `cut` stops forwarding without a word and takes no new connection to the server; `mend` goes on: what was
    connected before is dead then, as behind a router that has forgotten it, unless `stall` did it.
    """

    def __init__(self, port: int, address: str = "127.0.0.1") -> None:
        self._there = (address, port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._flows = threading.Event()
        self._flows.set()
        self._over = False
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._flows.clear()

    def mend(self) -> None:
        self._drop()
        self._flows.set()

    def go_on(self) -> None:
        """As `mend`, but what was under way arrives late."""
        self._flows.set()

    def close(self) -> None:
        self._over = True
        self._flows.set()
        self._listening.close()
        self._drop()

    def _drop(self) -> None:
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for each in pair:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._over:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        self._flows.wait()
        try:
            far = socket.create_connection(self._there)
        except OSError:
            near.close()
            return
        with self._lock:
            self._pairs.append((near, far))
        with near, far:
            back = threading.Thread(target=self._forward, args=(far, near), daemon=True)
            back.start()
            self._forward(near, far)
            back.join()

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError, ValueError):
            while not self._over:
                if not select.select([source], [], [], LOOK_S)[0]:
                    continue
                data = source.recv(CHUNK_BYTES)
                self._flows.wait()
                if not data:
                    break
                sink.sendall(data)
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
