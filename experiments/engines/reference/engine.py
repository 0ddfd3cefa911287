"""The reference engine: PyTorch + transformers in a fresh process a launch. Imports no torch itself.

Knobs: `serving.dtype` (float32, bfloat16), `serving.threads` (intra-op), `serving.compile` (off, default,
cpp_wrapper; see `compile.py`), and `drafting.*` (see `drafting/order.py`). Pruning and quantization are in
the checkpoint it is given. It says of its latency that it
stands for itself alone: on a CPU most of a step is dispatch.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from configs.cpu import usable_cores
from configs.errors import AutoinferError
from configs.limits import LOAD_LIMIT_S
from configs.memory import available_memory_bytes
from experiments.engines.port import Infeasible, Launch
from experiments.engines.reference.device_fit import check_fits_device
from experiments.engines.reference.drafting.order import check_drafter, drafting_order
from experiments.engines.reference.inspection import CheckpointFiles, inspect_checkpoint
from experiments.engines.reference.launch import ReferenceLaunch
from experiments.engines.reference.memory import (
    LAUNCHES_AT_ONCE,
    check_fits,
    drafter_parameters,
    served_parameters,
)
from experiments.engines.reference.protocol import LaunchOrder
from experiments.engines.reference.serve_command import CACHE, reference_serve
from experiments.engines.serve_command import NOTHING_RAN, ServeCommand
from experiments.space.configuration import Configuration, KnobValue
from experiments.telemetry.free_memory import DeviceMemory, MemoryUnknown, device_memory

REQUEST_TIMEOUT_S = 900.0
"""Most seconds for one request of a small model; a first long request may compile. `request_limit.py` adds
what a large one needs."""

DTYPES = ("float32", "bfloat16")
COMPILE_MODES = ("off", "default", "cpp_wrapper")
DEFAULTS: dict[str, KnobValue] = {"serving.dtype": "float32", "serving.threads": 1, "serving.compile": "off"}
"""What a configuration that lacks a knob gets."""

GPU_DRIVER = Path("/dev/nvidiactl")
"""What a machine with an NVIDIA driver has."""

_DEVICE = re.compile(r"cpu|cuda(:\d+)?")


class ReferenceEngine:
    """Serves Qwen3.5-type checkpoints with PyTorch + transformers. Entry point `reference`."""

    name = "reference"
    max_concurrency = 1
    campaign_devices = ("cpu",)

    def __init__(
        self,
        request_timeout_s: float = REQUEST_TIMEOUT_S,
        available_bytes: Callable[[], int] = available_memory_bytes,
        gpu_memory: Callable[[str], DeviceMemory] = device_memory,
        gpu_driver: Path = GPU_DRIVER,
        launches_at_once: int = LAUNCHES_AT_ONCE,
    ) -> None:
        """`launches_at_once` are those that must fit into memory side by side."""
        self._request_timeout_s = request_timeout_s
        self._available_bytes = available_bytes
        self._gpu_memory = gpu_memory
        self._gpu_driver = gpu_driver
        self._launches_at_once = launches_at_once

    def up_at_once(self, launches: int) -> ReferenceEngine:
        """The same for jobs that have at most so many launches up: what must fit is the fewer of these and
        the two of a test."""
        return ReferenceEngine(
            self._request_timeout_s,
            self._available_bytes,
            self._gpu_memory,
            self._gpu_driver,
            min(launches, LAUNCHES_AT_ONCE),
        )

    def check(
        self, configuration: Configuration, checkpoint: Path, device: str, context_tokens: int = 1
    ) -> str | None:
        """Raise `Infeasible` when the configuration can't run here; reads no weights. Returns why the memory
        of a GPU could not be looked at, where it could not.

        Kinds: `unsupported` (a knob, the device, a missing package or compiler), `illegal` (a value),
        `checkpoint` (missing or broken), `out_of_memory` (two launches of it side by side are more than what
        is available now, as if no layer were pruned).
        """
        files = self._check_order(configuration, checkpoint, device)
        if device == "cpu":
            self._check_memory(configuration, files)
            return None
        try:
            memory = self._gpu_memory(device)
            dtype = str(configuration.get("serving.dtype", DEFAULTS["serving.dtype"]))
            drafting = drafting_order(configuration)
            check_fits_device(
                checkpoint, dtype, drafting, context_tokens, device, memory, self._launches_at_once
            )
        except (MemoryUnknown, AutoinferError) as reason:
            return f"Whether it fits into the memory of {device} was not checked: {reason}"
        return None

    def _check_memory(self, configuration: Configuration, files: CheckpointFiles) -> None:
        drafting = drafting_order(configuration)
        check_fits(
            served_parameters(files, head=drafting.method == "mtp"),
            str(configuration.get("serving.dtype", DEFAULTS["serving.dtype"])),
            self._available_bytes(),
            drafter_parameters=drafter_parameters(drafting),
            launches=self._launches_at_once,
        )

    def _check_order(self, configuration: Configuration, checkpoint: Path, device: str) -> CheckpointFiles:
        """All of the check but memory; gives the checkpoint's files."""
        order_for(configuration, checkpoint, device, Path())
        for package in ("torch", "transformers"):
            if find_spec(package) is None:
                raise Infeasible(
                    "unsupported",
                    f"The reference engine needs {package}, which is not installed; "
                    "install autoinfer with its extra: autoinfer[reference].",
                )
        if device != "cpu" and not self._gpu_driver.exists():
            raise Infeasible(
                "unsupported", f"There is no GPU driver on this machine for the device {device}."
            )
        files = inspect_checkpoint(checkpoint)
        drafting = drafting_order(configuration)
        if drafting.active:
            check_drafter(drafting, files)
        return files

    def plain(self, configuration: Configuration) -> Configuration:
        """The same without compilation, which takes most of a cold start, and without drafting, which changes
        no text."""
        kept = {knob: value for knob, value in configuration.items() if not knob.startswith("drafting.")}
        if "drafting.method" in configuration:
            kept["drafting.method"] = "none"
        if kept.get("serving.compile", "off") != "off":
            kept["serving.compile"] = "off"
        return Configuration.of(kept)

    def launch(
        self,
        configuration: Configuration,
        checkpoint: Path,
        device: str,
        log_path: Path,
        cache_dir: Path,
        load_limit_s: float = LOAD_LIMIT_S,
    ) -> Launch:
        """Start a fresh process and wait until it has loaded, and compiled, and is ready.

        `cache_dir` keeps compiled code between launches; several launches may share it at a time.
        """
        self._check_order(configuration, checkpoint, device)
        order = order_for(configuration, checkpoint, device, cache_dir)
        return ReferenceLaunch(configuration, order, log_path, load_limit_s, self._request_timeout_s)

    def serve_command(
        self,
        configuration: Configuration,
        checkpoint: Path,
        device: str,
        resolved: Mapping[str, Any] = NOTHING_RAN,
    ) -> ServeCommand:
        """The server that a launch starts, with its order; raises `Infeasible` as `launch`, and starts
        nothing."""
        self._check_order(configuration, checkpoint, device)
        order = order_for(configuration, checkpoint, device, Path(CACHE))
        return reference_serve(order)


