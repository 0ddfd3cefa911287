"""Putting the app on Modal, telling what runs there and what it costs, and ending all of it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import distribution, requires, version
from pathlib import Path
from typing import TYPE_CHECKING

import experiments
from experiments.engines.vllm.environment import CUDA_PACKAGE, IN_IMAGES
from experiments.executors.modal import remote
from experiments.executors.modal.client import Calls, boards, heads_of, in_our_words, library
from experiments.executors.modal.prices import Rates, current_rates
from experiments.executors.modal.protocol import (
    APP_NAME,
    DEPLOYMENT,
    FUNCTION_NAME,
    MODELS_FOLDER,
    MODELS_VOLUME,
    WORK_FOLDER,
    WORK_VOLUME,
    Deployment,
    Head,
    cancelled_key,
)
from experiments.job.spec import SPEC_VERSION

if TYPE_CHECKING:
    import modal

PACKAGES = ("agent", "configs", "db", "experiments", "knowledge")
"""The packages that go up: what a job imports, and nothing of the pages or the command line."""

VLLM = f"{CUDA_PACKAGE}=={IN_IMAGES}"
"""The engine in the image."""

CUDA_IMAGE = "nvidia/cuda:13.0.1-devel-ubuntu22.04"
"""What the image begins with: vLLM's kernels that are compiled when they first run need CUDA's compiler,
of the version that vLLM 0.26 to 0.33 are built with."""

PYTHON_SERIES = "3.12"

CORES = 8.0
MEMORY_GIB = 64.0
"""Processors and memory of a container with a GPU."""

STARTUP_S = 1200
"""How long a container may take until the function is called; a duplicate costs no more than that."""

TIMEOUT_S = 3600
"""A call's time limit where the executor names none."""

METADATA = ("METADATA", "entry_points.txt")

NOT_UP = ["**/__pycache__/**", "**/*.pyc"]


@dataclass(frozen=True)
class Running:
    """A call that has not ended: its job, its GPU, how long and for how much; 0 while it waits."""

    call_id: str
    key: str
    gpu: str | None
    seconds: float
    usd: float


@dataclass(frozen=True)
class State:
    """What is on Modal: nothing where `functions` is None. `ours`: whether it takes this version's jobs."""

    functions: tuple[str, ...] | None
    ours: bool
    deployment: Deployment | None
    running: tuple[Running, ...]
    rates: str

    @property
    def usd(self) -> float:
        """What the running calls cost so far."""
        return sum(each.usd for each in self.running)


def make_app(
    startup_s: int = STARTUP_S,
    function: Callable[[bytes], str] = remote.job,
    image: modal.Image | None = None,
) -> modal.App:
    """The app, not yet deployed: one function, which each call asks for a GPU and a time limit of its own."""
    lib = library()
    app: modal.App = lib.App(APP_NAME, include_source=False)
    app.function(
        name=FUNCTION_NAME,
        image=make_image() if image is None else image,
        cpu=CORES,
        memory=int(MEMORY_GIB * 1024),
        timeout=TIMEOUT_S,
        startup_timeout=startup_s,
        retries=0,
        single_use_containers=True,
        volumes={
            MODELS_FOLDER: lib.Volume.from_name(MODELS_VOLUME, create_if_missing=True),
            WORK_FOLDER: lib.Volume.from_name(WORK_VOLUME, create_if_missing=True),
        },
    )(function)
    return app


def make_image() -> modal.Image:
    """The image: what autoinfer needs, vLLM in an environment of its own, and this package's code on top."""
    needs = [each for each in requires("autoinfer") or [] if "extra ==" not in each]
    reference = [
        each.partition(";")[0].strip()
        for each in requires("autoinfer") or []
        if 'extra == "reference"' in each
    ]
    image: modal.Image = (
        library()
        .Image.from_registry(CUDA_IMAGE, add_python=PYTHON_SERIES)
        .entrypoint([])
        .uv_pip_install("uv", *needs, *reference)
        .run_commands(
            "python -m uv venv /opt/vllm",
            f"python -m uv pip install --no-cache --python {remote.VLLM_PYTHON} '{VLLM}'",
        )
        .env(
            {
                "HF_HOME": f"{MODELS_FOLDER}/hub",
                "VLLM_CACHE_ROOT": f"{WORK_FOLDER}/cache/vllm",
                "VLLM_NO_USAGE_STATS": "1",
            }
        )
    )
    return with_code(image)


