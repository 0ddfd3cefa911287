"""Compiles the decode step: `default` by torch.compile, `cpp_wrapper` ahead of time into one C++ library.

Both compile `step.DecodeStep`, one graph of transformers' forward. They differ in what runs between the
kernels:

- `default`: what `torch.compile` gives. Each step Dynamo's guards are checked and Inductor's Python wrapper
  calls the kernels. Inductor's caches lie below `cache_dir`; the trace is made anew in every launch.
- `cpp_wrapper`: the step is exported, and AOTInductor makes a shared library whose wrapper is C++: no guard,
  no Python between kernels. The package holds code and no weights (the launch gives its own) and is kept
  below `cache_dir` under a key of all that it depends on, so that a later launch loads it at once.

Without guards the shapes must be right by construction: a step belongs to one capacity, and its state is
allocated from that capacity.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import torch
import transformers
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM

from experiments.engines.port import Infeasible
from experiments.engines.reference.step import DecodeStep, allocate_state
from experiments.measurement.evidence import Json

StepFunction: TypeAlias = Callable[..., tuple[torch.Tensor, torch.Tensor]]

PACKAGE_VERSION = 1
"""Part of the key of compiled packages; raised when `step.py` or the options below change."""

PACKAGES_FOLDER = "decode-steps"
"""Where packages lie below `cache_dir`."""


@dataclass
class CompiledStep:
    """A compiled decode step of one capacity, its state, and how often it ran."""

    capacity: int
    function: StepFunction
    state: tuple[torch.Tensor, ...]
    detail: dict[str, Json]
    calls: int = 0
    """How often it ran, the trial run of `compile_step` included."""

    def __call__(self, token: torch.Tensor, position: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Run one step; shapes as in `DecodeStep`."""
        self.calls += 1
        logits, next_token = self.function(token, position, *self.state)
        return logits, next_token


def compile_step(model: Qwen3_5ForCausalLM, mode: str, capacity: int, cache_dir: Path) -> CompiledStep:
    """Compile the step for a capacity and run it once, so that what comes next is ready.

    Raises:
        Infeasible: kind `build_failed`, when the compiler fails.
    """
    step = DecodeStep(model, capacity)
    state = allocate_state(model, capacity)
    example = (
        torch.zeros((1, 1), dtype=torch.long, device=model.device),
        torch.zeros((), dtype=torch.long, device=model.device),
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's exporter warns of its own deprecations
            if mode == "cpp_wrapper":
                function, detail = _ahead_of_time(step, (*example, *state), cache_dir)
            else:
                function, detail = torch.compile(step, fullgraph=True, dynamic=False), {"package": None}
            compiled = CompiledStep(capacity, function, state, detail)
            with torch.inference_mode():  # as in use, or Dynamo's guards would ask for a second graph
                compiled(*(tensor.clone() for tensor in example))
    except Infeasible:
        raise
    except Exception as cause:
        first_line = next(iter(str(cause).strip().splitlines()), type(cause).__name__)
        raise Infeasible(
            "build_failed", f"torch could not compile the decode step ({mode}): {first_line}"
        ) from cause
    for tensor in state:
        tensor.zero_()
    return compiled


def _ahead_of_time(
    step: DecodeStep, example: Sequence[torch.Tensor], cache_dir: Path
) -> tuple[StepFunction, dict[str, Json]]:
    folder = cache_dir / PACKAGES_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    key = package_key(step.model, step.capacity)
    path = folder / f"{key}.pt2"
    reused = path.is_file()
    if not reused:
        with _lock(folder / f"{key}.lock"):
            if not path.is_file():
                _build(step, example, path)
    package = torch._inductor.aoti_load_package(str(path), run_single_threaded=True)
    weights = dict(step.named_parameters(remove_duplicate=False)) | dict(step.named_buffers())
    names = package.get_constant_fqns()
    package.load_constants(
        {name: weights[name].detach() for name in names}, check_full_update=True, user_managed=True
    )
    return package, {"package": key, "package_reused": reused}


def _build(step: DecodeStep, example: Sequence[torch.Tensor], path: Path) -> None:
    """Export and compile into `path`, atomically."""
    with torch.no_grad():
        exported = torch.export.export(step, tuple(example))
        building = path.with_name(f"{path.stem}.{os.getpid()}.pt2")
        try:
            torch._inductor.aoti_compile_and_package(
                exported,
                package_path=str(building),
                inductor_configs={"aot_inductor.package_constants_in_so": False},
            )
            building.replace(path)
        finally:
            building.unlink(missing_ok=True)


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock: two launches that need the same package compile it once."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def package_key(model: Qwen3_5ForCausalLM, capacity: int) -> str:
    """SHA-256 of all that a package depends on: shapes, dtype, threads, processor, versions; no weights."""
    config = {
        name: value
        for name, value in model.config.to_dict().items()
        if name not in ("_name_or_path", "transformers_version")
    }
    facts = {
        "package_version": PACKAGE_VERSION,
        "capacity": capacity,
        "config": config,
        "dtype": str(model.dtype),
        "device": str(model.device),
        "threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "compiler": os.environ.get("CXX", "g++"),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()


def graph_counters(steps: int) -> dict[str, Json]:
    """Dynamo's counters of this process, for `default` with so many compiled steps.

    One graph a step is right; what is more was compiled again because a guard failed.
    """
    from torch._dynamo.utils import counters

    graphs = int(counters["stats"]["unique_graphs"])
    return {
        "graphs": graphs,
        "graph_breaks": int(sum(counters["graph_break"].values())),
        "recompilations": max(0, graphs - steps),
    }
