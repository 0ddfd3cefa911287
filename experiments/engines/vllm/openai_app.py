"""vLLM's own OpenAI server over the engine of a launch, on request. In the driver.

So that `vllm bench serve` and the driver can ask the very same engine, one after the other, and be compared.
Nothing that is measured otherwise goes this way.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

SERVED_AS = "model"
"""What the model is called in requests."""

LOCAL = "127.0.0.1"

LOOK_S = 0.05
"""How often it is looked whether the server answers."""

_SERVING: set[asyncio.Task[Any]] = set()
"""The loop holds its tasks weakly; one that serves must stay."""


async def open_http(engine: Any, folder: str) -> str:
    """Serve the engine at a free port of this machine alone; returns the address, such as
    `http://127.0.0.1:40123`. It ends with the process."""
    from vllm.entrypoints.openai import api_server

    try:
        from vllm.entrypoints.openai.cli_args import make_arg_parser
    except ImportError:  # where it is since 0.32
        from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.bind((LOCAL, 0))
    port = listening.getsockname()[1]
    address = f"http://{LOCAL}:{port}"
    told = ["--model", folder, "--served-model-name", SERVED_AS, "--host", LOCAL, "--port", str(port)]
    parser = make_arg_parser(FlexibleArgumentParser())
    arguments = parser.parse_args([*told, "--disable-uvicorn-access-log"])
    serving = asyncio.create_task(api_server.build_and_serve(engine, address, listening, arguments))
    _SERVING.add(serving)
    while not await _answers(port):
        if serving.done():
            await serving
            raise RuntimeError("vLLM's HTTP server ended as soon as it had begun")
        await asyncio.sleep(LOOK_S)
    return address


async def _answers(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(LOCAL, port)
    except OSError:
        return False
    writer.close()
    return True
