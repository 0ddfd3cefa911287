"""The process that asks vLLM's HTTP server, seen from the parent. Imports no torch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from experiments.engines.messages import data_of, messages_of
from experiments.engines.one_answer import python_command
from experiments.engines.port import GenerationRequest, GenerationTrace
from experiments.engines.server_process import ServerProcess, not_started
from experiments.engines.vllm.arrivals import OURS
from experiments.engines.vllm.environment import VllmEnvironment
from experiments.engines.vllm.openai_app import SERVED_AS
from experiments.measurement.evidence import Json

CLIENT_MODULE = "experiments.engines.vllm.http_client"

CLIENT = "vLLM's HTTP client"
"""How it is named in a sentence."""


class HttpClient:
    """A client of the server at an address, kept for all blocks of a launch; not for several threads."""

    def __init__(
        self,
        address: str,
        found: VllmEnvironment,
        log_path: Path,
        cache_dir: Path,
        module: str = CLIENT_MODULE,
    ) -> None:
        """Start the process, which runs `module`; raises `Infeasible` when it, or its log, can't be begun."""
        self._server: dict[str, Json] = {"address": address, "model": SERVED_AS}
        self._blocks = count()
        command = python_command(found.python, module)
        try:
            self._process = ServerProcess(CLIENT, command, client_environment, log_path, cache_dir)
        except OSError as cause:
            raise not_started(CLIENT, cause) from None

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def ask(
        self, requests: Sequence[GenerationRequest], concurrency: int, limit_s: float
    ) -> tuple[list[GenerationTrace], list[str]]:
        """One trace a request, in their order, without steps, and the name that each had on the server.

        Raises `Infeasible`: what the server refused or how it failed, of kind `timed_out` when it takes
        longer than `limit_s` or hangs, `crashed` when the client dies.
        """
        answer = self._process.ask(
            {
                **self._server,
                "name": f"{OURS}{next(self._blocks)}",
                "requests": [data_of(each) for each in requests],
                "concurrency": concurrency,
            },
            limit_s,
            "serve them",
        )
        return messages_of(GenerationTrace, answer["traces"]), answer["names"]

    def prepare(self, requests: Sequence[GenerationRequest], limit_s: float) -> None:
        """Have the prompts of the next block written; raises `Infeasible` as `ask`."""
        order: dict[str, Json] = {
            "prepare": True,
            **self._server,
            "requests": [data_of(each) for each in requests],
        }
        self._process.ask(order, limit_s, "write their prompts")

    def close(self) -> None:
        """End the process; idempotent."""
        self._process.close()


def client_environment(temporary: str) -> dict[str, str]:
    """The variables of a client: vLLM's own Python, and what is temporary in a folder of the launch."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return kept | {"PYTHONUNBUFFERED": "1", "TMPDIR": temporary}
