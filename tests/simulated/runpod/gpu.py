"""What a pod of the fake has: no GPU; where a test says so, a driver's name to try the check of it."""

import os
import tempfile
from pathlib import Path

from experiments.executors.runpod.body import Container
from experiments.telemetry.identity import DeviceIdentity, NoSuchDevice
from tests.simulated.places import JOB_COMMAND


def told(device: str) -> DeviceIdentity:
    name = os.environ.get("FAKE_GPU")
    if name is None:
        raise NoSuchDevice("There is no driver here.")
    return DeviceIdentity(name, int(float(os.environ["FAKE_GPU_GB"]) * 1e9))


def container() -> Container:
    work = Path(tempfile.mkdtemp(prefix="pod-", dir=os.environ["FAKE_DISK"]))
    return Container(
        work=work,
        command=JOB_COMMAND,
        identify=told,
        tell_s=0.1,
        reach_s=float(os.environ.get("FAKE_REACH_S", "20")),
    )
