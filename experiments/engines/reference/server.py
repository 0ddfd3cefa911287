"""The process of a launch: reads an order and requests from stdin, answers on stdout, logs to stderr.

Started as `python -m experiments.engines.reference.server` by `engine.py`; ends when its parent does
(`parent.py`).
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.engines.garbage import unsearched
from experiments.engines.messages import data_of, infeasible_data, message_of, messages_of, send
from experiments.engines.one_device import seen_as
from experiments.engines.parent import requests_from
from experiments.engines.port import (
    GenerationRequest,
    Infeasible,
    ScoringDocument,
    ScoringTask,
)
from experiments.engines.reference.protocol import LaunchOrder
from experiments.engines.torch_memory import memory_told, missing_bytes
from experiments.measurement.evidence import Json

_DOES_NOT_FIT = "The model does not fit into memory"
_WAYS = "free some of it, or take a shorter workload, a smaller model or a target with more memory"


class Server:
    """Serves one loaded model."""

    def __init__(self, order: LaunchOrder) -> None:
        """Load as ordered; raises `Infeasible`."""
        with unsearched():
            self._load(order)

    def _load(self, order: LaunchOrder) -> None:
        start_s = time.perf_counter()
        import torch

        from experiments.engines.reference.capacity import SMALLEST_CAPACITY
        from experiments.engines.reference.checkpoint import DTYPES, load_model
        from experiments.engines.reference.drafting.factory import decoder_for
        from experiments.engines.reference.inspection import inspect_checkpoint
        from experiments.engines.reference.score import Scorer
        from experiments.engines.reference.stored_weights import stored_weights

        imported_s = time.perf_counter()
        torch.set_num_threads(order.threads)
        torch.set_num_interop_threads(1)
        self._device, device = order.device, torch.device(seen_as(order.device))
        if device.type == "cuda" and not torch.cuda.is_available():
            raise Infeasible(
                "unsupported", f"This PyTorch ({torch.__version__}) sees no GPU for {order.device}."
            )
        files = inspect_checkpoint(order.folder)
        self._weights = dict(stored_weights(files, order.dtype))
        model = load_model(files, DTYPES[order.dtype], device)
        self._decoder, self._speculation = decoder_for(
            model, files, order.compile, Path(order.cache_dir), order.drafting
        )
        loaded_s = time.perf_counter()
        (self._speculation or self._decoder).prepare(SMALLEST_CAPACITY)
        self._scorer = Scorer(self._decoder, order.drafting.draft_tokens + 1)
        self.load: dict[str, Json] = {
            "import_s": imported_s - start_s,
            "weights_s": loaded_s - imported_s,
            "compile_s": time.perf_counter() - loaded_s,
        }

    def answer(self, request: Mapping[str, Any]) -> Json:
        """The answer to one request; raises `Infeasible` when it can't be served."""
        match request["op"]:
            case "resolved":
                from experiments.engines.reference.resolved import resolved_configuration

                told = resolved_configuration(self._decoder, self._speculation)
                return told | {"device": self._device, "weights": self._weights}
            case "generate":
                generation = message_of(GenerationRequest, request["request"])
                return data_of((self._speculation or self._decoder).generate(generation))
            case "score":
                documents, tasks = self._scorer.score(
                    messages_of(ScoringDocument, request["documents"]),
                    messages_of(ScoringTask, request["tasks"]),
                    Path(request["reference"]) if request["reference"] else None,
                    Path(request["write_reference"]) if request["write_reference"] else None,
                )
                return {
                    "documents": [data_of(document) for document in documents],
                    "tasks": [data_of(task) for task in tasks],
                }
            case "check_drafting":
                from experiments.engines.reference.drafting.check import check_drafting

                if self._speculation is None:
                    raise Infeasible("illegal", "The configuration drafts nothing, so there is no check.")
                checks = check_drafting(
                    self._speculation, messages_of(GenerationRequest, request["requests"])
                )
                return [data_of(check) for check in checks]
            case "profile":
                from experiments.engines.reference.drafting.profile import profile_speculation
                from experiments.engines.reference.profile import profile_step

                profiled = message_of(GenerationRequest, request["request"])
                if self._speculation is not None:
                    parts = profile_speculation(self._speculation, profiled)
                else:
                    parts = profile_step(self._decoder, profiled)
                return [data_of(part) for part in parts]
            case unknown:
                raise Infeasible(
                    "unsupported", f"The reference engine's server knows no request {unknown!r}."
                )


def reply_to_failure(failure: Exception) -> dict[str, Json]:
    """A failure as a reply; the traceback of what is not a refusal goes to the log."""
    if isinstance(failure, Infeasible):
        return infeasible_data(failure)
    traceback.print_exception(failure)
    text = " ".join(str(failure).split())
    full = memory_told(_DOES_NOT_FIT, str(failure), _WAYS)
    if full is None and isinstance(failure, MemoryError):
        full = f"{_DOES_NOT_FIT}; {_WAYS}."
    if full is not None:
        return infeasible_data(Infeasible("out_of_memory", full, missing_bytes(str(failure))))
    return infeasible_data(Infeasible("crashed", f"{type(failure).__name__}: {text}"))


def main() -> None:
    """Serve until the parent goes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what libraries print belongs into the log
    requests = requests_from(sys.stdin.buffer)
    try:
        server = Server(message_of(LaunchOrder, requests.get()))
    except Exception as failure:
        send(replies, reply_to_failure(failure))
        return
    send(replies, {"ok": server.load})
    while True:
        request = requests.get()
        try:
            reply: dict[str, Json] = {"ok": server.answer(request)}
        except Exception as failure:
            reply = reply_to_failure(failure)
        send(replies, reply)


if __name__ == "__main__":
    main()
