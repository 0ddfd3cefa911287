"""Which processes of vLLM are begun ahead of the launch that takes them, and which one takes which."""

import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest

from experiments.engines.vllm import drivers_ahead
from experiments.engines.vllm.drivers_ahead import (
    AT_REST_LIMIT_S,
    AT_REST_POLL_S,
    CORES_MIN,
    MEMORY_MIN_BYTES,
    MORE_CORES_MIN,
    WAITING_MAX,
    DriversAhead,
    is_worth_it,
)
from experiments.engines.vllm.environment import VllmEnvironment

FOUND = VllmEnvironment(Path("python"), "0.26.0", for_cpu=False)


class Begun:
    """Stands for a driver's process."""

    made: ClassVar[list["Begun"]] = []
    import_for_long: ClassVar[bool] = False
    """Whether they are not at rest before they are told."""

    def __init__(self, found: VllmEnvironment, device: str, log_path: Path, cache_dir: Path) -> None:
        self.args, self.log_path = (found, device, cache_dir), log_path
        self.closed, self.running, self.at_rest = False, True, not self.import_for_long
        log_path.parent.mkdir(parents=True, exist_ok=True)
        log_path.touch()
        self.made.append(self)

    def is_for(self, *args: object) -> bool:
        return self.args == args and self.running

    def is_running(self) -> bool:
        return self.running

    def is_at_rest(self) -> bool:
        return self.at_rest or not self.running

    def log_to(self, log_path: Path) -> bool:
        if log_path.exists():
            return False
        self.log_path = self.log_path.rename(log_path)
        return True

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Begun]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "system"))
    monkeypatch.setattr(drivers_ahead, "BegunDriver", Begun)
    Begun.made, Begun.import_for_long = [], False
    return Begun.made


def taken(ahead: DriversAhead, folder: Path, name: str, device: str = "cuda:0") -> Begun:
    found: object = ahead.take(FOUND, device, folder / f"{name}.log", folder / "cache")
    assert isinstance(found, Begun)
    return found


def always(device: str, jobs: int, waiting: int) -> bool:
    return True


def test_a_launch_takes_what_the_one_before_it_began(tmp_path: Path, made: list[Begun]) -> None:
    ahead = DriversAhead(always)
    first, second = taken(ahead, tmp_path, "a"), taken(ahead, tmp_path, "b")
    assert (made.index(first), made.index(second), len(made)) == (0, 1, 3)
    assert second.log_path == tmp_path / "b.log"
    assert not made[2].closed


def test_what_waits_is_for_launches_on_the_same_device_alone(tmp_path: Path, made: list[Begun]) -> None:
    ahead = DriversAhead(always)
    taken(ahead, tmp_path, "a")
    other = taken(ahead, tmp_path, "b", "cuda:1")
    assert made.index(other) == 2
    assert taken(ahead, tmp_path, "c") is made[1]


def test_what_ended_while_it_waited_is_not_taken(tmp_path: Path, made: list[Begun]) -> None:
    ahead = DriversAhead(always)
    taken(ahead, tmp_path, "a")
    made[1].running = False
    assert taken(ahead, tmp_path, "b") is made[2]
    assert made[1].closed


def test_a_launch_that_has_a_log_already_begins_its_own(tmp_path: Path, made: list[Begun]) -> None:
    ahead = DriversAhead(always)
    taken(ahead, tmp_path, "a")
    again = taken(ahead, tmp_path, "a")
    assert again is made[2]
    assert made[1].closed
    assert sorted(path.name for path in tmp_path.glob("*.log")) == ["a.log", "ahead-1.log"]


def test_no_more_wait_than_load_at_the_same_time(tmp_path: Path, made: list[Begun]) -> None:
    ahead = DriversAhead(always)
    for number, device in enumerate(("cuda:0", "cuda:1", "cuda:2")):
        taken(ahead, tmp_path, str(number), device)
    assert len(made) == 3 + WAITING_MAX


def test_each_load_fills_up_to_what_is_opened_at_once_after_it(tmp_path: Path, made: list[Begun]) -> None:
    ahead = DriversAhead(always)
    for _ in range(WAITING_MAX):
        begin(ahead, tmp_path)
    ahead.expect(4)
    assert [taken(ahead, tmp_path, name) for name in "ab"] == made[:2]
    ahead.settle()
    assert len(made) == 2 + 4
    ahead.expect(0)
    assert [taken(ahead, tmp_path, name) for name in "cdef"] == made[2:]
    assert len(made) == 2 + 4, "those were the last"


def until_made(made: list[Begun], count: int) -> None:
    """Wait for so many drivers."""
    until_s = time.monotonic() + 10.0
    while len(made) < count and time.monotonic() < until_s:
        time.sleep(0.01)
    assert len(made) == count


