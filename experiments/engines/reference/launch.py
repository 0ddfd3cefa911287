"""A launch of the reference engine, seen from the parent: a process, two pipes, a log. Imports no torch."""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

import experiments
from configs.cpu import usable_cores
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
from experiments.engines.reference.protocol import LaunchOrder, data_of, line, message_of, messages_of
from experiments.engines.reference.request_limit import (
    checked_tokens,
    generated_tokens,
    limit_s,
    profiled_tokens,
    scored_tokens,
)
from experiments.engines.reference.stored_parameters import stored_parameters
from experiments.executors import guard
from experiments.measurement.evidence import Json
from experiments.space.configuration import Configuration

SERVER_MODULE = "experiments.engines.reference.server"

END_TIMEOUT_S = 10.0
"""How long killed processes may take to vanish before `close` gives up waiting, seconds."""

TEMPORARY_PREFIX = "launch-"
"""Folders for a launch's temporary files below `cache_dir` are called this, the parent's id, and something
random."""

LOG_TAIL_BYTES = 4096
"""How much of the log's end is searched for the cause of a death."""


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
        self._log_path = log_path
        self._request_timeout_s = request_timeout_s
        self._draft_tokens = order.draft_tokens if order.drafting_method != "none" else 0
        stored = stored_parameters(Path(order.checkpoint))
        self._weights = 0 if stored is None else stored.parameters
        self._replies: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        start_s = time.perf_counter()
        log_path.parent.mkdir(parents=True, exist_ok=True)
        cache_dir = Path(order.cache_dir)
        cache_dir.mkdir(parents=True, exist_ok=True)
        sweep_temporary(cache_dir)
        self._temporary = tempfile.mkdtemp(prefix=f"{TEMPORARY_PREFIX}{os.getpid()}-", dir=cache_dir)
        try:
            with log_path.open("ab") as log:
                self._log_start = log.tell()
                self._process = subprocess.Popen(
                    [sys.executable, "-m", SERVER_MODULE],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env=server_environment(order, self._temporary),
                    pass_fds=guard.descriptors(),
                )
        except OSError:
            shutil.rmtree(self._temporary, ignore_errors=True)
            raise
        threading.Thread(target=self._read, daemon=True).start()
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

    def profile(self, request: GenerationRequest) -> list[PartTime]:
        """Time of a decode step by part; the method is in `profile.py`."""
        answer = self._ask(
            {"op": "profile", "request": data_of(request)},
            self._limit_s(profiled_tokens(request, self._draft_tokens)),
            "profile",
        )
        return messages_of(PartTime, answer)

    def close(self) -> None:
        """End the process and all it started; idempotent."""
        end_process_tree(self._process)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        shutil.rmtree(self._temporary, ignore_errors=True)

    def _limit_s(self, tokens: int) -> float:
        return limit_s(self._request_timeout_s, self._weights, tokens)

    def _read(self) -> None:
        """Queue replies; an empty one says that there will be no more."""
        assert self._process.stdout is not None
        with suppress(OSError, ValueError):
            for reply in self._process.stdout:
                self._replies.put(reply)
        self._replies.put(b"")

    def _ask(self, request: Mapping[str, Json], timeout_s: float, verb: str) -> Any:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line(request))
            self._process.stdin.flush()
            reply = self._replies.get(timeout=timeout_s)
        except queue.Empty:
            self.close()
            raise Infeasible(
                "timed_out",
                f"The reference engine did not {verb} within {timeout_s:.0f} s; it was ended: "
                f"{self._last_log_line()}",
            ) from None
        except (OSError, ValueError):
            reply = b""
        if not reply:
            raise self._death(verb)
        answer = json.loads(reply)
        if "infeasible" in answer:
            raise Infeasible(answer["infeasible"]["kind"], answer["infeasible"]["cause"])
        return answer["ok"]

    def _death(self, verb: str) -> Infeasible:
        """The cause of a death from the process's exit code and the last line of its log."""
        self.close()
        code = self._process.returncode
        how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        last_line = self._last_log_line()
        kind = "out_of_memory" if "MemoryError" in last_line else "crashed"
        return Infeasible(
            kind, f"The reference engine's process ended ({how}) instead of going on to {verb}: {last_line}"
        )

    def _last_log_line(self) -> str:
        try:
            with self._log_path.open("rb") as log:
                log.seek(0, os.SEEK_END)
                log.seek(max(self._log_start, log.tell() - LOG_TAIL_BYTES))
                lines = log.read().decode(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return lines[-1].strip() if lines else "its log is empty."


SPIN_COUNT = "1000"
"""Turns that a waiting OpenMP thread spins before it gives its core away: some microseconds. With the
library's own 300,000, about a millisecond, one other busy process on two cores made a token of two threads
take 250 ms instead of 7; a setting of the user's stays."""


def server_environment(order: LaunchOrder, temporary: str) -> dict[str, str]:
    """The environment of a server: thread pools, caches below `cache_dir`, nothing fetched from anywhere."""
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
        # cuda:N is then the device that the driver, and so the static check, calls by this number
        "CUDA_DEVICE_ORDER": os.environ.get("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }


def sweep_temporary(cache_dir: Path) -> None:
    """Delete the temporary folders of launches whose parent was killed before it could close them."""
    for folder in cache_dir.glob(f"{TEMPORARY_PREFIX}*"):
        owner = folder.name.removeprefix(TEMPORARY_PREFIX).partition("-")[0]
        if owner.isdigit() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)


def end_process_tree(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all its descendants and wait until they are gone."""
    tree: list[psutil.Process] = []
    with suppress(psutil.NoSuchProcess):
        parent = psutil.Process(process.pid)
        parent.suspend()  # so that it starts nothing between the listing and the kill
        tree = [*parent.children(recursive=True), parent]
    for member in tree:
        with suppress(psutil.NoSuchProcess):
            member.kill()
    with suppress(subprocess.TimeoutExpired):
        process.wait(END_TIMEOUT_S)
    psutil.wait_procs([member for member in tree if member.pid != process.pid], timeout=END_TIMEOUT_S)
