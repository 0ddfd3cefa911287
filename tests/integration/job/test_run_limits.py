"""Runs that hang are ended at their limits: a request, a load, a stage; and only what is the job's own is."""

import signal
import subprocess
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import psutil
import pytest

from experiments.engines.port import GenerationTrace, Infeasible
from experiments.engines.server_process import end_process_tree
from experiments.job.limits import StageLimits
from experiments.job.result import Failure
from experiments.measurement.evidence import Stage
from experiments.measurement.judging import Evaluate, MeasurePair
from experiments.space.configuration import Configuration
from tests.integration.job.running import Run, run
from tests.simulated.engine import SimulatedEngine, SimulatedLaunch
from tests.simulated.specs import CONTROL, FASTER, a_baseline_job, a_test_job

__all__ = ["run"]


class GivesUp(SimulatedEngine):
    """Ends a launch that gives no answer in a while, and tells that as its own limit of a request."""

    def launch(self, configuration: Configuration, *args: Any, **more: Any) -> SimulatedLaunch:
        launch = super().launch(configuration, *args, **more)
        if configuration.get("simulated.hangs"):
            launch.serve = partial(gives_up, launch, launch.serve)  # type: ignore[method-assign]
        return launch


def gives_up(
    launch: SimulatedLaunch, serve: Callable[..., list[GenerationTrace]], *args: Any
) -> list[GenerationTrace]:
    late = threading.Timer(0.2, launch.process.kill)
    late.start()
    try:
        return serve(*args)
    except Infeasible:
        raise Infeasible("timed_out", "The engine did not serve them within 0.2 s; it was ended.") from None
    finally:
        late.cancel()


@pytest.mark.parametrize("after", [0, 4])
@pytest.mark.parametrize("at_once", [None, 1])
def test_a_launch_of_the_sweep_that_hangs_is_told_and_the_others_are_timed(
    run: Run, after: int, at_once: int | None
):
    """While it warms up or later, with the others up beside it or one launch up at a time."""
    hangs = {**CONTROL, "simulated.hangs": "generate", "simulated.hangs_after": after}
    other = CONTROL | {"simulated.tpot_ms": 30.0}
    result = run(a_baseline_job((hangs, CONTROL, other), at_once=at_once), engine=GivesUp())
    assert result.failure is None
    assert result.chosen == CONTROL
    (sweep,) = (each for each in result.stages if each.stage is Stage.SWEEP)
    assert sweep.outcome == "done"
    assert sweep.detail["failed"] == [
        {
            "configuration": hangs,
            "kind": "timed_out",
            "cause": "The engine did not serve them within 0.2 s; it was ended.",
            "blames": {},
        }
    ]
    timed = {each.index for each in result.launches if each.stage is Stage.SWEEP and each.samples}
    assert timed >= {1, 2}


def test_a_sweep_in_which_nothing_answers_ends_at_its_limit(run: Run):
    hangs = {**CONTROL, "simulated.hangs": "generate"}
    result = run(a_baseline_job((CONTROL, hangs)), limits_s={Stage.SWEEP: 1.0})
    assert result.failure == Failure("timed_out", "The stage sweep took longer than its limit of 1 s.")


@pytest.mark.parametrize("hangs", ["generate", "score"])
def test_a_stage_that_hangs_is_ended_at_its_limit(run: Run, hangs: str):
    stage = Stage.QUICK if hangs == "generate" else Stage.EVALUATE
    result = run(
        a_test_job(FASTER | {"simulated.hangs": hangs}),
        [MeasurePair(Stage.QUICK, 2), Evaluate()],
        limits_s={stage: 0.3},
    )
    assert result.failure == Failure(
        "timed_out", f"The stage {stage.value} took longer than its limit of 0.3 s."
    )
    assert (result.stages[-1].stage, result.stages[-1].outcome) == (stage, "timed_out")


def test_a_launch_that_is_not_ready_within_the_load_limit_is_infeasible(run: Run):
    """The limit of loading is a setting of its own: the stage's is far away."""
    result = run(a_test_job(FASTER | {"simulated.load_s": 60}), load_limit_s=0.5)
    assert result.failure == Failure("timed_out", "The simulated process was not ready within 0.5 s.")


def test_a_stage_that_computes_in_the_job_itself_is_given_up():
    given_up = threading.Event()
    limits = StageLimits({Stage.PRUNE: 0.05}, lambda reason: given_up.set(), stuck_after_s=0.05)

    def compute() -> None:
        with limits.of(Stage.PRUNE):
            given_up.wait(10)
            limits.check()

    with pytest.raises(Infeasible, match="longer than its limit"):
        compute()
    assert given_up.is_set()


def test_what_a_process_from_before_starts_is_left_alone():
    """As a database server does that runs beside: it is not the job's, and killing it would be felt."""
    shell = ["sh", "-c", "read line; sleep 60 & echo $!; wait"]
    other = subprocess.Popen(shell, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdin is not None
    assert other.stdout is not None
    limits = StageLimits({Stage.PRUNE: 0.2})
    try:
        with limits.of(Stage.PRUNE):
            own = subprocess.Popen(["sleep", "60"])
            other.stdin.write("now\n")
            other.stdin.flush()
            of_other = psutil.Process(int(other.stdout.readline()))
            assert own.wait(10) == -signal.SIGKILL
        assert of_other.is_running()
        assert of_other.status() != psutil.STATUS_ZOMBIE
        assert other.poll() is None
    finally:
        end_process_tree(other)
        other.stdin.close()
        other.stdout.close()
