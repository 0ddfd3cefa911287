"""A launch of vLLM, seen from the parent. Imports no torch."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.engines.messages import data_of, message_of, messages_of
from experiments.engines.one_answer import python_command
from experiments.engines.port import (
    DocumentScore,
    DraftingCheck,
    GenerationRequest,
    GenerationTrace,
    Infeasible,
    PartTime,
    ScoringDocument,
    ScoringTask,
    TaskScore,
)
from experiments.engines.reference.inspection import CheckpointFiles
from experiments.engines.reference.stored_weights import stored_weights
from experiments.engines.server_process import ServerProcess
from experiments.engines.vllm.environment import VllmEnvironment
from experiments.engines.vllm.failures import ENGINE_DIED, death_of, failure_of
from experiments.engines.vllm.order import VllmOrder
from experiments.measurement.evidence import Json
from experiments.shapes.folder import LATENCY_ONLY, NO_QUALITY, shape_in
from experiments.space.configuration import Configuration

DRIVER_MODULE = "experiments.engines.vllm.driver"

LOG_BYTES = 256 * 1024
"""How much of the log's end is searched for the cause of a failure: vLLM prints a traceback for each of its
processes."""

VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"


class VllmLaunch:
    """A driver process with a checkpoint loaded. Made by `VllmEngine.launch`; not for several threads."""

    def __init__(
        self,
        configuration: Configuration,
        order: VllmOrder,
        files: CheckpointFiles,
        found: VllmEnvironment,
        log_path: Path,
        cache_dir: Path,
        load_limit_s: float,
        request_limit_s: float,
    ) -> None:
        """Start the process and wait until it is ready; raises `Infeasible` with the cause when it is not."""
        self.configuration = configuration
        self._order, self._files = order, files
        self._request_limit_s = request_limit_s
        self._death: Infeasible | None = None
        self.profile_record: Mapping[str, Json] | None = None
        """What the last profile rests on."""
        start_s = time.perf_counter()
        self._sockets = tempfile.mkdtemp(prefix="vllm-")
        try:
            self._process = ServerProcess(
                "vLLM",
                python_command(found.python, DRIVER_MODULE),
                lambda temporary: driver_environment(order.device, cache_dir, temporary, self._sockets),
                log_path,
                cache_dir,
            )
        except OSError:
            shutil.rmtree(self._sockets, ignore_errors=True)
            raise
        try:
            self.load_parts_s: Mapping[str, float] = self._load(load_limit_s)
            """Seconds of the driver's imports and of everything that vLLM does then."""
        except BaseException:
            self.close()
            raise
        self.load_s = time.perf_counter() - start_s

    @property
    def pid(self) -> int:
        """The driver's process id."""
        return self._process.pid

    def resolved(self) -> Mapping[str, Json]:
        """What actually runs, read from vLLM's worker; see `describe.py`."""
        told: dict[str, Json] = self._ask({"op": "resolved"}, "tell what it runs")
        if (shape := shape_in(self._files.folder)) is not None:
            made_up = told["weights"] if isinstance(told["weights"], dict) else {}
            latency_only: Json = LATENCY_ONLY
            return {
                "engine": "vllm",
                "latency_only": latency_only,
                **told,
                "weights": {**shape.resolved(), **made_up},
            }
        dtype = str(told["dtype"])
        weights = dict(stored_weights(self._files, dtype))
        # vLLM has kernels for what is stored, so its time is that of these weights
        weights |= {"served": f"{weights['stored']}, computed in {dtype}", "latency_representative": True}
        weights.pop("latency_reason", None)
        if isinstance(told["weights"], dict):
            weights |= told["weights"]
        return {"engine": "vllm", **told, "weights": weights}

    def generate(self, request: GenerationRequest) -> GenerationTrace:
        """One greedy generation; raises `Infeasible` when the process dies or does not answer in time."""
        return message_of(
            GenerationTrace, self._ask({"op": "generate", "request": data_of(request)}, "generate")
        )

    def serve(self, requests: Sequence[GenerationRequest], concurrency: int) -> list[GenerationTrace]:
        """As the port says; the loop is in `serving.py`.

        Raises `Infeasible` of kind `illegal` for more at once than `serving.max_sequences`: the others would
        wait in vLLM's queue, and times would be those of fewer at once.
        """
        most = int(self._order.arguments["max_num_seqs"])
        if not 1 <= concurrency <= most:
            raise Infeasible(
                "illegal",
                f"{concurrency} requests at once were asked for and serving.max_sequences is {most}; "
                "make it as large.",
            )
        request: dict[str, Json] = {
            "op": "serve",
            "requests": [data_of(each) for each in requests],
            "concurrency": concurrency,
        }
        rounds = -(-len(requests) // concurrency)
        return messages_of(GenerationTrace, self._ask(request, "serve them", requests=rounds))

    def open_http(self) -> str:
        """Let vLLM's own OpenAI server answer too, over the same engine; its address. See `openai_app.py`.

        Of a launch by an engine with a `tokenizer`, for vLLM's server reads text.
        """
        return str(self._ask({"op": "open_http"}, "open its HTTP server"))

    def score(
        self,
        documents: Sequence[ScoringDocument],
        tasks: Sequence[ScoringTask],
        *,
        reference: Path | None = None,
        write_reference: Path | None = None,
    ) -> tuple[list[DocumentScore], list[TaskScore]]:
        """Quality, as the port says; one document more comes back, `decode:<item>` (see `scoring.py`)."""
        self._refuse_dummy()
        answer = self._ask(
            {
                "op": "score",
                "documents": [data_of(document) for document in documents],
                "tasks": [data_of(task) for task in tasks],
                "reference": str(reference) if reference is not None else None,
                "write_reference": str(write_reference) if write_reference is not None else None,
            },
            "score",
            requests=len(documents) + len(tasks) + 1,
        )
        return messages_of(DocumentScore, answer["documents"]), messages_of(TaskScore, answer["tasks"])

    def check_drafting(self, requests: Sequence[GenerationRequest]) -> list[DraftingCheck]:
        """As the port says."""
        self._refuse_dummy()
        request: dict[str, Json] = {
            "op": "check_drafting",
            "requests": [data_of(each) for each in requests],
        }
        return messages_of(
            DraftingCheck, self._ask(request, "check its drafting", requests=3 * len(requests))
        )

    def profile(self, request: GenerationRequest, concurrency: int = 1) -> list[PartTime]:
        """Time of a decode step by part, with `concurrency` such requests served at once; the method is in
        `profile.py`, what it rests on in `profile_record` afterwards."""
        answer = self._ask(
            {"op": "profile", "request": data_of(request), "concurrency": concurrency},
            "profile",
            requests=2 * concurrency,
        )
        self.profile_record = answer["record"]
        return messages_of(PartTime, answer["parts"])

    def close(self) -> None:
        """End the driver, vLLM's engine process and all else it started; idempotent."""
        self._process.close()
        shutil.rmtree(self._sockets, ignore_errors=True)

    def _refuse_dummy(self) -> None:
        if self._order.dummy:
            raise Infeasible("unsupported", NO_QUALITY)

    def _load(self, load_limit_s: float) -> Mapping[str, float]:
        try:
            told: Mapping[str, float] = self._process.ask(data_of(self._order), load_limit_s, "load")
        except Infeasible as failure:
            if failure.kind != "crashed":
                raise
            raise failure_of(self._process.log_since_start(LOG_BYTES), failure.cause) from None
        return told

    def _ask(self, request: Mapping[str, Json], verb: str, requests: int = 1) -> Any:
        """The answer; `requests` are the requests of the engine that it takes, each with the limit of one."""
        if self._death is not None:
            raise self._death
        try:
            return self._process.ask(request, self._request_limit_s * max(1, requests), verb)
        except Infeasible as failure:
            if not failure.cause.startswith(ENGINE_DIED):
                raise
            self._death = death_of(self._process.log_since_start(LOG_BYTES), failure.cause)
            self.close()
            raise self._death from None


def driver_environment(device: str, cache_dir: Path, temporary: str, sockets: str) -> dict[str, str]:
    """The variables of a driver: its device, caches below `cache_dir` that outlive it, nothing fetched.

    `sockets` is a folder with a short path, for the names of sockets are limited.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    told = kept | {
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": temporary,
        "VLLM_RPC_BASE_PATH": sockets,
        "VLLM_CACHE_ROOT": str(cache_dir / "vllm"),
        "TRITON_CACHE_DIR": str(cache_dir / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(cache_dir / "inductor"),
        "VLLM_WORKER_MULTIPROCESSING_METHOD": "spawn",  # the driver has threads, which a fork would lose
        "VLLM_USE_FLASHINFER_SAMPLER": os.environ.get(
            "VLLM_USE_FLASHINFER_SAMPLER", "0"
        ),  # compiled when run
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "CUDA_DEVICE_ORDER": os.environ.get("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
    }
    if device == "cpu":
        told["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # or vLLM starts a process more for the worker
    else:
        told[VISIBLE_DEVICES] = visible_device(device, os.environ.get(VISIBLE_DEVICES))
    return told


def visible_device(device: str, visible: str | None) -> str:
    """What `CUDA_VISIBLE_DEVICES` must be for `cuda:N` to be all that is seen: the N-th of those visible."""
    number = int(device.partition(":")[2] or 0)
    listed = [each.strip() for each in (visible or "").split(",") if each.strip()]
    if not listed:
        return str(number)
    if number >= len(listed):
        raise Infeasible(
            "unsupported", f"There is no device {device}: {VISIBLE_DEVICES} shows {len(listed)} of them."
        )
    return listed[number]
