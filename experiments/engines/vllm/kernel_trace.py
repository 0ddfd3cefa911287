"""Records what the device runs while an engine decodes, with marks between the parts of a step. In vLLM's
worker.

`torch.profiler` tells the kernels of a GPU, those within replayed graphs too, but not for what they were
queued. So methods of the runner, which are called outside of graphs, are wrapped: each queues a mark before
and after, a copy on the device of a number of bytes that nothing else copies, which lies in the stream in
its place. On a CPU operators stand for kernels and named ranges for marks.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from experiments.engines.vllm.kernel_steps import STEP, Region

MARKS = (STEP, *(region.value for region in Region))
"""What a mark may say; its place here is its number."""

MARK_BYTES = 7001
"""Bytes that the mark of number 0 copies, the others one more each: odd, so that no tensor has as many."""

MARK_PREFIX = "autoinfer:"

_DEVICE_EVENTS = ("kernel", "gpu_memcpy", "gpu_memset")


class KernelTrace:
    """Records from `start` to `stop`, in the thread that runs the steps."""

    def __init__(self, runner: Any) -> None:
        self._runner = runner
        self._on_gpu = torch.cuda.is_available()
        self._saved: list[tuple[Any, str]] = []
        self._within: list[str] = []
        if self._on_gpu:
            with torch.inference_mode(False):  # or they could be written to in that mode alone
                self._source, self._target = (
                    torch.zeros(MARK_BYTES + len(MARKS), dtype=torch.uint8, device="cuda") for _ in range(2)
                )
        activity = ProfilerActivity.CUDA if self._on_gpu else ProfilerActivity.CPU
        self._profile = profile(activities=[activity])

    def start(self) -> None:
        """Begin to record."""
        runner = self._runner
        self._wrap(runner, "execute_model", STEP)
        self._wrap(runner, "sample_tokens", Region.SAMPLING)
        self._wrap(runner.get_model(), "compute_logits", Region.HEAD)
        self._wrap(runner, "propose_draft_token_ids", Region.DRAFTING)
        self._wrap(getattr(runner, "speculator", None), "propose", Region.DRAFTING)
        self._profile.start()

    def stop(self) -> dict[str, Any]:
        """Leave everything as it was; gives the trace, as `kernel_steps.steps_of` takes it."""
        if self._on_gpu:
            torch.cuda.synchronize()
        self._profile.stop()
        for owner, name in self._saved:
            delattr(owner, name)
        self._saved.clear()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "trace.json")
            self._profile.export_chrome_trace(str(path))
            events = json.loads(path.read_text(encoding="utf-8", errors="replace"))["traceEvents"]
        return trace_of(events)

    def _wrap(self, owner: Any, name: str, what: str) -> None:
        original: Callable[..., Any] | None = getattr(owner, name, None)
        if original is None:
            return

        def marked(*arguments: Any, **named: Any) -> Any:
            self._within.append(what)
            self._mark(what)
            try:
                return original(*arguments, **named)
            finally:
                self._within.pop()
                outer = self._within[-1] if self._within else Region.BETWEEN
                self._mark(Region.FORWARD if outer == STEP else outer)

        setattr(owner, name, marked)
        self._saved.append((owner, name))

    def _mark(self, what: str) -> None:
        if self._on_gpu:
            count = MARK_BYTES + MARKS.index(what)
            self._target[:count].copy_(self._source[:count])
        else:
            with record_function(MARK_PREFIX + what):
                pass


def trace_of(events: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Kernels and marks out of the events of a Chrome trace; where there is no kernel, operators. Pure."""
    names: dict[str, int] = {}
    kernels: list[list[Any]] = []
    operators: list[list[Any]] = []
    marks: list[list[Any]] = []
    for event in events:
        kind, arguments = event.get("cat"), event.get("args") or {}
        if event.get("ph") != "X" or kind not in (*_DEVICE_EVENTS, "cpu_op", "user_annotation"):
            continue
        at_us, name = float(event["ts"]), str(event["name"])
        number = _mark_number(name, arguments) if kind == "gpu_memcpy" else None
        if kind == "user_annotation":
            if name.startswith(MARK_PREFIX):
                marks.append([at_us, name.removeprefix(MARK_PREFIX)])
        elif number is not None:
            marks.append([at_us, MARKS[number]])
        else:
            row = [names.setdefault(name, len(names)), at_us, float(event["dur"]), arguments.get("grid")]
            (operators if kind == "cpu_op" else kernels).append(row)
    return {"names": list(names), "rows": kernels or operators, "marks": marks}


def _mark_number(name: str, arguments: dict[str, Any]) -> int | None:
    number = int(arguments.get("bytes") or 0) - MARK_BYTES
    return number if "DtoD" in name and 0 <= number < len(MARKS) else None
