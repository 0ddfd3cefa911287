"""What a job makes of the driver's answers about its device. They are invented: nothing here is a GPU."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from experiments.engines.port import Infeasible
from experiments.job.device_guard import MEMORY_RETURN_LIMIT_S, DeviceGuard, others_of
from experiments.telemetry.free_memory import MemoryUnknown
from experiments.telemetry.occupants import DeviceGone, DeviceUse, Occupant

GB = 10**9
OWN = frozenset({100, 101})


def use(*computing: Occupant, used: int = 0, drawn: int = 0) -> DeviceUse:
    held = sum(each.used_bytes or 0 for each in computing)
    return DeviceUse(held + used + drawn, 150 * GB, computing, drawn)


class Answers:
    """A guard whose driver gives these answers in turn, the last for ever; waiting takes no time."""

    def __init__(self, *answers: DeviceUse | Exception, xids: Sequence[tuple[int, ...]] = ((),)) -> None:
        self.answers, self.seconds, self.xids = list(answers), 0.0, list(xids)
        self.guard = DeviceGuard(
            "cuda:0",
            look=self.look,
            xids=lambda _: self.next_of(self.xids),
            own=lambda: OWN,
            wait=self.wait,
            clock=lambda: self.seconds,
        )

    def look(self, device: str) -> DeviceUse:
        found = self.next_of(self.answers)
        if isinstance(found, Exception):
            raise found
        return found

    def wait(self, seconds: float) -> None:
        self.seconds += seconds

    @staticmethod
    def next_of(found: list[Any]) -> Any:
        return found.pop(0) if len(found) > 1 else found[0]


MINE, OTHER = Occupant(101, "VLLM::EngineCore", 20 * GB), Occupant(7, "train.py", 30 * GB)


@pytest.mark.parametrize(
    ("found", "up", "words"),
    [
        (use(), 0, None),
        (use(used=GB // 2), 0, None),
        (use(MINE), 1, None),
        (use(MINE, OTHER), 1, "process 7 (train.py) holds 30.0 GB"),
        (use(OTHER), 0, "process 7 (train.py) holds 30.0 GB"),
        (use(OTHER), 1, None),  # numbers of another machine's view: ours would be there too
        (use(used=5 * GB), 0, "5.0 GB are held, and the driver names no process"),
        (use(used=5 * GB), 1, None),
        (use(drawn=5 * GB), 0, None),
        (DeviceUse(5 * GB, 150 * GB, None), 0, "5.0 GB are held"),
    ],
)
def test_who_else_is_there(found: DeviceUse, up: int, words: str | None) -> None:
    told = others_of(found, OWN, up)
    assert told is None if words is None else words in str(told)


def test_a_launch_waits_until_its_predecessor_s_memory_is_back() -> None:
    dying = Occupant(99, None, 20 * GB)
    answers = Answers(use(dying), use(dying), use(used=3 * GB), use())
    answers.guard.before_launches()
    assert 0 < answers.seconds < MEMORY_RETURN_LIMIT_S


def test_who_stays_ends_the_job_with_name_and_figures() -> None:
    answers = Answers(use(OTHER))
    with pytest.raises(Infeasible) as told:
        answers.guard.before_launches()
    assert told.value.kind == "device_busy"
    assert "process 7 (train.py) holds 30.0 GB" in told.value.cause
    assert answers.seconds >= MEMORY_RETURN_LIMIT_S


def test_who_comes_while_it_is_measured_ends_the_job_at_once() -> None:
    answers = Answers(use(MINE), use(MINE, OTHER))
    answers.guard.up = 1
    answers.guard.alone()
    with pytest.raises(Infeasible, match=r"train\.py") as told:
        answers.guard.alone()
    assert (told.value.kind, answers.seconds) == ("device_busy", 0)


@pytest.mark.parametrize(
    "act",
    [DeviceGuard.unwatched, DeviceGuard.before_launches, DeviceGuard.alone],
    ids=lambda act: act.__name__,
)
def test_a_lost_device_is_told_with_what_to_do(act: Callable[[DeviceGuard], object]) -> None:
    with pytest.raises(Infeasible, match="nvidia-smi --gpu-reset") as told:
        act(Answers(DeviceGone("GPU is lost")).guard)
    assert told.value.kind == "device_lost"


def test_a_launch_that_died_with_its_device_is_not_blamed() -> None:
    crash = Infeasible("crashed", "vLLM's engine process ended.")
    assert Answers(DeviceGone("GPU is lost")).guard.explained(crash).kind == "device_lost"
    logged = Answers(use(), xids=((48,), (48, 79))).guard.explained(crash)
    assert logged.kind == "device_lost"
    assert "Xid 79" in logged.cause


def test_a_launch_that_died_by_itself_is() -> None:
    crash = Infeasible("crashed", "vLLM's engine process ended.")
    full = Infeasible("out_of_memory", "The GPU's memory is full.")
    assert Answers(use(), xids=((79,), (79,))).guard.explained(crash) is crash
    assert Answers(MemoryUnknown("mute")).guard.explained(crash) is crash
    assert Answers(DeviceGone("GPU is lost")).guard.explained(full) is full


def test_what_can_t_be_watched_is_told_and_no_reason_to_end() -> None:
    guard = Answers(MemoryUnknown("No NVIDIA driver answers on this machine.")).guard
    assert "No NVIDIA driver" in str(guard.unwatched())
    guard.before_launches()
    guard.alone()
    assert "lists no processes" in str(Answers(DeviceUse(0, 150 * GB, None)).guard.unwatched())
    assert Answers(use()).guard.unwatched() is None


def test_a_cpu_is_not_watched() -> None:
    def never(device: str) -> DeviceUse:
        raise AssertionError(device)

    guard = DeviceGuard("cpu", look=never)
    assert guard.unwatched() is None
    guard.before_launches()
    guard.alone()
