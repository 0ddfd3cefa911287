"""Modal's gRPC service over methods by name, with faults that a test asks for."""

import asyncio
import threading
import time
from collections import Counter, defaultdict
from typing import Any

from google.protobuf.message_factory import GetMessageClass
from grpclib.const import Cardinality, Handler, Status
from grpclib.exceptions import GRPCError
from grpclib.server import Server, Stream
from modal_proto import api_pb2

_SERVICE = api_pb2.DESCRIPTOR.services_by_name["ModalClient"]
_CARDINALITIES = {(False, False): Cardinality.UNARY_UNARY, (False, True): Cardinality.UNARY_STREAM}


class Service:
    """Serves the methods that a subclass has, by the names that they have in Modal's protocol."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.refuse: dict[str, list[Status]] = defaultdict(list)
        """By method: what the next calls of it are refused with."""
        self.lose_answer: Counter[str] = Counter()
        """By method: how often it is done and the answer is lost with the connection."""
        self._by_key: dict[tuple[str, str], Any] = {}

    def __mapping__(self) -> dict[str, Handler]:
        found = {}
        for method in _SERVICE.methods:
            kind = _CARDINALITIES.get((method.client_streaming, method.server_streaming))
            if kind is None:
                continue
            path = f"/{_SERVICE.full_name}/{method.name}"
            request, response = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
            found[path] = Handler(self._handler(method.name, kind), kind, request, response)
        return found

    def _handler(self, name: str, kind: Cardinality) -> Any:
        async def handle(stream: Stream[Any, Any]) -> None:
            request = await stream.recv_message()
            self.counts[name] += 1
            if self.refuse[name]:
                raise GRPCError(self.refuse[name].pop(0), "refused as the test asked")
            method = getattr(self, name, None)
            if method is None:
                raise GRPCError(Status.UNIMPLEMENTED, f"the fake has no {name}")
            if kind is Cardinality.UNARY_STREAM:
                for each in method(request):
                    await stream.send_message(each)
                return
            key = (name, str((stream.metadata or {}).get("x-idempotency-key", "")))
            if key[1] and key in self._by_key:
                answer = self._by_key[key]
            else:
                answer = method(request)
                if asyncio.iscoroutine(answer):
                    answer = await answer
                self._by_key[key] = answer
            if self.lose_answer[name]:
                self.lose_answer[name] -= 1
                raise GRPCError(Status.UNAVAILABLE, "the connection was lost")
            await stream.send_message(answer)

        return handle


class _Server(Server):
    """One that can end its connections at once."""

    def __init__(self, handlers: list[Any]) -> None:
        super().__init__(handlers)
        self.connections: list[Any] = []

    def _protocol_factory(self) -> Any:
        self.connections.append(super()._protocol_factory())
        return self.connections[-1]


class Loopback:
    """The service on a port of this machine, in a thread of its own; can be cut off and put back."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server: _Server | None = None
        self.port = 0
        self.mend()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def busy_s(self) -> float:
        """Seconds of a processor that the service has taken so far."""

        async def used() -> float:
            return time.thread_time()

        return float(self.do(used()))

    def do(self, awaitable: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(awaitable, self._loop).result(20)

    def cut(self) -> None:
        """Close every connection and refuse new ones."""

        async def cut() -> None:
            assert self._server is not None
            self._server.close()
            for each in self._server.connections:
                transport = getattr(getattr(each, "connection", None), "_transport", None)
                if transport is not None:
                    transport.abort()
            await asyncio.sleep(0.01)  # what was aborted is told so

        self.do(cut())

    def mend(self) -> None:
        """Listen (again), at the same port."""

        async def mend() -> None:
            self._server = _Server([self._service])
            await self._server.start("127.0.0.1", self.port or 0)
            sockets = self._server._server.sockets
            self.port = sockets[0].getsockname()[1]

        self.do(mend())

    def close(self) -> None:
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
