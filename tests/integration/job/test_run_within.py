"""A test that has a limit of its own: at it every process is ended, and what was measured before is kept."""

import threading
import time
from pathlib import Path

import pytest

from experiments.engines.port import Infeasible
from experiments.job.limits import END_NAME, TIME_IS_UP, StageLimits, ask_to_end, asked_to_end, time_is_up
from experiments.measurement.evidence import Arm, Stage
from experiments.measurement.judging import Evaluate, MeasureMore, MeasurePair
from tests.integration.job.running import Run, run
from tests.simulated.specs import FASTER, WORKLOAD, a_test_job
from tests.waiting import wait_for

__all__ = ["run"]


def test_what_was_measured_before_the_time_was_up_is_kept_and_nothing_failed(run: Run):
    spec = a_test_job(FASTER | {"simulated.hangs": "score"}, within_s=4.0)
    result = run(spec, [MeasurePair(Stage.QUICK, 2), Evaluate()])
    assert result.failure is None
    assert result.stop_reason == time_is_up(4.0) == "The 4 s that it was given were over."
    timed = [each.arm for each in result.launches if each.stage is Stage.QUICK]
    assert sorted(timed) == sorted(Arm)
    assert (result.stages[-1].stage, result.stages[-1].outcome) == (Stage.EVALUATE, "timed_out")


@pytest.mark.parametrize("more", [{}, {"at_once": 1}], ids=["side by side", "in turn"])
def test_a_pair_that_was_cut_off_is_left_out_of_both_arms(run: Run, more: dict[str, int]):
    spec = a_test_job(FASTER | {"simulated.hangs": "generate"}, within_s=1.0, **more)
    result = run(spec, [MeasurePair(Stage.QUICK, 2)])
    assert (result.failure, result.launches) == (None, ())
    assert result.stop_reason == time_is_up(1.0)


def test_of_a_pair_that_is_timed_further_only_what_was_asked_last_is_left_out(run: Run):
    """A couple of blocks of which one arm always led would take a drift of the machine for an effect."""
    of_a_block, quick, more = WORKLOAD.requests_per_block, 2, 4
    hangs_after = WORKLOAD.requests_before + of_a_block * (quick + 1)  # in the second of the further blocks
    spec = a_test_job(
        FASTER | {"simulated.hangs": "generate", "simulated.hangs_after": hangs_after}, within_s=3.0
    )
    result = run(spec, [MeasurePair(Stage.QUICK, quick), MeasureMore(Stage.FULL, more)])
    assert result.stop_reason == time_is_up(3.0)
    assert sorted(each.arm for each in result.launches) == sorted(Arm)
    for launch in result.launches:
        assert {sample.block for sample in launch.samples} == set(range(quick))
        told = launch.environment["blocks"]
        assert isinstance(told, list)
        assert [each["block"] for each in told] == [*range(quick)]  # type: ignore[index,call-overload]


def test_a_launch_that_still_loads_is_ended_too(run: Run):
    begun = time.monotonic()
    result = run(a_test_job(FASTER | {"simulated.load_s": 60}, within_s=0.5))
    assert time.monotonic() - begun < 30
    assert (result.failure, result.launches) == (None, ())


def test_a_control_that_is_ended_so_is_not_said_to_have_failed(run: Run):
    result = run(a_test_job(control={"simulated.tpot_ms": 10.0, "simulated.load_s": 60}, within_s=0.5))
    assert result.failure is None


def test_within_the_time_nothing_is_different(run: Run):
    result = run(a_test_job(FASTER, within_s=60.0))
    assert len(result.launches) == 2
    assert result.stop_reason != time_is_up(60.0)


ASKED = "The budget was spent."


def read(folder: Path) -> str:
    return (folder / "records.jsonl").read_text()


def test_one_that_is_asked_to_end_keeps_what_it_measured_too(run: Run, tmp_path: Path):
    folder = tmp_path / "0"

    def ask() -> None:
        wait_for(lambda: (folder / "records.jsonl").exists() and "evaluate" in read(folder))
        ask_to_end(folder, ASKED)

    asking = threading.Thread(target=ask)
    asking.start()
    spec = a_test_job(FASTER | {"simulated.hangs": "score"})
    result = run(spec, [MeasurePair(Stage.QUICK, 2), Evaluate()])
    asking.join()
    assert (result.failure, result.stop_reason) == (None, ASKED)
    assert sorted(each.arm for each in result.launches if each.stage is Stage.QUICK) == sorted(Arm)


def test_nobody_is_asked_by_a_file_that_says_nothing(tmp_path: Path):
    assert asked_to_end(tmp_path) is None
    (tmp_path / END_NAME).write_text("")
    assert asked_to_end(tmp_path) is None
    ask_to_end(tmp_path, ASKED)
    assert asked_to_end(tmp_path) == ASKED


def test_what_computes_in_the_job_itself_is_given_up_after_it_was_told_what_was_cut_off():
    told: list[str] = []
    given_up = threading.Event()

    def stuck(reason: Infeasible) -> None:
        told.append(reason.kind)
        given_up.set()

    limits = StageLimits({}, stuck, stuck_after_s=0.05)
    with pytest.raises(Infeasible) as caught, limits.until(0.05, lambda why: told.append("cut off")):  # noqa: PT012
        given_up.wait(10)
        limits.check()
    assert caught.value.kind == TIME_IS_UP
    assert told == ["cut off", TIME_IS_UP]
