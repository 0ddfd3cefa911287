"""What is made of the driver's answer when a device is looked at."""

import pytest

from agent.campaign.device_rests import Look, who_is_on
from experiments.job.unnamed_memory import VARIABLE
from experiments.telemetry.free_memory import MemoryUnknown
from experiments.telemetry.occupants import DeviceGone, DeviceUse, Occupant
from tests.integration.campaign.shared_bench import FREE, TAKEN


@pytest.mark.parametrize(
    ("answer", "look"),
    [
        (DeviceUse(0, 10**11, ()), FREE),
        (DeviceUse(9 * 10**9, 10**11, (Occupant(7, "python3", 9 * 10**9),)), TAKEN),
        (MemoryUnknown("No NVIDIA driver answers."), Look(not_known="No NVIDIA driver answers")),
        (DeviceGone("GPU is lost"), Look(not_known="the driver says: GPU is lost")),
    ],
    ids=["nobody", "a notebook", "no driver", "lost"],
)
def test_what_is_made_of_the_driver_s_answer(
    answer: DeviceUse | Exception, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    def device_use(device: str) -> DeviceUse:
        assert device == "cuda:0"
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr("agent.campaign.device_rests.device_use", device_use)
    monkeypatch.setattr("agent.campaign.device_rests.socket.gethostname", lambda: "desk")
    assert who_is_on("cuda:0", "desk/cuda:0") == look
    assert who_is_on("cuda:0", None) == look


@pytest.mark.parametrize(("allowed", "free"), [(None, False), ("3GB", True)])
def test_a_device_whose_memory_nobody_is_named_for_rests_until_the_user_allows_it(
    allowed: str | None, free: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "agent.campaign.device_rests.device_use", lambda device: DeviceUse(2 * 10**9, 10**11, None)
    )
    monkeypatch.delenv(VARIABLE, raising=False)
    if allowed is not None:
        monkeypatch.setenv(VARIABLE, allowed)
    assert (who_is_on("cuda:0", None) == FREE) is free


def test_a_device_of_another_machine_is_not_asked_for_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(device: str) -> DeviceUse:
        raise AssertionError(device)

    monkeypatch.setattr("agent.campaign.device_rests.device_use", never)
    monkeypatch.setattr("agent.campaign.device_rests.socket.gethostname", lambda: "desk")
    assert who_is_on("cuda:0", "server/cuda:0") == Look(not_known="it is on server")