def order_for(configuration: Configuration, checkpoint: Path, device: str, cache_dir: Path) -> LaunchOrder:
    """The order of a configuration; raises `Infeasible` for what this engine does not understand."""
    for knob in configuration:
        if knob.startswith("serving.") and knob not in DEFAULTS:
            raise Infeasible("unsupported", f"The reference engine has no knob {knob}.")
    chosen = DEFAULTS | {knob: value for knob, value in configuration.items() if knob in DEFAULTS}
    dtype, threads, mode = (chosen[f"serving.{name}"] for name in ("dtype", "threads", "compile"))
    if dtype not in DTYPES:
        raise Infeasible("illegal", f"serving.dtype is {dtype!r}; it may be {' or '.join(DTYPES)}.")
    if mode not in COMPILE_MODES:
        raise Infeasible("illegal", f"serving.compile is {mode!r}; it may be {', '.join(COMPILE_MODES)}.")
    cores = usable_cores()
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= cores:
        raise Infeasible(
            "illegal", f"serving.threads is {threads!r}; this process may use 1 to {cores} cores."
        )
    if not _DEVICE.fullmatch(device):
        raise Infeasible(
            "unsupported", f"The reference engine knows no device {device!r}; give cpu or cuda:N."
        )
    if mode != "off":
        _check_compiler(str(mode), device)
    drafting = drafting_order(configuration)
    return LaunchOrder(
        checkpoint=str(checkpoint),
        device=device,
        dtype=str(dtype),
        threads=threads,
        compile=str(mode),
        cache_dir=str(cache_dir),
        drafting_method=drafting.method,
        draft_tokens=drafting.draft_tokens,
        drafter=drafting.drafter,
        ngram_tokens=drafting.ngram_tokens,
    )


def _check_compiler(mode: str, device: str) -> None:
    if device != "cpu" and mode == "cpp_wrapper":
        raise Infeasible("unsupported", "The reference engine compiles with cpp_wrapper for the CPU only.")
    compiler = os.environ.get("CXX", "g++")
    if device == "cpu" and shutil.which(compiler) is None:
        raise Infeasible(
            "unsupported",
            f"serving.compile={mode} needs a C++ compiler and there is no {compiler} on this machine; "
            "install g++ or name another compiler in CXX.",
        )
