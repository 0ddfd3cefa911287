"""An A/A pair: two launches of one configuration, seated as a test's arms, and what may run beside them."""

import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from configs.errors import AutoinferError
from experiments.artifacts.store import ArtifactStore
from experiments.job.aa_beside import MARK_VARIABLE, Beside
from experiments.job.records import Records
from experiments.job.result import JobResult
from experiments.job.run import run_job
from experiments.job.spec import AaJob, parse_job
from experiments.measurement.evidence import Arm, Metric, Stage
from experiments.own_processes import begun_beside, children
from experiments.space.configuration import Configuration
from tests.integration.job.running import a_place
from tests.simulated.engine import SimulatedEngine
from tests.simulated.judges import StepsJudge
from tests.simulated.specs import CONTROL, WORKLOAD
from tests.waiting import PATIENCE_S

Run = Callable[[AaJob], JobResult]

SPEAKS = ("sh", "-c", "echo beside; exec sleep 600")
"""A shell: it has spoken, or died, before anything of Python's has begun."""
GOES_ON = (sys.executable, "-c", "import time; time.sleep(600)")
LEAVES_ITS_GROUP = """
import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
time.sleep(600)
"""


def an_aa_job(**more: object) -> AaJob:
    fields: dict[str, object] = {
        "campaign_id": 1,
        "experiment_id": 1,
        "engine": "simulated",
        "model": "simulated",
        "model_fingerprint": "simulated-fingerprint",
        "device": "cpu",
        "seed": 0,
        "configuration": CONTROL,
        "workload": WORKLOAD,
        "blocks": 2,
        "pair": 0,
        "prompts": 0,
    }
    return AaJob.model_validate(fields | more)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Runs a job in a folder of its own; afterwards no process may be left."""
    (tmp_path / "cache").mkdir()
    before = children()
    runs = 0

    def run(spec: AaJob) -> JobResult:
        nonlocal runs
        folder = tmp_path / f"run{runs}"
        folder.mkdir()
        runs += 1
        with ArtifactStore(tmp_path / "artifacts") as store, Records(folder / "records.jsonl") as records:
            return run_job(spec, a_place(folder, tmp_path, store), SimulatedEngine(), StepsJudge([]), records)

    yield run
    assert not begun_beside(before)
    assert not marked(f"{tmp_path.resolve()}:1")


def marked(mark: str) -> list[int]:
    """Processes that bear the mark of a command that ran beside."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK_VARIABLE) == mark:
                found.append(process.pid)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def begun(mark: str) -> list[int]:
    """The same, waited for: a process that has just replaced its image shows no environment for a moment."""
    while not (found := marked(mark)):
        time.sleep(0.01)
    return found


def order_of(result: JobResult) -> list[str]:
    return [
        arm.value
        for _, arm in sorted({(s.position, each.arm) for each in result.launches for s in each.samples})
    ]


def test_both_seats_run_the_same_configuration_on_the_same_prompts(run: Run) -> None:
    result = run(an_aa_job())
    control, candidate = result.launches
    assert (control.arm, candidate.arm) == (Arm.CONTROL, Arm.CANDIDATE)
    assert {each.configuration_digest for each in result.launches} == {Configuration.of(CONTROL).digest}
    assert {each.stage for each in result.launches} == {Stage.NOISE}
    asked = [
        [(s.block, s.item) for s in each.samples if s.metric is Metric.TPOT_MS] for each in result.launches
    ]
    assert asked[0] == asked[1]
    assert len(asked[0]) == 2 * WORKLOAD.prompts_per_block
    assert order_of(result) == ["control", "candidate", "candidate", "control"]


def test_the_arms_take_turns_in_the_seats_and_in_leading_and_pairs_that_are_compared_get_the_same_texts(
    run: Run,
) -> None:
    first, second = run(an_aa_job()), run(an_aa_job(pair=1))
    assert order_of(second) == ["candidate", "control", "control", "candidate"]
    assert [each.arm for each in first.launches] == [Arm.CONTROL, Arm.CANDIDATE]
    assert [each.arm for each in second.launches] == [Arm.CANDIDATE, Arm.CONTROL]
    items = [{s.item for each in result.launches for s in each.samples} for result in (first, second)]
    assert items[0] == items[1]