def with_code(image: modal.Image) -> modal.Image:
    """The image with this package's own code, and the entry points by which it finds its parts."""
    home = Path(experiments.__file__).parents[1]
    for package in PACKAGES:
        image = image.add_local_dir(home / package, f"/root/{package}", ignore=NOT_UP)
    for path in _metadata():
        image = image.add_local_file(path, f"/root/autoinfer-{version('autoinfer')}.dist-info/{path.name}")
    return image


def _metadata() -> list[Path]:
    """The files by which an installed package is known: its version, and the entry points of its parts."""
    wanted = (f"autoinfer-{version('autoinfer')}.dist-info/{name}" for name in METADATA)
    return [Path(str(distribution("autoinfer").locate_file(each))) for each in wanted]


def code_fingerprint() -> str:
    """SHA-256 over the Python files that go up, 12 digits."""
    home = Path(experiments.__file__).parents[1]
    digest = hashlib.sha256()
    for package in PACKAGES:
        for path in sorted((home / package).rglob("*.py")):
            digest.update(str(path.relative_to(home)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def deploy(startup_s: int = STARTUP_S, app: modal.App | None = None) -> Deployment:
    """Write the app, or bring it up to date, and say what is deployed; builds the image where it changed."""
    with in_our_words():
        (make_app(startup_s) if app is None else app).deploy(name=APP_NAME)
        told = Deployment(
            version=SPEC_VERSION,
            autoinfer=version("autoinfer"),
            code=code_fingerprint(),
            vllm=VLLM,
            startup_s=startup_s,
            deployed_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        boards().claims.put(DEPLOYMENT, told.model_dump_json())
    return told


def deployed_startup_s() -> int:
    """How long a container of what is deployed may take to start, seconds; `STARTUP_S` where nobody tells:
    nothing is deployed, Modal does not answer, or what was written then is no longer kept."""
    try:
        with in_our_words():
            told = boards().claims.get(DEPLOYMENT)
        return STARTUP_S if told is None else Deployment.model_validate_json(told).startup_s
    except Exception:  # a quote is made all the same, as by packaged rates where Modal does not answer
        return STARTUP_S


def status(rates: Rates | None = None) -> State:
    """What is deployed, which calls run, and what they cost so far."""
    functions = Calls().deployed_functions()
    asked = current_rates() if rates is None else rates
    if functions is None:
        return State(None, False, None, (), asked.basis)
    board = boards()
    with in_our_words():
        told = board.claims.get(DEPLOYMENT)
    running = [_running(head, asked) for head in heads_of(board).values() if not head.ended]
    return State(
        tuple(sorted(functions)),
        FUNCTION_NAME in functions,
        None if told is None else Deployment.model_validate_json(told),
        tuple(sorted(running, key=lambda each: each.key)),
        asked.basis,
    )


def _running(head: Head, rates: Rates) -> Running:
    seconds = max(0.0, time.time() - head.first_began_at_s) if head.start else 0.0
    return Running(head.call_id, head.key, head.gpu, seconds, seconds * rates.of(head.gpu, CORES, MEMORY_GIB))


def stop() -> tuple[str, ...]:
    """Cancel every call, with its container, and end the app; returns the calls that were cancelled.

    A call whose maker was killed before it wrote the call down is known to nobody; it ends with the app.
    """
    calls, board = Calls(), boards()
    running = [head for head in heads_of(board).values() if not head.ended]
    for head in running:
        with in_our_words():
            board.claims.put(cancelled_key(head.call_id), head.call_id)
        calls.cancel(head.call_id)
        with in_our_words():
            board.heads.put(head.call_id, head.model_copy(update={"ended": True}).model_dump_json())
    modal = library()
    with in_our_words(), suppress(modal.exception.NotFoundError):
        modal.App.lookup(APP_NAME).stop()
    return tuple(head.call_id for head in running)
