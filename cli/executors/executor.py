"""Executors by their entry-point names, made from settings."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, cast

from configs.registry import Port, registered

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from configs.settings import Settings
    from experiments.executors.port import Executor
    from experiments.job.place import Place
    from experiments.worker.settings import WorkerTimes

LOCAL = "local"
"""The executor of this machine."""

JOBS_FOLDER = "jobs"
"""Where the runs of an executor lie, in the data folder."""


def make_executor(settings: Settings, name: str, beside: tuple[str, ...] = ()) -> Executor:
    """Return the executor of this name, with its runs and artifacts in the data folder; `beside` as
    in `Place`.

    Raises `UsageError` when none is registered under the name, and for an address of a shared store of
    artifacts that is none.
    """
    made = registered(Port.EXECUTOR, name)(settings.data_dir / JOBS_FOLDER, place_of(settings, beside))
    return cast("Executor", made)


def make_remote_executor(settings: Settings, name: str, target: str | None) -> Executor:
    """Return the executor of this name for rented machines such as `modal:H100!`; without a target, one that
    only looks after what runs.

    Raises `UsageError` when none is registered under the name, or the one that is runs on this machine.
    """
    from configs.errors import UsageError

    if name == LOCAL:
        raise UsageError(
            "The executor local runs jobs on this machine.", "Its worker is: autoinfer worker --device DEVICE"
        )
    named = {} if target is None else {"target": target}
    found = registered(Port.EXECUTOR, name)
    return cast("Executor", found(settings.data_dir / JOBS_FOLDER, place_of(settings), **named))


def remote_executors(settings: Settings) -> Callable[[str, str | None], Executor]:
    """Return what makes an executor by name and target, each once."""
    return cache(lambda name, target: make_remote_executor(settings, name, target))


def unreachable_by(settings: Settings) -> Callable[[str], str | None]:
    """Return what says of a rented machine such as `modal:H100!` why it can't be rented from here, in a
    sentence, None where it can. The executor of each is made once; where that fails it is tried again."""
    from configs.errors import AutoinferError

    make = remote_executors(settings)

    def unreachable(device: str) -> str | None:
        try:
            make(device.partition(":")[0], device)
        except AutoinferError as error:
            return f"{error.message} {error.hint}"
        return None

    return unreachable


def place_of(settings: Settings, beside: tuple[str, ...] = ()) -> Place:
    """Return the folders and limits of this machine that executors hand on to jobs; `beside` as in `Place`.

    Raises `UsageError` for an address of a shared store of artifacts that is none.
    """
    from experiments.artifacts.shared import check_shared
    from experiments.job.context import stage_limits_s
    from experiments.job.place import Place

    if settings.artifacts is not None:
        check_shared(settings.artifacts)
    return Place(
        artifacts_dir=settings.artifacts_dir,
        cache_dir=settings.cache_dir,
        shared_artifacts=settings.artifacts,
        quantize_python=quantize_python_of(settings),
        vllm_python=vllm_python_of(settings),
        lm_eval_python=lm_eval_python_of(settings),
        tasks_data=settings.tasks_data,
        run_generated_code=settings.run_generated_code,
        beside=beside,
        limits_s=stage_limits_s(settings.stage_limit_s),
        load_limit_s=settings.load_limit_s,
    )


def quantize_python_of(settings: Settings) -> Path | None:
    """Return the Python that a job quantizes with, where the settings name one or it is in its place; None
    leaves it to be found."""
    return _python_of(settings, "quantize_python", settings.quantize_python)


def vllm_python_of(settings: Settings) -> Path | None:
    """Return the Python that serves with vLLM, likewise."""
    return _python_of(settings, "vllm_python", settings.vllm_python)


def lm_eval_python_of(settings: Settings) -> Path | None:
    """Return the Python that has lm-eval, likewise."""
    return _python_of(settings, "lm_eval_python", settings.lm_eval_python)


def _python_of(settings: Settings, name: str, python: Path) -> Path | None:
    from configs.settings import Source

    given = settings.origins()[name].source is not Source.DEFAULT
    return python if given or python.is_file() else None


def worker_times(settings: Settings) -> WorkerTimes:
    """Return the times a worker lives by, from the settings."""
    from experiments.worker.settings import WorkerTimes

    return WorkerTimes(
        lease_s=settings.lease_s, busy_poll_s=settings.job_poll_s, idle_poll_s=settings.queue_poll_s
    )


def check_folders(settings: Settings, devices: Collection[str]) -> None:
    """Write where a worker will write for `devices`, so that a folder that refuses is told before anything is
    begun, and one that no compiler for a processor can be handed."""
    from configs.code_cache import check_compilable
    from experiments.disk import check_writable
    from experiments.engines.one_device import CPU

    if CPU in devices:
        check_compilable(settings.cache_dir)

    for folder, what in (
        (settings.data_dir / JOBS_FOLDER, "runs"),
        (settings.log_dir, "logs"),
        (settings.artifacts_dir, "artifacts"),
        (settings.cache_dir, "compiled code"),
    ):
        check_writable(folder, what)