def test_alone_one_launch_is_over_before_the_other_begins(run: Run) -> None:
    result = run(an_aa_job(alone=True, pair=1))
    assert order_of(result) == ["candidate", "candidate", "control", "control"]
    assert [each.arm for each in result.launches] == [Arm.CANDIDATE, Arm.CONTROL]


def test_what_runs_beside_is_up_while_the_pair_is_timed_and_ended_with_all_it_started(
    run: Run, tmp_path: Path
) -> None:
    result = run(an_aa_job(beside=(sys.executable, "-c", LEAVES_ITS_GROUP)))
    assert len(result.launches) == 2
    run(an_aa_job(beside=SPEAKS))
    assert (tmp_path / "run1" / "beside.log").read_text() == "beside\n"


def test_what_a_killed_pair_left_behind_is_ended_before_the_next(tmp_path: Path) -> None:
    left = Beside(GOES_ON, tmp_path, "series 7").__enter__()
    assert len(begun("series 7")) == 1
    with Beside(GOES_ON, tmp_path, "series 7"):
        assert len(begun("series 7")) == 1
    assert left.ended() is not None
    assert not marked("series 7")


def test_another_series_s_command_is_left_alone(tmp_path: Path) -> None:
    with Beside(GOES_ON, tmp_path, "series 8") as other:
        with Beside(GOES_ON, tmp_path, "series 9"):
            pass
        assert other.ended() is None


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("no-such-command-anywhere",), "can't be started: No such file or directory"),
        (("sh", "-c", "echo no dashboard here >&2; exit 1"), "ended with exit code 1"),
        (("sh", "-c", "echo no dashboard here >&2; exit 1"), "no dashboard here"),
        (("sh", "-c", "kill -9 $$"), "was killed by signal 9"),
    ],
)
def test_a_command_that_is_not_there_or_dies_is_told_and_nothing_is_taken_as_measured_beside_it(
    run: Run, command: tuple[str, ...], said: str
) -> None:
    slow = {**CONTROL, "simulated.load_s": 0.3}
    with pytest.raises(AutoinferError, match=said):
        run(an_aa_job(beside=command, configuration=slow))


def test_a_command_that_cannot_be_ended_is_told_with_its_processes(tmp_path: Path) -> None:
    beside = Beside(GOES_ON, tmp_path, "deaf", kill=lambda process, number: None, kill_s=0.1)
    beside.__enter__()
    [pid] = begun("deaf")
    started = time.monotonic()
    with pytest.raises(AutoinferError, match=f"can't be ended: processes {pid} go on"):
        beside.__exit__(None, None, None)
    assert time.monotonic() - started < PATIENCE_S
    psutil.Process(pid).send_signal(signal.SIGKILL)
    while beside.ended() is None:  # reaps it
        time.sleep(0.01)


def test_a_stopped_command_is_ended_too(tmp_path: Path) -> None:
    with Beside(GOES_ON, tmp_path, "stopped"):
        [pid] = begun("stopped")
        psutil.Process(pid).suspend()
    assert not marked("stopped")


def test_a_configuration_that_dies_is_a_failure_of_the_pair(run: Run) -> None:
    result = run(
        an_aa_job(configuration={**CONTROL, "simulated.fails": "generate", "simulated.fails_after": 1})
    )
    assert result.failure is not None
    assert result.failure.kind == "crashed"


def test_its_spec_survives_the_queue() -> None:
    spec = an_aa_job(beside=("autoinfer", "dashboard"), alone=False)
    assert parse_job(spec.model_dump(mode="json")) == spec
    assert not spec.as_tests_run
    assert an_aa_job().as_tests_run
