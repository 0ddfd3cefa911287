"""The function that tests deploy: the real body, with jobs of the simulated engine, and the GPU that the fake
machine says it has. It runs in a process that Modal's real container runtime started."""

import os
from collections.abc import Callable
from pathlib import Path

from experiments.executors.modal.body import Container, run_body
from experiments.telemetry.identity import DeviceIdentity, NoSuchDevice
from experiments.telemetry.reading import Sample
from tests.simulated.gpu_samples import made_up_sampler
from tests.simulated.places import JOB_COMMAND

GPU, FOLDER, RAISES = "FAKE_MODAL_GPU", "FAKE_MODAL_FOLDER", "FAKE_MODAL_RAISES"


def identify(device: str) -> DeviceIdentity:
    name, _, memory_gb = os.environ[GPU].rpartition(",")
    if not name:
        raise NoSuchDevice("there is none.")
    return DeviceIdentity(name, int(float(memory_gb) * 1e9))


def sampler() -> Callable[[], Sample]:
    made = made_up_sampler(os.environ[GPU])
    assert made is not None  # asked for only where a GPU was found
    return made


def job(packed: bytes) -> str:
    import modal

    from experiments.executors.modal.client import boards

    if os.environ.get(RAISES):
        raise TimeoutError("the body's own")
    call_id = modal.current_function_call_id()
    assert call_id is not None
    folder = Path(os.environ[FOLDER])
    container = Container(
        work=folder,
        models=folder / "models",
        command=JOB_COMMAND,
        identify=identify,
        sampler=sampler,
        tell_s=0.05,
    )
    return run_body(packed, call_id, boards(), container)
