"""What a pod of the fake has: no GPU; where a test says so, a driver's name to try the check of it."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from experiments.executors.runpod.body import Container
from experiments.telemetry.identity import DeviceIdentity, NoSuchDevice
from experiments.telemetry.reading import Sample
from tests.simulated.gpu_samples import made_up_sampler
from tests.simulated.places import JOB_COMMAND


def told(device: str) -> DeviceIdentity:
    name = os.environ.get("FAKE_GPU")
    if name is None:
        raise NoSuchDevice("There is no driver here.")
    return DeviceIdentity(name, int(float(os.environ["FAKE_GPU_GB"]) * 1e9))


def sampler() -> Callable[[], Sample]:
    made = made_up_sampler(f"{os.environ['FAKE_GPU']},{os.environ['FAKE_GPU_GB']}")
    assert made is not None  # asked for only where a GPU was found
    return made


def container() -> Container:
    work = Path(tempfile.mkdtemp(prefix="pod-", dir=os.environ["FAKE_DISK"]))
    return Container(
        work=work,
        command=JOB_COMMAND,
        identify=told,
        sampler=sampler,
        tell_s=0.1,
        reach_s=float(os.environ.get("FAKE_REACH_S", "20")),
    )
