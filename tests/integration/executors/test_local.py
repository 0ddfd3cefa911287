import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from configs.errors import AutoinferError, PermissionRefused
from configs.library_threads import THREADS_VARIABLE, compute_in_one_thread
from experiments.executors.local import LocalExecutor
from experiments.executors.port import RunState
from experiments.executors.process_group import ProcessGroup, members
from experiments.job.place import Place
from experiments.scratch import HELD
from tests.integration.executors.conformance import SLOW, ExecutorConformance
from tests.integration.worker.processes import processes_of
from tests.simulated.clock import HOUR_S, boot_again, set_clock
from tests.simulated.places import JOB_COMMAND, simulated_executor
from tests.simulated.specs import FASTER, a_test_job
from tests.waiting import wait_for

REPOSITORY = Path(__file__).parents[3]
UNWRITABLE = Path("/sys/kernel/autoinfer")


class LocalPlace:
    """A folder of runs on this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made: list[LocalExecutor] = []

    def executor(self) -> LocalExecutor:
        self.made.append(simulated_executor(self.folder))
        return self.made[-1]

    def processes(self, ref: str) -> list[psutil.Process]:
        group = self.executor().group(ref)
        return [] if group is None else members(group)

    def living(self, ref: str) -> int:
        return len(self.processes(ref))

    def kill(self, ref: str) -> None:
        for process in self.processes(ref):
            process.kill()

    def wait_for(self, done: Callable[[], bool]) -> None:
        wait_for(done)


@pytest.fixture
def place(tmp_path: Path):
    made = LocalPlace(tmp_path)
    yield made
    for executor in made.made:
        executor.close()


class TestLocalExecutor(ExecutorConformance):
    pass


def measuring(place: LocalPlace, **environment: str) -> tuple[LocalExecutor, str]:
    executor = simulated_executor(place.folder, environment)
    place.made.append(executor)
    return executor, executor.submit("slow", a_test_job(SLOW))


def in_measurement(executor: LocalExecutor, ref: str) -> bool:
    progress = executor.poll(ref).progress
    return progress is not None and progress.stage == "quick"


@pytest.mark.parametrize("victim", ["job", "supervisor"])
def test_the_rest_of_the_group_ends_with_a_killed_member(place: LocalPlace, victim: str):
    executor, ref = measuring(place)
    wait_for(lambda: in_measurement(executor, ref) and place.living(ref) == 4)
    group = executor.group(ref)
    assert group is not None
    supervisor = psutil.Process(group.pgid)
    [job] = supervisor.children()
    # A log that no process holds open, newer than those of the servers, who write as they end.
    said = place.folder / "jobs" / ref / "launches" / "quick-candidate-9.log"
    said.write_text("loading weights\nout of memory in layer 3\n")
    ahead_s = time.time() + 60
    os.utime(said, (ahead_s, ahead_s))
    (supervisor if victim == "supervisor" else job).kill()
    wait_for(lambda: executor.poll(ref).state not in (RunState.PENDING, RunState.RUNNING))
    status = executor.poll(ref)
    assert status.state is RunState.LOST
    wait_for(lambda: place.living(ref) == 0)  # what was killed may take a moment to be gone
    if victim == "job":
        assert status.failure is not None
        assert "killed by signal 9" in status.failure
        assert f"that of its last launch ({said.name}) ends: out of memory in layer 3" in status.failure


def test_a_cancelled_run_leaves_no_zombie_though_its_leader_is_reaped_late(
    place: LocalPlace, monkeypatch: pytest.MonkeyPatch
):
    """A leader counts as gone when its first thread has ended; its exit status comes with its last."""
    executor, ref = measuring(place)
    wait_for(lambda: in_measurement(executor, ref))
    group = executor.group(ref)
    assert group is not None

    def kill(group: ProcessGroup) -> bool:
        os.killpg(group.pgid, signal.SIGKILL)
        return True

    monkeypatch.setattr("experiments.executors.local.end_group", kill)
    executor.cancel(ref)
    assert not psutil.pid_exists(group.pgid)


def test_a_stopped_group_is_ended_too(place: LocalPlace):
    executor, ref = measuring(place)
    wait_for(lambda: in_measurement(executor, ref))
    group = executor.group(ref)
    assert group is not None
    os.killpg(group.pgid, signal.SIGSTOP)
    executor.cancel(ref)
    assert place.living(ref) == 0


@pytest.mark.parametrize("by_s", [-HOUR_S, HOUR_S])
def test_a_run_goes_on_though_the_clock_is_set_and_is_ended_by_whoever_comes_after(
    place: LocalPlace, monkeypatch: pytest.MonkeyPatch, by_s: float
):
    executor, ref = measuring(place)
    set_clock(monkeypatch, by_s)
    assert executor.poll(ref).state in (RunState.PENDING, RunState.RUNNING)
    restarted = place.executor()
    assert restarted.poll(ref).state in (RunState.PENDING, RunState.RUNNING)
    assert restarted.reconcile() == [ref]
    assert place.living(ref) > 0
    restarted.cancel(ref)
    assert restarted.poll(ref).state is RunState.CANCELLED
    assert place.living(ref) == 0


def test_a_run_that_an_older_version_wrote_down_is_found_by_the_clock(place: LocalPlace):
    executor, ref = measuring(place)
    written = place.folder / "jobs" / ref / "process.json"
    told = json.loads(written.read_text())
    assert told.pop("started_ticks") > 0
    assert told.pop("kernel")
    assert set(told) == {"pid", "started_at_s", "submitted_at_s"}
    written.write_text(json.dumps(told))
    restarted = place.executor()
    assert restarted.poll(ref).state in (RunState.PENDING, RunState.RUNNING)
    assert restarted.reconcile() == [ref]
    restarted.cancel(ref)
    assert place.living(ref) == 0
    executor.close()


def test_a_run_from_before_a_boot_is_lost_and_whoever_has_its_id_now_is_left_alone(
    place: LocalPlace, monkeypatch: pytest.MonkeyPatch
):
    executor, ref = measuring(place)
    boot_again(monkeypatch)
    restarted = place.executor()
    assert restarted.reconcile() == []
    assert restarted.poll(ref).state is RunState.LOST
    restarted.cancel(ref)
    monkeypatch.undo()
    assert executor.poll(ref).state in (RunState.PENDING, RunState.RUNNING)


def finished(executor: LocalExecutor, ref: str) -> RunState:
    wait_for(lambda: executor.poll(ref).state not in (RunState.PENDING, RunState.RUNNING))
    return executor.poll(ref).state


def loaded(executor: LocalExecutor, ref: str) -> psutil.Process:
    """The process that the run was forked from; the run must be alive."""
    group = executor.group(ref)
    assert group is not None
    parent = psutil.Process(group.pgid).parent()
    assert parent is not None
    return parent


def hanging(executor: LocalExecutor, ref: str) -> str:
    return executor.submit(ref, a_test_job(FASTER | {"simulated.hangs": "generate"}))


def test_runs_are_forked_from_one_process_that_loads_once(place: LocalPlace):
    executor = place.executor()
    executor.submit("first", a_test_job())
    assert finished(executor, "first") is RunState.DONE
    said = executor.logs("first")
    assert said is not None
    assert "stopped: The list of steps is done." in said.text
    parents = {loaded(executor, hanging(executor, ref)) for ref in ("second", "third")}
    assert len(parents) == 1
    executor.close()
    assert not any(parent.is_running() for parent in parents)
    assert place.living("second") == place.living("third") == 0


@pytest.mark.parametrize("given", [{}, {THREADS_VARIABLE: "3"}], ids=["nothing given", "three given"])
def test_a_job_and_its_launches_may_use_the_threads_that_were_given_though_its_worker_uses_one(
    place: LocalPlace, monkeypatch: pytest.MonkeyPatch, given: dict[str, str]
):
    monkeypatch.delenv(THREADS_VARIABLE, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    compute_in_one_thread()
    executor, ref = measuring(place)
    wait_for(lambda: in_measurement(executor, ref) and place.living(ref) == 4)
    found = [each.environ() for each in [loaded(executor, ref), *place.processes(ref)]]
    assert [each.get(THREADS_VARIABLE) for each in found] == [given.get(THREADS_VARIABLE)] * 5


def test_a_run_that_is_cancelled_as_soon_as_it_was_submitted_leaves_nothing(place: LocalPlace):
    executor = place.executor()
    for number in range(20):
        ref = executor.submit(f"run-{number}", a_test_job(SLOW))
        group = executor.group(ref)
        assert group is not None
        assert os.getpgid(group.pgid) == group.pgid
        executor.cancel(ref)
        assert not psutil.pid_exists(group.pgid)
        assert executor.poll(ref).state is RunState.CANCELLED


def test_the_process_that_runs_are_forked_from_is_replaced_and_its_runs_go_on(place: LocalPlace):
    executor = place.executor()
    before = loaded(executor, hanging(executor, "first"))
    before.kill()
    assert loaded(executor, hanging(executor, "second")) != before
    assert executor.poll("first").state in (RunState.PENDING, RunState.RUNNING)
    executor.cancel("first")
    assert place.living("first") == 0


def test_a_process_that_can_t_load_is_told_with_its_last_words(place: LocalPlace):
    words = (sys.executable, "-c", "import sys; sys.exit('no module named torch here')")
    executor = simulated_executor(place.folder, command=words)
    place.made.append(executor)
    with pytest.raises(AutoinferError, match=r"did not start .*it said last: no module named torch here"):
        executor.submit("k", a_test_job())
    assert executor.reconcile() == []


def test_a_log_that_can_t_be_written_is_told_as_such_and_harms_no_later_run(place: LocalPlace):
    executor = place.executor()
    parent = loaded(executor, hanging(executor, "first"))
    (place.folder / "jobs" / "second" / "log.txt").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        executor.submit("second", a_test_job())
    assert loaded(executor, hanging(executor, "third")) == parent


def test_a_run_that_can_t_be_written_down_is_ended(place: LocalPlace):
    executor = place.executor()
    (place.folder / "jobs" / "k" / "process.json.tmp").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        executor.submit("k", a_test_job(SLOW))
    wait_for(lambda: not processes_of(place.folder))


def test_a_job_that_raises_leaves_its_traceback_and_its_exit_code(place: LocalPlace):
    words = (
        sys.executable,
        "-c",
        "from experiments.executors.forking import serve; serve(lambda folder: 1 / 0)",
    )
    executor = simulated_executor(place.folder, command=words)
    executor.submit("k", a_test_job())
    assert finished(executor, "k") is RunState.LOST
    failure = executor.poll("k").failure
    assert failure is not None
    assert "ended with exit code 1" in failure
    assert "ZeroDivisionError" in failure
    executor.close()


SUBMIT_AND_SLEEP = """
import sys, time
from pathlib import Path
from tests.simulated.places import simulated_executor
from tests.simulated.specs import a_test_job
from tests.integration.executors.conformance import SLOW
executor = simulated_executor(Path(sys.argv[1]))
print(executor.submit("slow", a_test_job(SLOW)), flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("also", ["nobody", "job", "supervisor"])
def test_nothing_is_left_when_the_executor_is_killed(place: LocalPlace, also: str):
    command = [sys.executable, "-c", SUBMIT_AND_SLEEP, str(place.folder)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        ref = holder.stdout.readline().strip()
        executor = place.executor()
        wait_for(lambda: in_measurement(executor, ref) and place.living(ref) == 4)
        group = executor.group(ref)
        assert group is not None
        supervisor = psutil.Process(group.pgid)
        [job] = supervisor.children()
        forked_from = loaded(executor, ref)
        killed = {"nobody": [], "job": [job.pid], "supervisor": [supervisor.pid]}[also]
        os.kill(holder.pid, signal.SIGKILL)
        for pid in killed:
            with suppress(ProcessLookupError):  # it may have seen already that the executor is gone
                os.kill(pid, signal.SIGKILL)
    wait_for(lambda: place.living(ref) == 0 and not forked_from.is_running())
    assert executor.poll(ref).state is RunState.LOST
    assert executor.reconcile() == []


MAKE_AND_DIE = """
import os, sys
from pathlib import Path
from experiments.engines.server_process import SOCKETS, TEMPORARY
from experiments.scratch import ScratchFolder
made = ScratchFolder(TEMPORARY, Path(sys.argv[1])), ScratchFolder(SOCKETS, Path(sys.argv[2]))
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("how", ["cancelled", "killed"])
def test_what_the_launches_of_a_run_left_goes_when_the_run_is_ended_or_found_dead(
    place: LocalPlace, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    cache, temporary = a_cache(place), tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    executor = place.executor()
    ref = executor.submit("slow", a_test_job(SLOW))
    wait_for(lambda: in_measurement(executor, ref))
    subprocess.run(
        [sys.executable, "-c", MAKE_AND_DIE, str(cache), str(temporary)], cwd=REPOSITORY, check=False
    )
    assert len(left_in(cache)) == len(left_in(temporary)) == 1
    if how == "cancelled":
        executor.cancel(ref)
    else:
        place.kill(ref)
        wait_for(lambda: executor.poll(ref).state is RunState.LOST)
    assert left_in(cache) == left_in(temporary) == []


def a_cache(place: LocalPlace) -> Path:
    """Where launches of its runs have their temporary files."""
    return place.executor()._place.cache_dir


def left_in(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if (path / HELD).exists()]


def test_an_executor_that_is_only_frozen_keeps_its_run(place: LocalPlace):
    command = [sys.executable, "-c", SUBMIT_AND_SLEEP, str(place.folder)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        ref = holder.stdout.readline().strip()
        executor = place.executor()
        wait_for(lambda: in_measurement(executor, ref))
        holder.send_signal(signal.SIGSTOP)
        assert executor.poll(ref).state is RunState.RUNNING
        executor.cancel(ref)
        assert place.living(ref) == 0
        holder.kill()


@pytest.mark.skipif(not UNWRITABLE.parent.exists(), reason="needs a folder where nobody may write")
def test_a_job_that_says_why_it_can_t_go_on_has_failed(place: LocalPlace):
    executor = LocalExecutor(
        place.folder / "jobs", Place(artifacts_dir=UNWRITABLE, cache_dir=place.folder), JOB_COMMAND
    )
    place.made.append(executor)
    ref = executor.submit("k", a_test_job(FASTER | {"simulated.layers": 3}))
    wait_for(lambda: executor.poll(ref).state not in (RunState.PENDING, RunState.RUNNING))
    status = executor.poll(ref)
    assert status.state is RunState.FAILED
    assert status.failure is not None
    assert status.failure.startswith(f"You may not write at {UNWRITABLE}")


@pytest.mark.skipif(not UNWRITABLE.parent.exists(), reason="needs a folder where nobody may write")
def test_a_folder_that_can_t_be_written_is_told_in_a_sentence(place: LocalPlace):
    executor = LocalExecutor(UNWRITABLE, Place(artifacts_dir=place.folder, cache_dir=place.folder))
    with pytest.raises(PermissionRefused, match="where runs are kept"):
        executor.submit("k", a_test_job())


def test_logs_are_not_cut_within_a_character(place: LocalPlace):
    executor = place.executor()
    folder = place.folder / "jobs" / "k"
    folder.mkdir(parents=True)
    text = "µ€𝄞" * 20_000
    (folder / "log.txt").write_text(text)
    read, cursor = "", 0
    while (chunk := executor.logs("k", cursor)) and chunk.text:
        read, cursor = read + chunk.text, chunk.cursor
    assert read == text


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_keeps_nobody_from_ending_a_run(place: LocalPlace):
    executor, ref = measuring(place)
    wait_for(lambda: in_measurement(executor, ref))
    (place.folder / "jobs" / ref / "cancelled.json").symlink_to("/dev/full")
    executor.cancel(ref)
    assert place.living(ref) == 0


def test_a_run_that_left_no_word_on_a_full_disk_failed_for_that_and_is_not_lost(
    place: LocalPlace, monkeypatch: pytest.MonkeyPatch
):
    """Its records, log and exit code found no room; tried again it would end so again."""
    executor, ref = measuring(place)
    wait_for(lambda: in_measurement(executor, ref))
    group = executor.group(ref)
    assert group is not None
    [job] = psutil.Process(group.pgid).children()
    monkeypatch.setattr("experiments.disk._free_bytes", lambda folder: 0)
    job.kill()
    wait_for(lambda: executor.poll(ref).state not in (RunState.PENDING, RunState.RUNNING))
    status = executor.poll(ref)
    assert (status.state, status.failure_kind) == (RunState.FAILED, "disk_full")
    assert status.failure is not None
    assert status.failure.startswith(f"The run failed because a disk is full: {place.folder}")