@pytest.mark.parametrize("how", ["at_rest", "ended"])
def test_the_next_is_begun_once_what_was_taken_has_imported(
    how: str, tmp_path: Path, made: list[Begun]
) -> None:
    Begun.import_for_long = True
    ahead = DriversAhead(always)
    ahead.expect(3)
    first = taken(ahead, tmp_path, "a")
    for count in (1, 2, 3):
        time.sleep(3 * AT_REST_POLL_S)
        assert len(made) == count, "imports side by side take longer"
        if how == "ended":
            made[-1].running = False
        else:
            made[-1].at_rest = True
        until_made(made, count + 1)
    made[-1].at_rest = True
    ahead.settle()
    assert len(made) == 4
    assert (taken(ahead, tmp_path, "b") is made[1]) == (how == "at_rest")
    ahead.close()
    ahead.settle()
    assert first.log_path == tmp_path / "a.log"


def test_a_load_is_not_over_before_what_it_has_yet_to_begin_is_at_rest(
    tmp_path: Path, made: list[Begun]
) -> None:
    Begun.import_for_long = True
    ahead = DriversAhead(always)
    first = taken(ahead, tmp_path, "a")
    with ThreadPoolExecutor(1) as pool:
        settled = pool.submit(ahead.settle)
        time.sleep(3 * AT_REST_POLL_S)
        assert not settled.done(), "the next one is still to begin"
        first.at_rest = True
        until_made(made, 2)
        time.sleep(3 * AT_REST_POLL_S)
        assert not settled.done(), "it imports"
        made[1].at_rest = True
        assert settled.result(10) > 0


def test_nothing_is_begun_after_the_job_though_what_was_taken_has_imported(
    tmp_path: Path, made: list[Begun]
) -> None:
    Begun.import_for_long = True
    ahead = DriversAhead(always)
    first = taken(ahead, tmp_path, "a")
    ahead.close()
    first.at_rest = True
    ahead.settle()
    assert made == [first]


