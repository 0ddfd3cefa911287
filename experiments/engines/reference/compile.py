"""Compiles the decode step: `default` by torch.compile, `cpp_wrapper` ahead of time into one C++ library.

Both compile `step.DecodeStep`, one graph. They differ in what runs between the
kernels:

- `default`: what `torch.compile` gives. Each step Dynamo's guards are checked and Inductor's Python wrapper
  calls the kernels. Inductor's caches lie below `cache_dir`; the trace is made anew in every launch.
- `cpp_wrapper`: the step is exported, and AOTInductor makes a shared library whose wrapper is C++: no guard,
  no Python between kernels. The package holds code and no weights (the launch gives its own) and is kept
  below `cache_dir` under a key of all that it depends on, so that a later launch loads it at once.

Without guards the shapes must be right by construction: a step belongs to one capacity and one number of
tokens, and its state is allocated from that capacity.
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

from experiments.engines.port import Infeasible
from experiments.engines.reference.headers import kept_headers
from experiments.engines.reference.state import SequenceState
from experiments.engines.reference.step import DecodeStep
from experiments.measurement.evidence import Json

StepFunction: TypeAlias = Callable[..., Sequence[torch.Tensor]]

PACKAGE_VERSION = 3
"""Part of the key of compiled packages; raised when the step's code or the options below change."""

PACKAGES_FOLDER = "decode-steps"
"""Where packages lie below `cache_dir`."""

HEADERS_FOLDER = "precompiled-headers"
"""Where the compiler's own form of torch's headers lies beside the packages."""


QUICKER: dict[str, bool] = {"cpp.vec_isa_ok": True, "pattern_matcher": False}
"""Options of Inductor that make nothing of a step slower and its building quicker: vector instructions that
the processor tells of are believed without building a program of each kind first (14 s of processor time),
and no pattern of operations is searched for, of which the step has none that Inductor would replace (6 s)."""


@dataclass
class BuiltStep:
    """A decode step ready to run, compiled or not, and how often it ran.

    `module` is what was compiled; `function` is what runs, the module itself where nothing is compiled.
    """

    module: DecodeStep
    function: StepFunction
    detail: dict[str, Json]
    calls: int = 0
    """How often it ran, the trial run of `build_step` included."""

    def __call__(
        self, tokens: torch.Tensor, position: torch.Tensor, *state: torch.Tensor
    ) -> Sequence[torch.Tensor]:
        """Run one step; arguments and outputs as in `DecodeStep`."""
        self.calls += 1
        return self.function(tokens, position, *state)


def build_step(step: DecodeStep, mode: str, cache_dir: Path) -> BuiltStep:
    """Make a step ready: compile it unless the mode is `off`, and run it once, so that what comes next is
    ready.

    Raises:
        Infeasible: kind `build_failed`, when the compiler fails.
    """
    if mode == "off":
        return BuiltStep(step, step, {})
    model = step.model
    state = SequenceState.allocate(model, step.capacity, head=step.head is not None)
    example = (
        torch.zeros((1, step.tokens), dtype=torch.long, device=model.device),
        torch.zeros((), dtype=torch.long, device=model.device),
        *state.inputs(head=step.head is not None),
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's exporter warns of its own deprecations
            if mode == "cpp_wrapper":
                function, detail = _ahead_of_time(step, example, cache_dir)
            else:
                compiled = torch.compile(step, fullgraph=True, dynamic=False, options=dict(QUICKER))
                function, detail = compiled, {"package": None}
            built = BuiltStep(step, function, detail)
            if mode == "default":
                BUILT_BY_DEFAULT.append(built)
            with torch.inference_mode():  # as in use, or Dynamo's guards would ask for a second graph
                built(*(tensor.clone() for tensor in example))
    except Infeasible:
        raise
    except Exception as cause:
        first_line = next(iter(str(cause).strip().splitlines()), type(cause).__name__)
        raise Infeasible(
            "build_failed", f"torch could not compile the decode step ({mode}): {first_line}"
        ) from cause
    return built


def _ahead_of_time(
    step: DecodeStep, example: Sequence[torch.Tensor], cache_dir: Path
) -> tuple[StepFunction, dict[str, Json]]:
    folder = cache_dir / PACKAGES_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    key = package_key(step)
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
    building = path.with_name(f"{path.stem}.{os.getpid()}.pt2")
    try:
        with kept_headers(path.with_name(HEADERS_FOLDER)), torch.no_grad():
            torch._inductor.aoti_compile_and_package(
                torch.export.export(step, tuple(example)),
                package_path=str(building),
                inductor_configs={"aot_inductor.package_constants_in_so": False, **QUICKER},
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


def package_key(step: DecodeStep) -> str:
    """SHA-256 of all that a package depends on: shapes, dtypes, threads, processor, versions; no weights."""
    model = step.model
    config = {
        name: value
        for name, value in model.config.to_dict().items()
        if name not in ("_name_or_path", "transformers_version")
    }
    tensors = dict(step.named_parameters(remove_duplicate=False)) | dict(step.named_buffers())
    facts = {
        "package_version": PACKAGE_VERSION,
        "capacity": step.capacity,
        "tokens": step.tokens,
        "feature_layers": step.feature_layers,
        "config": config,
        "modules": [f"{name}: {type(module).__qualname__}" for name, module in step.named_modules()],
        "tensors": {name: (str(tensor.dtype), *tensor.shape) for name, tensor in tensors.items()},
        "dtype": str(model.dtype),
        "device": str(model.device),
        "threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "compiler": os.environ.get("CXX", "g++"),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()


BUILT_BY_DEFAULT: list[BuiltStep] = []
"""Steps that torch.compile was asked for in this process, in whichever decoder: each is one graph."""


def graph_counters(left_out: int = 0) -> dict[str, Json]:
    """Dynamo's counters of this process, for `default`; so many steps are not counted.

    One graph a step is right; what is more was compiled again because a guard failed.
    """
    from torch._dynamo.utils import counters

    graphs = int(counters["stats"]["unique_graphs"])
    return {
        "graphs": graphs - left_out,
        "graph_breaks": int(sum(counters["graph_break"].values())),
        "recompilations": max(0, graphs - len(BUILT_BY_DEFAULT)),
    }
