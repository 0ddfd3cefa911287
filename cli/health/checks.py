"""What `autoinfer doctor` looks at: each check returns what it found, how bad that is, and what to do about
it.

Nothing here imports torch: whether it is there is read from the installed packages, so that a check takes no
time and works in an installation without it.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from cli.health.check_result import Check, Verdict
from cli.health.compiler_checks import check_vllm_compilers
from cli.health.database_checks import check_database
from cli.health.gpu_checks import check_gpus, check_vllm, visible_gpus
from cli.health.model_check import check_language_model
from cli.health.quantization_check import check_quantization
from configs.code_cache import TO_NAME_ANOTHER, falls_apart
from configs.errors import AutoinferError
from experiments.telemetry.identity import DeviceIdentity, identify
from experiments.torch_build import CPU_INDEX, TORCH_VERSION, install_into, torch_build
from knowledge.figures import size

if TYPE_CHECKING:
    from configs.settings import Settings

LEAST_PYTHON = (3, 11)
"""The oldest Python that runs autoinfer, as in its packaging."""

LEAST_FREE_BYTES = 1 << 30
"""Free disk below which compiled code and pruned checkpoints of one campaign may not fit: 1 GiB."""

LEAST_MEMORY_BYTES = 2 << 30
"""Memory below which two launches of the reference model with PyTorch may not fit: 2 GiB."""


def run_checks(settings: Settings) -> list[Check]:
    """Look at this machine and this installation."""
    return [
        check_python(),
        check_cores(),
        check_memory(),
        check_data_dir(settings.data_dir),
        check_disk(settings.data_dir),
        *check_database(settings.database_url),
        check_gpus(),
        check_vllm(settings),
        *check_vllm_compilers(settings),
        check_torch(),
        check_transformers(),
        check_compiler(settings.cache_dir),
        check_weights(),
        check_quantization(settings),
        check_language_model(settings),
    ]


def check_python() -> Check:
    """Look at the version of Python."""
    found = platform.python_version()
    if sys.version_info < LEAST_PYTHON:
        return Check("python", Verdict.FAIL, found, "Install Python 3.11 or newer.")
    return Check("python", Verdict.OK, f"{found} on {platform.platform()}")


def check_cores() -> Check:
    """Look at the processor and the cores that are ours."""
    from configs.cpu import probe_cpu

    cpu = probe_cpu()
    found = f"{cpu.cores} of {os.cpu_count()} cores, {cpu.name}"
    if cpu.cores < 2:
        return Check(
            "cores", Verdict.WARN, found, "With one core the measured process shares it with the others."
        )
    return Check("cores", Verdict.OK, found)


def check_memory() -> Check:
    """Look at the memory that is available to this process now."""
    from configs.memory import available_memory_bytes, usable_memory_bytes

    available = available_memory_bytes()
    found = f"{size(available)} available of {size(usable_memory_bytes())}"
    if available < LEAST_MEMORY_BYTES:
        return Check("memory", Verdict.WARN, found, "Close something: launches may be ended by the system.")
    return Check("memory", Verdict.OK, found)


def check_data_dir(data_dir: Path) -> Check:
    """Try to write where all state lies; leaves nothing behind."""
    existing = next(folder for folder in (data_dir, *data_dir.parents) if folder.exists())
    advice = "Make it writable, or move all state with --data-dir or AUTOINFER_DATA_DIR."
    if not existing.is_dir():
        return Check("data folder", Verdict.FAIL, f"{existing} is no folder", advice)
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        return Check("data folder", Verdict.FAIL, f"{existing} cannot be written: {error.strerror}", advice)
    made = "" if existing == data_dir else " (made at the first run)"
    return Check("data folder", Verdict.OK, f"{data_dir}{made}")


def check_disk(data_dir: Path) -> Check:
    """Look at the free space where all state lies."""
    existing = next(folder for folder in (data_dir, *data_dir.parents) if folder.exists())
    free = shutil.disk_usage(existing).free
    if free < LEAST_FREE_BYTES:
        prune = "autoinfer artifacts prune --unused-for 1d"
        advice = f"Free some space, with {prune} too, or move all state to another disk."
        return Check("disk", Verdict.WARN, f"{size(free)} free", advice)
    return Check("disk", Verdict.OK, f"{size(free)} free")


def check_torch(identified: Callable[[str], DeviceIdentity] = identify) -> Check:
    """Look for PyTorch, its version and kind of build, and whether it computes on the GPU where there is
    one: layers are ranked by it."""
    advice = f"Install it with: pip install 'autoinfer[reference]' --extra-index-url {CPU_INDEX}"
    found = installed("torch")
    if found is None:
        return Check(
            "torch", Verdict.WARN, "not installed: the reference engine cannot run", advice, stops_runs=True
        )
    if found.partition("+")[0] != TORCH_VERSION:
        return Check("torch", Verdict.WARN, f"{found}, tested with {TORCH_VERSION}", advice)
    gpus, python = visible_gpus(identified)[0], Path(sys.executable)
    build = torch_build(python) if gpus else None
    why = build and build.why_not_on_gpu(next(iter(gpus.values())).cuda_driver)
    if build is not None and why is not None:
        return Check(
            "torch",
            Verdict.WARN,
            f"{why}: on a GPU no layers are ranked by it, nor calibration text written",
            f"To prune on the GPU, {build.way_out(install_into(python))}.",
        )
    return Check("torch", Verdict.OK, f"{found}, {_build(found)}")


def check_transformers() -> Check:
    """Look for transformers."""
    found = installed("transformers")
    if found is None:
        return Check(
            "transformers",
            Verdict.WARN,
            "not installed: the reference engine cannot run",
            "Install it with: pip install 'autoinfer[reference]'",
            stops_runs=True,
        )
    return Check("transformers", Verdict.OK, found)


def check_compiler(cache_dir: Path) -> Check:
    """Look for the C++ compiler that `torch.compile` calls on a CPU; it is handed names below `cache_dir`."""
    named = os.environ.get("CXX")
    compiler = next(
        (path for name in (named, "g++", "clang++", "c++") if name and (path := shutil.which(name))), None
    )
    if compiler is None:
        return Check(
            "compiler",
            Verdict.WARN,
            "no C++ compiler: torch.compile is infeasible on the CPU",
            "Install g++ (Debian, Ubuntu: apt install g++), or go on without that lever.",
        )
    if falls_apart(cache_dir):
        return Check(
            "compiler",
            Verdict.WARN,
            f"{compiler} can't be handed {str(cache_dir)!r}: nothing can be compiled for the CPU",
            TO_NAME_ANOTHER,
        )
    return Check("compiler", Verdict.OK, compiler)


def check_weights() -> Check:
    """Look for the packaged weights of the reference model."""
    from experiments.reference_model.load import checkpoint_fingerprint, reference_model_path

    try:
        folder = reference_model_path()
        fingerprint = checkpoint_fingerprint(folder)
    except AutoinferError as error:
        return Check("reference model", Verdict.FAIL, error.message, error.hint)
    return Check("reference model", Verdict.OK, f"{folder} ({fingerprint[:12]})")


def installed(package: str) -> str | None:
    """Return the version of an installed package, without importing it; `None` when it is not there."""
    if find_spec(package) is None:
        return None
    try:
        return version(package)
    except PackageNotFoundError:
        return "of unknown version"


def _build(torch_version: str) -> str:
    """Return what kind of build an installed PyTorch is, from its version and its own record of it."""
    local = torch_version.partition("+")[2]
    if not local:
        spec = find_spec("torch")
        file = Path(spec.origin).with_name("version.py") if spec is not None and spec.origin else None
        text = file.read_text() if file is not None and file.is_file() else ""
        line = next((line for line in text.splitlines() if line.startswith("cuda")), "")
        local = line.rpartition("=")[2].strip().strip("'\"").replace("None", "cpu")
    if local.startswith("cpu"):
        return "built for the CPU"
    return f"built for {local}" if local else "of an unknown build"
