"""The process of a launch, in vLLM's own Python: reads an order and requests from stdin, answers on stdout.

It holds a `LoadedEngine`. Started by `launch.py`; ends when its parent does (`parent.py`), and the engine's
own process with it. Everything it prints goes to the log.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from experiments.engines.messages import data_of, infeasible_data, message_of, messages_of, send
from experiments.engines.parent import requests_from
from experiments.engines.port import (
    GenerationRequest,
    GenerationTrace,
    Infeasible,
    ScoringDocument,
    ScoringTask,
)
from experiments.engines.vllm.failures import engine_died
from experiments.engines.vllm.loaded_engine import LoadedEngine, import_vllm
from experiments.engines.vllm.order import IMPORTED, VllmOrder
from experiments.measurement.evidence import Json


async def answer(engine: LoadedEngine, request: Mapping[str, Any]) -> Json:
    """The answer to one request; raises `Infeasible` when it can't be served."""
    match request["op"]:
        case "resolved":
            return dict(await engine.call("autoinfer_describe"))
        case "generate":
            return data_of(await engine.generate(message_of(GenerationRequest, request["request"])))
        case "serve":
            from experiments.engines.vllm.serving import serve

            traces = await serve(
                engine, messages_of(GenerationRequest, request["requests"]), request["concurrency"]
            )
            return [data_of(trace) for trace in traces]
        case "open_http":
            return await engine.open_http()
        case "health":
            return await engine.health()
        case "steps_over_http":
            return engine.steps_over_http(request["names"])
        case "score":
            from experiments.engines.vllm.scoring import score

            return await score(
                engine,
                messages_of(ScoringDocument, request["documents"]),
                messages_of(ScoringTask, request["tasks"]),
                request["reference"],
                request["write_reference"],
            )
        case "draft_texts":
            from experiments.engines.vllm.drafting_check import draft_texts

            texts = await draft_texts(engine, messages_of(GenerationRequest, request["requests"]))
            return [data_of(text) for text in texts]
        case "check_drafting":
            from experiments.engines.vllm.drafting_check import check_drafting

            checks = await check_drafting(
                engine,
                messages_of(GenerationRequest, request["requests"]),
                messages_of(GenerationTrace, request["texts"]),
            )
            return [data_of(check) for check in checks]
        case "profile":
            from experiments.engines.vllm.profile import profile

            asked = message_of(GenerationRequest, request["request"])
            return await profile(engine, asked, int(request["concurrency"]))
        case unknown:
            raise Infeasible("unsupported", f"vLLM's driver knows no request {unknown!r}.")


def reply_to_failure(failure: Exception, engine: LoadedEngine | None = None) -> dict[str, Json]:
    """A failure as a reply, of an engine that had loaded or not; the traceback of what is not a refusal goes
    to the log."""
    if isinstance(failure, Infeasible):
        return infeasible_data(failure)
    if type(failure).__name__ == "EngineDeadError":
        code = None if engine is None else engine.exit_code()
        return infeasible_data(Infeasible("crashed", engine_died(failure, code)))
    traceback.print_exception(failure)
    return infeasible_data(
        Infeasible("crashed", f"{type(failure).__name__}: {' '.join(str(failure).split())}")
    )


async def answer_requests() -> None:
    """Answer until the parent goes."""
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what libraries print belongs into the log
    requests = requests_from(sys.stdin.buffer)
    loop = asyncio.get_running_loop()
    try:
        imported = import_vllm()  # before it is told what to load: a driver may be begun ahead of its order
        with suppress(OSError, KeyError):  # the next load then begins without it
            Path(os.environ["TMPDIR"], IMPORTED).touch()
        engine = await LoadedEngine.started(message_of(VllmOrder, requests.get()), imported)
    except Exception as failure:
        send(replies, reply_to_failure(failure))
        return
    send(replies, {"ok": engine.load})
    while True:
        request = await loop.run_in_executor(None, requests.get)
        try:
            reply: dict[str, Json] = {"ok": await answer(engine, request)}
        except Exception as failure:
            reply = reply_to_failure(failure, engine)
        send(replies, reply)


def main() -> None:
    """Answer in an event loop of its own, of the kind that vLLM's own server runs in."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    try:
        from uvloop import run
    except ImportError:
        from asyncio import run
    run(answer_requests())


if __name__ == "__main__":
    main()
