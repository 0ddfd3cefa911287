"""Drafting is checked on the texts of the process that is timed, by one whose drafts can be replaced."""

import errno
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from experiments.engines.messages import data_of
from experiments.engines.port import DraftingCheck, GenerationRequest, GenerationTrace, Infeasible
from experiments.engines.reference.inspection import inspect_checkpoint
from experiments.engines.vllm import launch as launch_module
from experiments.engines.vllm.environment import VllmEnvironment
from experiments.engines.vllm.launch import VllmLaunch
from experiments.engines.vllm.order import VllmOrder
from experiments.reference_model.load import reference_model_path
from experiments.space.configuration import Configuration

REQUEST = GenerationRequest("a", (1, 2, 3), 2)
TEXT = GenerationTrace((4, 5), (0.1, 0.2), (1,))
CHECK = DraftingCheck("a", (1,), 1, 0, 0, 0.1, 0)


class Driver:
    """Stands for a driver's process: it keeps what it is asked, and says what is scheduled."""

    made: ClassVar[list["Driver"]] = []
    refuses: ClassVar[list[Infeasible | OSError | None]] = []

    def __init__(self, order: VllmOrder, *, log_path: Path, **more: Any) -> None:
        refused = self.refuses.pop(0) if self.refuses else None
        if refused is not None:
            raise refused
        self.order, self.log_path = order, log_path
        self.asked: list[str] = []
        self.closed = False
        self.load_s, self.load_parts_s, self.pid = 1.0, {}, 7
        self.made.append(self)

    def ask(self, request: Mapping[str, Any], verb: str, requests: int = 1) -> Any:
        self.asked.append(request["op"])
        match request["op"]:
            case "resolved":
                ahead = self.order.arguments.get("async_scheduling") is not False
                return {"async_scheduling": "on" if ahead else "off", "dtype": "bfloat16", "weights": {}}
            case "draft_texts":
                return [data_of(TEXT)]
            case "check_drafting":
                assert request["texts"] == [data_of(TEXT)]
                return [data_of(CHECK)]
            case _:
                return {"documents": [], "tasks": []}

    def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def drivers(monkeypatch: pytest.MonkeyPatch) -> list[Driver]:
    monkeypatch.setattr(launch_module, "DriverProcess", Driver)
    Driver.made, Driver.refuses = [], []
    return Driver.made


def launched(tmp_path: Path, **arguments: Any) -> VllmLaunch:
    order = VllmOrder("x", "cuda:0", {"max_num_seqs": 1, **arguments}, "", "mtp", 1)
    files = inspect_checkpoint(reference_model_path())
    found = VllmEnvironment(Path("python"), "0.26.0", for_cpu=False)
    return VllmLaunch(Configuration.of({}), order, files, found, tmp_path / "a.log", tmp_path, 1.0, 1.0)


def test_steps_that_are_scheduled_ahead_are_read_by_a_second_process_that_does_not(
    tmp_path: Path, drivers: list[Driver]
) -> None:
    launch = launched(tmp_path)
    assert launch.check_drafting([REQUEST]) == [CHECK]
    launch.score([], [])
    timed, reader = drivers
    assert reader.order.arguments == {"max_num_seqs": 1, "async_scheduling": False}
    assert reader.log_path != timed.log_path
    assert (timed.asked.count("draft_texts"), reader.asked) == (1, ["check_drafting", "score"])
    assert not timed.closed, "it may still be profiled"
    launch.close()
    assert timed.closed
    assert reader.closed


def test_a_process_that_schedules_step_by_step_reads_its_own_texts(
    tmp_path: Path, drivers: list[Driver]
) -> None:
    launched(tmp_path, async_scheduling=False).check_drafting([REQUEST])
    assert [driver.asked for driver in drivers] == [["draft_texts", "check_drafting"]]


def test_without_memory_for_both_the_timed_one_makes_room(tmp_path: Path, drivers: list[Driver]) -> None:
    launch = launched(tmp_path)
    Driver.refuses[:] = [Infeasible("out_of_memory", "full")]
    assert launch.check_drafting([REQUEST]) == [CHECK]
    timed, reader = drivers
    assert timed.closed
    assert not reader.closed


def test_a_second_process_that_cannot_be_started_is_a_failure_with_what_to_do(tmp_path: Path) -> None:
    launch = launched(tmp_path)
    Driver.refuses[:] = [OSError(errno.ENOENT, "No such file or directory")]
    with pytest.raises(Infeasible, match=r"can't be started \(No such file or directory\); see") as told:
        launch.check_drafting([REQUEST])
    assert told.value.kind == "crashed"


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOSPC, errno.EACCES])
def test_what_no_process_could_be_started_for_is_no_failure_of_the_configuration(
    tmp_path: Path, number: int
) -> None:
    launch = launched(tmp_path)
    Driver.refuses[:] = [OSError(number, "not now")]
    with pytest.raises(OSError, match="not now"):
        launch.check_drafting([REQUEST])
