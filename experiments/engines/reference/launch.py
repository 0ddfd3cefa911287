"""A launch of the reference engine, seen from the parent. Imports no torch."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import experiments
from configs.cpu import usable_cores
from experiments.engines.messages import data_of, message_of, messages_of
from experiments.engines.one_device import one_device
from experiments.engines.parent import search_path
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
from experiments.engines.reference.protocol import LaunchOrder
from experiments.engines.reference.request_limit import (
    checked_tokens,
    generated_tokens,
    limit_s,
    profiled_tokens,
    scored_tokens,
)
from experiments.engines.reference.stored_parameters import stored_parameters
from experiments.engines.server_process import ServerProcess
from experiments.measurement.evidence import Json
from experiments.space.configuration import Configuration

SERVER_MODULE = "experiments.engines.reference.server"


class ReferenceLaunch:
    """A server process with a checkpoint loaded. Made by `ReferenceEngine.launch`; not for several
    threads."""

    def __init__(
        self,
        configuration: Configuration,
        order: LaunchOrder,
        log_path: Path,
        load_limit_s: float,
        request_timeout_s: float,
    ) -> None:
        """Start the process and wait until it is ready; raises `Infeasible` with the cause when it is not."""
        self.configuration = configuration
        self._request_timeout_s = request_timeout_s
        self._draft_tokens = order.draft_tokens if order.drafting_method != "none" else 0
        stored = stored_parameters(order.folder)
        self._weights = 0 if stored is None else stored.parameters
        start_s = time.perf_counter()
        self._process = ServerProcess(
            "The reference engine",
            [sys.executable, "-m", SERVER_MODULE],
            lambda temporary: server_environment(order, temporary),
            log_path,
            Path(order.cache_dir),
        )
        try:
            self.load_parts_s: Mapping[str, float] = self._ask(data_of(order), load_limit_s, "load")
            """Seconds of the server's imports, of its weights and of its compilation."""
        except BaseException:
            self.close()
            raise
        self.load_s = time.perf_counter() - start_s

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self._process.pid

    def resolved(self) -> Mapping[str, Json]:
        """What actually runs, asked of the process anew; see `resolved.resolved_configuration`."""
        answer = self._ask({"op": "resolved"}, self._request_timeout_s, "tell what it runs")
        return dict(answer)

    def generate(self, request: GenerationRequest) -> GenerationTrace:
        """One greedy generation; raises `Infeasible` when the process dies or does not answer in time."""
        answer = self._ask(
            {"op": "generate", "request": data_of(request)},
            self._limit_s(generated_tokens(request, self._draft_tokens)),
            "generate",
        )
        return message_of(GenerationTrace, answer)

    def serve(self, requests: Sequence[GenerationRequest], concurrency: int) -> list[GenerationTrace]:
        """The requests one after the other; raises `Infeasible` for a concurrency above 1."""
        if concurrency != 1:
            raise Infeasible(
                "illegal", f"The reference engine serves one request at a time, not {concurrency} at once."
            )
        return [self.generate(request) for request in requests]

    def score(
        self,
        documents: Sequence[ScoringDocument],
        tasks: Sequence[ScoringTask],
        *,
        reference: Path | None = None,
        write_reference: Path | None = None,
    ) -> tuple[list[DocumentScore], list[TaskScore]]:
        """Quality, as the port says. `write_reference` becomes a folder (see `references.py`).

        One document more than asked for comes back, `decode:<item>`: see `score.py`.
        """
        answer = self._ask(
            {
                "op": "score",
                "documents": [data_of(document) for document in documents],
                "tasks": [data_of(task) for task in tasks],
                "reference": str(reference) if reference is not None else None,
                "write_reference": str(write_reference) if write_reference is not None else None,
            },
            self._limit_s(scored_tokens(documents, tasks)),
            "score",
        )
        return messages_of(DocumentScore, answer["documents"]), messages_of(TaskScore, answer["tasks"])

    def check_drafting(self, requests: Sequence[GenerationRequest]) -> list[DraftingCheck]:
        """As the port says."""
        answer = self._ask(
            {"op": "check_drafting", "requests": [data_of(request) for request in requests]},
            self._limit_s(checked_tokens(requests, self._draft_tokens)),
            "check its drafting",
        )
        return messages_of(DraftingCheck, answer)

    def profile(self, request: GenerationRequest, concurrency: int = 1) -> list[PartTime]:
        """Time of a decode step by part, one request at a time; the method is in `profile.py`."""
        if concurrency != 1:
            raise Infeasible("unsupported", "The engine reference serves one request at a time.")
        answer = self._ask(
            {"op": "profile", "request": data_of(request)},
            self._limit_s(profiled_tokens(request, self._draft_tokens)),
            "profile",
        )
        return messages_of(PartTime, answer)

    def close(self) -> None:
        """End the process and all it started; idempotent."""
        self._process.close()

    def _limit_s(self, tokens: int) -> float:
        return limit_s(self._request_timeout_s, self._weights, tokens)

    def _ask(self, request: Mapping[str, Json], timeout_s: float, verb: str) -> Any:
        return self._process.ask(request, timeout_s, verb)


SPIN_COUNT = "1000"
"""Turns that a waiting OpenMP thread spins before it gives its core away: some microseconds. With the
library's own 300,000, about a millisecond, one other busy process on two cores made a token of two threads
take 250 ms instead of 7; a setting of the user's stays."""


def server_environment(order: LaunchOrder, temporary: str) -> dict[str, str]:
    """The environment of a server: its device, thread pools, caches below `cache_dir`, nothing fetched.

    Raises `Infeasible` where the device is not among the visible ones.
    """
    package_root = str(Path(experiments.__file__).parent.parent)
    threads = str(order.threads)
    return dict(os.environ) | {
        "PYTHONPATH": search_path(package_root),
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "GOMP_SPINCOUNT": os.environ.get("GOMP_SPINCOUNT", SPIN_COUNT),
        "TORCHINDUCTOR_CACHE_DIR": str(Path(order.cache_dir) / "inductor"),
        "TORCHINDUCTOR_COMPILE_THREADS": str(usable_cores()),  # compilers at once, started by threads
        "TORCH_WARM_POOL": "0",  # and no pool of worker processes, which C++ has no use for
        "TMPDIR": temporary,
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        # else a PyTorch that can use GPUs opens a context on the first when it compiles, for a processor too
        **one_device(order.device),
    }
