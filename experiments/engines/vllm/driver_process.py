"""A driver's process, seen from the parent: environment, load, answers, why it died. Imports no torch."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from configs.quantities import format_duration
from experiments.engines.one_answer import python_command
from experiments.engines.one_device import CPU, one_device
from experiments.engines.port import Infeasible
from experiments.engines.server_process import FAILURE_LOG_BYTES, SOCKETS, ServerProcess, sockets_parent
from experiments.engines.vllm.blame import of_configuration
from experiments.engines.vllm.compilers import search_path
from experiments.engines.vllm.environment import VllmEnvironment
from experiments.engines.vllm.failures import ENGINE_DIED, death_of, failure_of
from experiments.engines.vllm.load_phase import load_phase
from experiments.engines.vllm.order import IMPORTED, VARIABLES, VllmOrder, order_data
from experiments.measurement.evidence import Json
from experiments.scratch import ScratchFolder
from experiments.space.configuration import Configuration

DRIVER_MODULE = "experiments.engines.vllm.driver"

NOT_PASSED_ON = frozenset({"PYTHONPATH", "VLLM_API_KEY", *VARIABLES.values()})
"""Variables that a driver does not get: it has vLLM's own packages, its server answers without a key, and
what is a knob is set by its order alone."""


class BegunDriver:
    """A driver's process that imports vLLM, or has, and waits for its order; not for several threads."""

    def __init__(self, found: VllmEnvironment, device: str, log_path: Path, cache_dir: Path) -> None:
        """Start the process; raises `OSError` when it can't be started."""
        self.log_path, self.begun_s = log_path, time.perf_counter()
        self._for = (found, device, cache_dir)
        self._sockets = ScratchFolder(SOCKETS, sockets_parent())
        try:
            self.process = ServerProcess(
                "vLLM",
                python_command(found.python, DRIVER_MODULE),
                lambda temporary: driver_environment(
                    found.python, device, cache_dir, temporary, str(self._sockets.path)
                ),
                log_path,
                cache_dir,
            )
        except BaseException:
            self._sockets.close()
            raise

    def is_for(self, found: VllmEnvironment, device: str, cache_dir: Path) -> bool:
        """Whether it was begun for such a launch, and is there."""
        return self._for == (found, device, cache_dir) and self.is_running()

    def is_running(self) -> bool:
        """Whether it has not ended; from any thread."""
        return self.process.is_running()

    def is_at_rest(self) -> bool:
        """Whether it does nothing until it has its order, for it has imported everything or has ended; from
        any thread."""
        return (self.process.temporary / IMPORTED).exists() or not self.is_running()

    def log_to(self, log_path: Path) -> bool:
        """Let its log be that of a launch; False where it can't, such as where that one has a log."""
        try:
            self.process.log_to(log_path)
        except OSError:
            return False
        self.log_path = log_path
        return True

    def close(self) -> None:
        """End the driver and all that it started; idempotent."""
        self.process.close()
        self._sockets.close()


class DriverProcess:
    """A driver with a checkpoint loaded as ordered; not for several threads."""

    def __init__(
        self,
        order: VllmOrder,
        found: VllmEnvironment,
        log_path: Path,
        cache_dir: Path,
        load_limit_s: float,
        request_limit_s: float,
        configuration: Configuration,
        begin: Callable[[VllmEnvironment, str, Path, Path], BegunDriver] = BegunDriver,
    ) -> None:
        """Take a process and wait until it is ready; raises `Infeasible` with the cause when it is not.

        A cause that it reads from vLLM's words, then or later, blames what `configuration` has of it alone.
        `begin` gives the process, one that begins or one that was begun before.
        """
        self._request_limit_s = request_limit_s
        self._configuration = configuration
        self._death: Infeasible | None = None
        start_s = time.perf_counter()
        self._begun = begin(found, order.device, log_path, cache_dir)
        self._process = self._begun.process
        try:
            parts_s = self._load(order, load_limit_s)
        except BaseException:
            self.close()
            raise
        self.load_s = time.perf_counter() - start_s
        before_s = max(0.0, start_s - self._begun.begun_s)
        import_s = max(0.0, parts_s["import_s"] - before_s)
        self.load_parts_s: Mapping[str, float] = {**parts_s, "import_s": import_s}
        """Seconds of the driver's imports that the load waited for, and of everything that vLLM does then."""

    @property
    def pid(self) -> int:
        """The driver's process id."""
        return self._process.pid

    def ask(self, request: Mapping[str, Json], verb: str, requests: int = 1) -> Any:
        """The answer; `requests` are the requests of the engine that it takes, each with the limit of one.

        Raises `Infeasible`; once vLLM's engine has died, always with why it did.
        """
        if self._death is not None:
            raise self._death
        try:
            return self._process.ask(request, self._request_limit_s * max(1, requests), verb)
        except Infeasible as failure:
            if not failure.cause.startswith(ENGINE_DIED):
                raise
            died = death_of(self._process.log_since_start(FAILURE_LOG_BYTES), failure.cause)
            self._death = of_configuration(died, self._configuration)
            self.close()
            raise self._death from None

    def last_log_line(self) -> str:
        """The last line of its log, or a word that there is none."""
        return self._process.last_log_line()

    def close(self) -> None:
        """End the driver, vLLM's engine process and all else it started; idempotent."""
        self._begun.close()

    def _load(self, order: VllmOrder, load_limit_s: float) -> Mapping[str, float]:
        try:
            told: Mapping[str, float] = self._process.ask(order_data(order), load_limit_s, "load")
        except Infeasible as failure:
            if failure.kind == "timed_out":
                raise self._late(load_limit_s) from None
            if failure.kind != "crashed":
                raise
            told_why = failure_of(self._process.log_since_start(FAILURE_LOG_BYTES), failure.cause)
            raise of_configuration(told_why, self._configuration) from None
        return told

    def _late(self, load_limit_s: float) -> Infeasible:
        """That it did not load in time, what it did then, and what to do."""
        did = load_phase(self._process.log_since_start(FAILURE_LOG_BYTES))
        return Infeasible(
            "timed_out",
            f"vLLM did not load within {format_duration(load_limit_s)} and was ended while {did}: its log "
            f"{self._begun.log_path.name} tells what it said; where loads only take longer here, raise the "
            "setting load_limit_s (AUTOINFER_LOAD_LIMIT_S).",
        )


def driver_environment(
    python: Path, device: str, cache_dir: Path, temporary: str, sockets: str
) -> dict[str, str]:
    """The variables of a driver: its device, caches below `cache_dir` that outlive it, nothing fetched.

    What it calls is looked for beside its `python` first: pip puts `ninja` there, which PyTorch and
    FlashInfer compile with, and an environment that nobody activated is on no path. `sockets` is the folder
    of `SOCKETS`.
    """
    kept = {name: value for name, value in os.environ.items() if name not in NOT_PASSED_ON}
    told = kept | {
        "PATH": search_path(python),
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": temporary,
        "VLLM_RPC_BASE_PATH": sockets,
        "VLLM_CACHE_ROOT": str(cache_dir / "vllm"),
        "TRITON_CACHE_DIR": str(cache_dir / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(cache_dir / "inductor"),
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",  # the driver has threads, which a fork would lose
        "VLLM_USE_FLASHINFER_SAMPLER": os.environ.get(
            "VLLM_USE_FLASHINFER_SAMPLER", "0"
        ),  # compiled when run
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }
    if device == CPU:
        told["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # or vLLM starts a process more for the worker
        return told
    return told | one_device(device)
