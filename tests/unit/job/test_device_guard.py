"""What a job makes of the driver's answers about its device. They are invented: nothing here is a GPU."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from experiments.engines.port import Infeasible
from experiments.job.device_guard import (
    LOOK_EVERY_S,
    MEMORY_RETURN_LIMIT_S,
    RETURN_LIMIT_S,
    DeviceGuard,
    others_of,
)
from experiments.job.memory_return import IDLE_BYTES
from experiments.job.unnamed_memory import VARIABLE, allowed_bytes
from experiments.telemetry.driver import open_driver
from experiments.telemetry.free_memory import MemoryUnknown
from experiments.telemetry.occupants import DeviceGone, DeviceUse, Occupant, device_use
from tests.unit.telemetry.fake_nvml import HEALTHY, FakeNvml, memory, process

GB = 10**9
OWN = frozenset({100, 101})


def use(*computing: Occupant, used: int = 0, drawn: int = 0) -> DeviceUse:
    held = sum(each.used_bytes or 0 for each in computing)
    return DeviceUse(held + used + drawn, 150 * GB, computing, drawn)


class Answers:
    """A guard whose driver gives these answers in turn, the last for ever; waiting takes no time."""

    def __init__(
        self, *answers: DeviceUse | Exception, xids: Sequence[tuple[int, ...]] = ((),), there: bool = True
    ) -> None:
        self.answers, self.seconds, self.xids = list(answers), 0.0, list(xids)
        self.ended: list[int] = []
        self.guard = DeviceGuard(
            "cuda:0",
            look=self.look,
            xids=lambda _: self.next_of(self.xids),
            own=lambda: OWN,
            end=self.ended.append,
            exists=lambda _: there,
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


def test_what_nobody_is_named_for_is_told_with_what_allows_it() -> None:
    """A driver under WSL, or of a desktop, made up: it names no process."""
    wsl = DeviceUse(3 * GB, 24 * GB, None)
    assert others_of(wsl, OWN, 0) == (
        "3.0 GB are held, and the driver names no process that computes; where it is a desktop, Windows or "
        "WSL that holds them, AUTOINFER_UNNAMED_GPU_MEMORY=4GB (the setting unnamed_gpu_memory) allows it, "
        "in place of 1.1 GB"
    )
    assert others_of(wsl, OWN, 0, 4 * GB) is None
    assert others_of(use(used=5 * GB), OWN, 0, 4 * GB) is not None
    assert "train.py" in str(others_of(use(OTHER), OWN, 0, 40 * GB)), "who is named is there all the same"


@pytest.mark.parametrize(
    ("variable", "bytes_"),
    [({}, IDLE_BYTES), ({VARIABLE: "3GB"}, 3 * 10**9), ({VARIABLE: "much"}, IDLE_BYTES)],
)
def test_how_much_may_be_held_unnamed_is_the_user_s_word(variable: dict[str, str], bytes_: int) -> None:
    assert allowed_bytes(variable) == bytes_


def test_a_guard_goes_by_the_user_s_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "4GB")
    answers = Answers(DeviceUse(3 * GB, 24 * GB, None))
    answers.guard.before_launches()
    assert answers.seconds == 0
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(Infeasible, match=rf"holds them, {VARIABLE}=4GB .* allows it") as told:
        Answers(DeviceUse(3 * GB, 24 * GB, None)).guard.before_launches()
    assert told.value.kind == "device_busy"


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


@pytest.mark.parametrize(("there", "waited_s"), [(True, 0.0), (False, LOOK_EVERY_S)])
def test_who_comes_while_it_is_measured_ends_the_job_at_once_or_by_a_second_look(
    there: bool, waited_s: float
) -> None:
    answers = Answers(use(MINE), use(MINE, OTHER), there=there)
    answers.guard.up = 1
    answers.guard.alone()
    with pytest.raises(Infeasible, match=r"train\.py") as told:
        answers.guard.alone()
    assert (told.value.kind, answers.seconds) == ("device_busy", waited_s)


def test_who_was_there_during_a_block_and_leaves_after_it_counts() -> None:
    answers = Answers(use(MINE, OTHER), use(MINE))
    answers.guard.up = 1
    with pytest.raises(Infeasible, match=r"train\.py"):
        answers.guard.alone()


def test_a_child_that_ends_between_two_lists_is_nobody_else() -> None:
    ending = Occupant(102, "python", None)
    answers = Answers(use(MINE, ending), use(MINE), there=False)
    answers.guard.up = 1
    answers.guard.alone()
    assert answers.seconds == LOOK_EVERY_S


def test_who_was_the_job_s_when_the_driver_was_asked_is_not_somebody_else() -> None:
    ending, owned = Occupant(102, "python", 0), [OWN | {102}, OWN]
    guard = DeviceGuard(
        "cuda:0", look=lambda _: use(MINE, ending), xids=lambda _: (), own=lambda: owned.pop(0)
    )
    guard.up = 1
    guard.alone()
    assert not owned


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
    guard.seen()
    assert guard.returned() is None


def after_a_launch(*after: DeviceUse | Exception, during: DeviceUse | None = None) -> Answers:
    """A guard that saw half a GB before its launch, `during` beside it, and then gets these answers."""
    answers = Answers(use(used=GB // 2), during or use(MINE, used=GB // 2), *after)
    answers.guard.before_launches()
    answers.guard.up = 1
    answers.guard.seen()
    answers.guard.up = 0
    return answers


def test_what_a_launch_held_is_waited_for_and_told_before_at_most_and_after() -> None:
    answers = after_a_launch(use(MINE, used=GB), use(used=4 * GB), use(used=GB // 2))
    held = answers.guard.returned()
    assert held is not None
    assert (held.before_bytes, held.most_bytes, held.after_bytes) == (GB // 2, 20 * GB + GB // 2, GB // 2)
    assert (held.left, held.waited_s) == (None, answers.seconds)
    assert 0 < held.waited_s < RETURN_LIMIT_S
    assert held.told("cuda:0") == (
        "Memory of cuda:0: 0.5 GB held before, 20.5 GB at most, 0.5 GB after the last launch."
    )


def test_a_launch_s_process_that_stays_is_killed_and_named_where_that_does_not_help() -> None:
    answers = after_a_launch(use(MINE, used=GB // 2))
    held = answers.guard.returned()
    assert held is not None
    assert set(answers.ended) == {101}
    assert answers.seconds >= RETURN_LIMIT_S
    assert str(held.left).startswith("20.0 GB of cuda:0 that this job's launches held were not given back")
    assert "process 101 (VLLM::EngineCore) holds 20.0 GB and is this job's" in str(held.left)
    assert "nvidia-smi --gpu-reset" in str(held.left)


def test_a_process_that_is_no_longer_the_job_s_is_named_and_left_alone() -> None:
    """Its number was seen while it was; whose it is by now nobody tells."""
    dying = Occupant(99, "VLLM::EngineCore", 20 * GB)
    answers = after_a_launch(use(dying), during=use(dying))
    held = answers.guard.returned()
    assert held is not None
    assert "process 99 (VLLM::EngineCore) holds 20.0 GB" in str(held.left)
    assert answers.ended == []


def test_memory_that_nobody_is_named_for_is_told_with_what_to_do() -> None:
    held = after_a_launch(use(used=5 * GB)).guard.returned()
    assert held is not None
    assert "4.5 GB of cuda:0" in str(held.left)
    assert "the driver names no process for them; look with `nvidia-smi`" in str(held.left)


def test_what_somebody_else_took_meanwhile_is_not_the_job_s() -> None:
    answers = after_a_launch(use(OTHER))
    held = answers.guard.returned()
    assert held is not None
    assert (held.left, answers.seconds, answers.ended) == (None, 0, [])
    mute = after_a_launch(use(Occupant(7, "train.py", None), used=9 * GB)).guard.returned()
    assert mute is not None
    assert "process 7 (train.py) holds an unknown amount and is not this job's" in str(mute.left)


@pytest.mark.parametrize("silence", [DeviceGone("GPU is lost"), MemoryUnknown("mute")])
def test_a_driver_that_falls_silent_is_not_waited_for(silence: Exception) -> None:
    answers = after_a_launch(silence)
    held = answers.guard.returned()
    assert held is not None
    assert (held.after_bytes, held.left, answers.seconds) == (None, None, 0)
    assert "not told after the last launch" in held.told("cuda:0")


def test_a_job_that_was_never_alone_on_its_device_tells_nothing_of_its_memory() -> None:
    answers = Answers(use(OTHER))
    with pytest.raises(Infeasible):
        answers.guard.before_launches()
    assert answers.guard.returned() is None


def test_the_driver_s_own_answers_are_followed_from_a_launch_to_its_end() -> None:
    """Through the library's questions, as invented for tests."""
    table = dict(HEALTHY)
    library = FakeNvml(table)
    guard = DeviceGuard(
        "cuda:0",
        look=lambda device: device_use(device, lambda: open_driver(lambda: library), {}, lambda pid: None),
        xids=lambda device: (),
        own=lambda: frozenset({41}),
        end=lambda pid: None,
        wait=lambda seconds: table.update(MemoryInfo=memory(0, 140 * GB), ComputeRunningProcesses=[]),
    )
    table.update(MemoryInfo=memory(0, 140 * GB), ComputeRunningProcesses=[])
    guard.before_launches()
    table.update(MemoryInfo=memory(30 * GB, 140 * GB), ComputeRunningProcesses=[process(41, 30 * GB)])
    guard.up = 1
    guard.alone()
    guard.up = 0
    held = guard.returned()
    assert held is not None
    assert (held.before_bytes, held.most_bytes, held.after_bytes, held.left) == (0, 30 * GB, 0, None)