def test_where_no_thread_can_be_had_the_load_goes_on_and_none_is_begun(
    tmp_path: Path, made: list[Begun], monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    Begun.import_for_long = True
    ahead = DriversAhead(always)
    first = taken(ahead, tmp_path, "a")
    ahead.settle()
    assert made == [first]
    assert not first.closed


@pytest.mark.parametrize(
    ("cores", "jobs_of_memory", "waiting"),
    [(MORE_CORES_MIN, 2, 4), (MORE_CORES_MIN - 1, 2, WAITING_MAX), (MORE_CORES_MIN, 1, WAITING_MAX)],
)
def test_of_more_than_wait_as_a_rule_each_needs_the_cores_and_the_memory_of_one_job_more(
    cores: int,
    jobs_of_memory: int,
    waiting: int,
    tmp_path: Path,
    made: list[Begun],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(drivers_ahead, "usable_cores", lambda: cores)
    monkeypatch.setattr(drivers_ahead, "available_memory_bytes", lambda: jobs_of_memory * MEMORY_MIN_BYTES)
    ahead = DriversAhead()
    ahead.expect(4)
    taken(ahead, tmp_path, "a")
    ahead.settle()
    assert len(made) == 1 + waiting


def test_a_load_is_over_once_all_that_it_began_is_at_rest(
    tmp_path: Path, made: list[Begun], monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = [0.0]

    def wait(waited_s: float) -> None:
        seconds[0] += waited_s
        made[1].at_rest = seconds[0] > 5.0

    clock = SimpleNamespace(monotonic=lambda: seconds[0], sleep=wait)
    monkeypatch.setattr(drivers_ahead, "time", clock)
    ahead = DriversAhead(always)
    taken(ahead, tmp_path, "a")
    made[1].at_rest = False
    assert 5.0 < ahead.settle() < 6.0
    assert taken(ahead, tmp_path, "b") is made[1]
    made[2].at_rest = False
    assert ahead.settle() >= AT_REST_LIMIT_S
    assert made[2].closed, "what is never at rest would disturb whatever is timed"
    assert taken(ahead, tmp_path, "c") is made[3]
    assert len(made) == 4, "the next would be as late"


def test_what_was_begun_for_nothing_ends_and_nothing_more_is_begun(tmp_path: Path, made: list[Begun]) -> None:
    ahead = DriversAhead(always)
    taken(ahead, tmp_path, "a")
    ahead.close()
    ahead.close()
    assert [each.closed for each in made] == [False, True]
    assert not (tmp_path / "ahead-0.log").exists()
    taken(ahead, tmp_path, "b")
    assert len(made) == 3


@pytest.mark.parametrize(
    ("device", "cores", "free_bytes", "expected"),
    [
        ("cuda:0", CORES_MIN, MEMORY_MIN_BYTES, True),
        ("cuda:0", CORES_MIN - 1, MEMORY_MIN_BYTES, False),
        ("cuda:0", CORES_MIN, MEMORY_MIN_BYTES - 1, False),
        ("cpu", CORES_MIN, MEMORY_MIN_BYTES, False),
    ],
)
def test_none_is_begun_where_it_would_take_what_a_load_needs(
    device: str,
    cores: int,
    free_bytes: int,
    expected: bool,
    tmp_path: Path,
    made: list[Begun],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(drivers_ahead, "usable_cores", lambda: cores)
    monkeypatch.setattr(drivers_ahead, "available_memory_bytes", lambda: free_bytes)
    taken(DriversAhead(), tmp_path, "a", device)
    assert (len(made) == 2) == expected


LOAD_AND_WAIT = """
import sys, tempfile
from experiments.engines.vllm.drivers_ahead import LOADING
from experiments.scratch import ScratchFolder
from pathlib import Path
folder = ScratchFolder(LOADING, Path(sys.argv[1]))
print(folder.path, flush=True)
sys.stdin.read()
"""
"""Holds what a job holds while it loads, and waits to be killed."""


def counting(jobs: list[int]) -> DriversAhead:
    """Tells how many jobs load whenever one is to be begun, and begins none."""

    def tell(device: str, loading: int, waiting: int) -> bool:
        jobs.append(loading)
        return False

    return DriversAhead(tell)


@pytest.mark.parametrize(("jobs", "expected"), [(1, True), (3, True), (4, False), (8, False)])
def test_each_job_that_loads_needs_the_memory_for_itself(
    jobs: int, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drivers_ahead, "usable_cores", lambda: CORES_MIN)
    monkeypatch.setattr(drivers_ahead, "available_memory_bytes", lambda: 3 * MEMORY_MIN_BYTES)
    assert is_worth_it("cuda:0", jobs) == expected


def test_a_job_is_counted_by_the_others_until_all_of_its_loads_are_over(
    tmp_path: Path, made: list[Begun]
) -> None:
    jobs: list[int] = []
    first, second, third = (counting(jobs) for _ in range(3))
    taken(first, tmp_path, "a")
    taken(first, tmp_path, "b")
    assert jobs == [1, 1], "two loads of one job are one job's"
    taken(second, tmp_path, "c")
    first.settle()
    taken(third, tmp_path, "d")
    assert jobs[2:] == [2, 3], "the first still loads"
    first.settle()
    third.settle()
    taken(third, tmp_path, "e")
    assert jobs[4:] == [2]


def test_a_job_that_is_killed_while_it_loads_is_counted_no_more(tmp_path: Path, made: list[Begun]) -> None:
    jobs: list[int] = []
    ahead = counting(jobs)
    command = [sys.executable, "-c", LOAD_AND_WAIT, tempfile.gettempdir()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        taken(ahead, tmp_path, "a")
        other.kill()
        other.wait()
    taken(ahead, tmp_path, "b")
    assert jobs == [2, 1]


def begin(ahead: DriversAhead, folder: Path) -> None:
    ahead.begin(FOUND, "cuda:0", folder, folder / "cache")


def test_first_loads_take_what_was_begun_before_any_load(tmp_path: Path, made: list[Begun]) -> None:
    ahead = DriversAhead(always)
    for _ in range(WAITING_MAX + 1):
        begin(ahead, tmp_path)
    assert len(made) == WAITING_MAX
    first, second = taken(ahead, tmp_path, "a"), taken(ahead, tmp_path, "b")
    assert [first, second] == made[:2]
    assert first.log_path == tmp_path / "a.log"


def test_what_was_begun_before_any_load_ends_where_none_comes(tmp_path: Path, made: list[Begun]) -> None:
    ahead = DriversAhead(always)
    begin(ahead, tmp_path)
    ahead.close()
    begin(ahead, tmp_path)
    assert [each.closed for each in made] == [True]
    assert not list(tmp_path.glob("*.log"))


def test_before_its_first_load_a_job_counts_as_one_that_loads_and_asks_for_what_it_builds_too(
    tmp_path: Path, made: list[Begun]
) -> None:
    jobs: list[int] = []
    first, second, other = (counting(jobs) for _ in range(3))
    begin(first, tmp_path)
    begin(first, tmp_path)
    assert jobs == [2, 2], "itself, and the checkpoint that it builds"
    taken(other, tmp_path, "a")
    other.settle()
    assert jobs[2:] == [2], "it is counted by the others"
    taken(first, tmp_path, "b")
    first.settle()
    taken(other, tmp_path, "c")
    other.settle()
    assert jobs[3:] == [1, 1], "and no more once its loads are over"
    begin(second, tmp_path)
    second.close()
    taken(other, tmp_path, "d")
    assert jobs[5:] == [2, 1], "nor where none came"
