"""The process of a launch, in vLLM's own Python: reads an order and requests from stdin, answers on stdout.

It holds vLLM's asynchronous engine, the part of vLLM's server below its HTTP interface, and takes the time
at which each step's tokens arrive. Started by `launch.py`; ends when its parent does (`parent.py`), and the
engine's own process with it. Everything it prints goes to the log.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import fields
from itertools import count
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
from experiments.engines.vllm.arrivals import OURS, arrived_s, keep_arrivals
from experiments.engines.vllm.engine_process import EngineProcesses
from experiments.engines.vllm.failures import ENGINE_DIED
from experiments.engines.vllm.order import VllmOrder
from experiments.engines.vllm.wrapped_checkpoint import served_folder
from experiments.measurement.evidence import Json

WORKER_EXTENSION = "experiments.engines.vllm.worker.EngineProbe"

ACCEPTED_PER_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos"


class Driver:
    """One loaded model; what is asked of it is answered one after the other."""

    def __init__(self, order: VllmOrder, engine: Any, load: dict[str, Json]) -> None:
        self.order = order
        self.load = load
        self._engine = engine
        self._names = count()

    @classmethod
    async def started(cls, order: VllmOrder) -> Driver:
        """Load as ordered; raises `Infeasible` for an argument that this vLLM does not know, and whatever
        vLLM raises."""
        start_s = time.perf_counter()
        own_process = os.environ.get("VLLM_ENABLE_V1_MULTIPROCESSING") != "0"
        processes = EngineProcesses.begun() if own_process else None
        from vllm import ModelRegistry
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        imported_s = time.perf_counter()
        folder = served_folder(Path(order.checkpoint), ModelRegistry.get_supported_archs(), Path(order.kept))
        arguments = order.arguments | {
            "model": str(folder),
            "worker_extension_cls": WORKER_EXTENSION,
            **_text_only(folder),
        }
        known = {field.name for field in fields(AsyncEngineArgs)}
        for name in arguments.keys() - known:
            import vllm

            raise Infeasible("unsupported", f"vLLM {vllm.__version__} has no setting {name}.")
        keep_arrivals()
        if processes is not None and not processes.use():
            print("vLLM imports for its engine's process once more.", flush=True)
        engine = AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments))
        gc.collect()
        gc.freeze()
        load: dict[str, Json] = {
            "import_s": imported_s - start_s,
            "engine_s": time.perf_counter() - imported_s,
        }
        return cls(order, engine, load)

    async def answer(self, request: Mapping[str, Any]) -> Json:
        """The answer to one request; raises `Infeasible` when it can't be served."""
        match request["op"]:
            case "resolved":
                return dict(await self.call("autoinfer_describe"))
            case "generate":
                return data_of(await self.generate(message_of(GenerationRequest, request["request"])))
            case "serve":
                from experiments.engines.vllm.serving import serve

                traces = await serve(
                    self, messages_of(GenerationRequest, request["requests"]), request["concurrency"]
                )
                return [data_of(trace) for trace in traces]
            case "open_http":
                from experiments.engines.vllm.openai_app import open_http

                return await open_http(self._engine, str(self._engine.model_config.model))
            case "score":
                from experiments.engines.vllm.scoring import score

                return await score(
                    self,
                    messages_of(ScoringDocument, request["documents"]),
                    messages_of(ScoringTask, request["tasks"]),
                    request["reference"],
                    request["write_reference"],
                )
            case "draft_texts":
                from experiments.engines.vllm.drafting_check import draft_texts

                texts = await draft_texts(self, messages_of(GenerationRequest, request["requests"]))
                return [data_of(text) for text in texts]
            case "check_drafting":
                from experiments.engines.vllm.drafting_check import check_drafting

                checks = await check_drafting(
                    self,
                    messages_of(GenerationRequest, request["requests"]),
                    messages_of(GenerationTrace, request["texts"]),
                )
                return [data_of(check) for check in checks]
            case "profile":
                from experiments.engines.vllm.profile import profile

                asked = message_of(GenerationRequest, request["request"])
                return await profile(self, asked, int(request["concurrency"]))
            case unknown:
                raise Infeasible("unsupported", f"vLLM's driver knows no request {unknown!r}.")

    async def call(self, method: str, *arguments: Any) -> Any:
        """What the worker answers to a method of `EngineProbe`; raises `Infeasible` when it refuses."""
        answers = await self._engine.collective_rpc(method, args=arguments)
        answer = answers[0]
        if "infeasible" in answer:
            raise Infeasible(answer["infeasible"]["kind"], answer["infeasible"]["cause"])
        return answer["ok"]

    async def generate(self, request: GenerationRequest) -> GenerationTrace:
        """One greedy generation.

        With drafting some more tokens are asked for than are kept, so that the last step is whole.
        """
        drafts = self.order.draft_tokens
        ids: list[int] = []
        times_s: list[float] = []
        steps: list[int] = []
        start_s = time.perf_counter()
        sampling: dict[str, Any] = {"max_tokens": request.new_tokens + drafts, "seed": request.seed}
        if request.stop_ids:
            sampling["stop_token_ids"] = list(request.stop_ids)
        async for output in self._requested(request.prompt_ids, sampling):
            new = list(output.outputs[0].token_ids)
            if new and len(ids) < request.new_tokens:
                ids += new
                times_s += [arrived_s(output) - start_s] * len(new)
                steps.append(len(new))
        kept = request.kept(ids)
        if not kept or not request.ended_by(kept):
            raise Infeasible(
                "crashed", f"vLLM gave {len(ids)} tokens of the {request.new_tokens} that were asked for."
            )
        if drafts and max(steps[1:], default=0) > drafts + 1:
            raise Infeasible("crashed", "Tokens of several steps came together, so steps can't be told.")
        return GenerationTrace(
            kept,
            tuple(times_s[: len(kept)]),
            tuple(steps[1:]) if drafts else (),
            start_s,
        )

    async def say(self, prompt_ids: tuple[int, ...], new_tokens: int) -> list[int]:
        """Generate greedily and take no time; gives the tokens."""
        outputs = self._requested(prompt_ids, {"max_tokens": new_tokens})
        return [token async for output in outputs for token in output.outputs[0].token_ids]

    async def read_prompt(self, ids: tuple[int, ...]) -> list[float]:
        """Prefill a text; gives vLLM's own log-probability of each token after the first."""
        found: list[float] = []
        async for output in self._requested(ids, {"max_tokens": 1, "prompt_logprobs": 1}):
            if output.prompt_logprobs:
                told = list(output.prompt_logprobs)
                found = [float(each[token].logprob) for each, token in zip(told, ids, strict=True) if each]
        return found

    def accepted_per_position(self) -> list[int]:
        """vLLM's count of accepted drafts by position since the start; empty without drafting."""
        from vllm.v1.metrics.reader import get_metrics_snapshot

        for metric in get_metrics_snapshot():
            if metric.name == ACCEPTED_PER_POSITION:
                return [int(value) for value in metric.values]
        return []

    async def _requested(self, prompt_ids: tuple[int, ...], sampling: Mapping[str, Any]) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        parameters = SamplingParams(
            temperature=0.0,
            ignore_eos=True,
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
            **sampling,
        )
        name = f"{OURS}{next(self._names)}"
        prompt = {"prompt_token_ids": list(prompt_ids)}
        try:
            async for output in self._engine.generate(prompt, parameters, name):
                yield output
        except ValueError as refusal:
            raise Infeasible("illegal", f"vLLM refused the request: {refusal}") from None


def _text_only(checkpoint: Path) -> dict[str, Any]:
    """What loads the text model alone out of a checkpoint with a vision tower."""
    config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    return {"language_model_only": True} if "vision_config" in config else {}


def reply_to_failure(failure: Exception) -> dict[str, Json]:
    """A failure as a reply; the traceback of what is not a refusal goes to the log."""
    if isinstance(failure, Infeasible):
        return infeasible_data(failure)
    if type(failure).__name__ == "EngineDeadError":
        return infeasible_data(Infeasible("crashed", f"{ENGINE_DIED}: {failure}"))
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
        driver = await Driver.started(message_of(VllmOrder, requests.get()))
    except Exception as failure:
        send(replies, reply_to_failure(failure))
        return
    send(replies, {"ok": driver.load})
    while True:
        request = await loop.run_in_executor(None, requests.get)
        try:
            reply: dict[str, Json] = {"ok": await driver.answer(request)}
        except Exception as failure:
            reply = reply_to_failure(failure)
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
