"""vLLM's own OpenAI server over the engine of a launch, on request. In the driver.

What a workload is asked by where it is asked over HTTP (`http_client.py`), and what `vllm bench serve` can
ask too, so that the two are compared on the very same engine.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from importlib import import_module
from typing import Any

from experiments.engines.port import Infeasible

SERVED_AS = "model"
"""What the model is called in requests."""

LOCAL = "127.0.0.1"

LOOK_S = 0.05
"""How often it is looked whether the server answers."""

PARSERS = (
    "vllm.entrypoints.openai.cli_args",
    "vllm.entrypoints.launchers.cli_args",
    "vllm.entrypoints.common.cli_args",
)
"""Where the server's arguments are, in 0.26, in 0.32 and in 0.33."""

_SERVING: set[asyncio.Task[Any]] = set()
"""The loop holds its tasks weakly; one that serves must stay."""


async def open_http(engine: Any, folder: str) -> str:
    """Serve the engine at a free port of this machine alone; returns the address, such as
    `http://127.0.0.1:40123`. It ends with the process."""
    from vllm.entrypoints.openai import api_server
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.bind((LOCAL, 0))
    port = listening.getsockname()[1]
    address = f"http://{LOCAL}:{port}"
    told = ["--model", folder, "--served-model-name", SERVED_AS, "--host", LOCAL, "--port", str(port)]
    parser = _arguments_of_the_server()(FlexibleArgumentParser())
    arguments = parser.parse_args([*told, "--disable-uvicorn-access-log"])
    serving = asyncio.create_task(api_server.build_and_serve(engine, address, listening, arguments))
    _SERVING.add(serving)
    while not await _answers(port):
        if serving.done():
            await serving
            raise RuntimeError("vLLM's HTTP server ended as soon as it had begun")
        await asyncio.sleep(LOOK_S)
    _leave_signals_to_the_driver()
    return address


def _arguments_of_the_server() -> Any:
    """vLLM's `make_arg_parser`, where a version has it."""
    for module in PARSERS:
        try:
            return import_module(module).make_arg_parser
        except ImportError:
            continue
    raise Infeasible(
        "unsupported",
        "This vLLM has the arguments of its HTTP server where they are not known here; ask it in its own "
        "process: asked_over: engine.",
    )


def _leave_signals_to_the_driver() -> None:
    """Undo what the server does with signals: Ctrl-C would end it, and a SIGTERM nothing but it."""
    loop = asyncio.get_running_loop()
    for number, own in ((signal.SIGINT, signal.SIG_IGN), (signal.SIGTERM, signal.SIG_DFL)):
        loop.remove_signal_handler(number)
        signal.signal(number, own)


async def _answers(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(LOCAL, port)
    except OSError:
        return False
    writer.close()
    return True
