"""The test job: one hypothesis, control against candidate, step by step as the judge asks.

A pair of launches is loaded side by side and timed in blocks A B B A B A A B …; while one is timed the
other waits for its next request. Launch pairs are numbered over all stages. The control's failure is not
the candidate's: it is reported under the kind `control`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from configs.errors import AutoinferError
from experiments.engines.port import Infeasible
from experiments.job.checkpoints import prepare_checkpoint
from experiments.job.evaluation import evaluate_candidate, evaluate_reference, record_reference
from experiments.job.launching import ArmInfeasible, OpenLaunch, RunningJob, Wanted, close
from experiments.job.schedule import abba
from experiments.job.spec import TestJob
from experiments.job.staging import StageTold, stage
from experiments.measurement.evidence import Arm, Evidence, NoiseProfile, Stage
from experiments.measurement.judging import Evaluate, Judge, MeasureMore, MeasurePair, Stop
from experiments.space.configuration import Configuration

CONTROL_FAILED = "control"
"""Failure kind of a job whose control (or reference) did not run: it says nothing about the candidate."""

MAX_STEPS = 100
"""Steps after which a judge that never stops counts as broken; a plan of today needs fewer than 20."""


def run_test(job: RunningJob, spec: TestJob, judge: Judge) -> None:
    """Run the job; raises `Infeasible` when an arm can't run, of kind `control` when it is the control."""
    with _Comparison(job, spec).running() as comparison:
        for _ in range(MAX_STEPS):
            step = judge.next_step(spec.plan, comparison.evidence())
            match step:
                case MeasurePair():
                    comparison.measure_pair(step.stage, step.blocks)
                case MeasureMore():
                    comparison.measure_more(step.stage, step.blocks)
                case Evaluate():
                    comparison.evaluate()
                case Stop():
                    job.records.stopped(step.reason)
                    return
    raise AutoinferError(
        f"The judge {judge.name} did not stop after {MAX_STEPS} steps.", "This is a fault of the judge."
    )


class _Comparison:
    """The arms of one test: their checkpoints, the launch pair that is up, and what was measured so far."""

    def __init__(self, job: RunningJob, spec: TestJob) -> None:
        self._job = job
        self._spec = spec
        self._control = Configuration.of(spec.control)
        self._candidate = Configuration.of(spec.candidate)
        self._reference = Configuration.of(spec.reference) if spec.reference is not None else self._control
        self._noise = NoiseProfile(
            spec.noise.target_key,
            spec.plan.metric,
            spec.noise.launches,
            spec.noise.degrees_of_freedom,
            spec.noise.launch_sd_log,
        )
        self._pairs = 0
        self._up: dict[Arm, OpenLaunch] = {}
        self._blocks = 0

    @contextmanager
    def running(self) -> Iterator[_Comparison]:
        """Check and prepare both arms, and end what is up afterwards."""
        with stage(self._job, Stage.STATIC, 2, "check both configurations") as told:
            for arm, configuration in ((Arm.CONTROL, self._control), (Arm.CANDIDATE, self._candidate)):
                with _blamed_on(arm):
                    self._job.engine.check(configuration, self._job.context.checkpoint, self._spec.device)
                told.advance()
        with _blamed_on(Arm.CONTROL):
            control, _ = prepare_checkpoint(self._job, self._control)
        candidate, _ = prepare_checkpoint(self._job, self._candidate)
        self._checkpoints = {Arm.CONTROL: control, Arm.CANDIDATE: candidate}
        try:
            yield self
        finally:
            self._close()

    def evidence(self) -> Evidence:
        """What the judge may look at by now."""
        return Evidence(
            launches=self._job.records.fold.launches(),
            noise=self._noise,
            changes=self._control.changes_to(self._candidate),
        )

    def measure_pair(self, name: Stage, blocks: int) -> None:
        """Time a fresh launch an arm."""
        self._close()
        index, self._pairs = self._pairs, self._pairs + 1
        with stage(self._job, name, 2 * blocks, f"time launch pair {index + 1}") as told:
            opened, failed = self._job.open(name, [self._wanted(arm, index) for arm in Arm])
            self._up = {launch.wanted.arm: launch for launch in opened}
            self._blocks = 0
            if failed:
                raise _blamed(failed[0])
            for launch in opened:
                with _blamed_on(launch.wanted.arm):
                    launch.warm_up(self._spec.plan.workload)
            self._time(blocks, told)

    def measure_more(self, name: Stage, blocks: int) -> None:
        """Time further blocks on the pair that is up; without one, a fresh pair."""
        if not self._up:
            self.measure_pair(name, blocks)
            return
        with stage(self._job, name, 2 * blocks, f"time launch pair {self._pairs} further") as told:
            self._time(blocks, told)

    def evaluate(self) -> None:
        """Score both arms. Scoring changes a process, so the pair is ended and never timed again."""
        with stage(self._job, Stage.EVALUATE, 2, "evaluate the quality of both arms") as told:
            control = self._up.pop(Arm.CONTROL, None)
            workload = self._spec.plan.workload
            try:
                with _blamed_on(Arm.CONTROL):
                    reference = evaluate_reference(
                        self._job,
                        self._reference,
                        workload,
                        up=control if self._reference == self._control else None,
                    )
            finally:
                close([control] if control else [])
            record_reference(self._job, self._reference, reference)
            told.detail = {"reference": reference.artifact.digest, "reused": not reference.artifact.built}
            told.advance()
            with _blamed_on(Arm.CANDIDATE):
                evaluate_candidate(
                    self._job,
                    self._wanted(Arm.CANDIDATE, 0),
                    workload,
                    reference.distributions,
                    self._up.get(Arm.CANDIDATE),
                )
            told.advance()
        self._close()

    def _time(self, blocks: int, told: StageTold) -> None:
        index = self._pairs - 1
        first, self._blocks = self._blocks, self._blocks + blocks
        counts = dict.fromkeys(Arm, first)
        for place, arm in enumerate(abba(self._spec.seed, index, first, blocks)):
            block = counts[arm]
            counts[arm] += 1
            requests = self._job.context.material.requests(
                self._spec.plan.workload, self._spec.seed, index, block
            )
            with _blamed_on(arm):
                self._up[arm].time_block(block, 2 * first + place, requests)
            told.advance()

    def _wanted(self, arm: Arm, index: int) -> Wanted:
        configuration = self._control if arm is Arm.CONTROL else self._candidate
        return Wanted(arm, index, configuration, self._checkpoints[arm])

    def _close(self) -> None:
        up, self._up = list(self._up.values()), {}
        close(up)


@contextmanager
def _blamed_on(arm: Arm) -> Iterator[None]:
    """Report an `Infeasible` of the block as that of `arm`."""
    try:
        yield
    except ArmInfeasible as failed:
        raise _blamed(ArmInfeasible(arm, failed.place, failed.reason)) from failed
    except Infeasible as reason:
        raise _blamed(ArmInfeasible(arm, 0, reason)) from reason


def _blamed(failed: ArmInfeasible) -> Infeasible:
    if failed.arm is Arm.CANDIDATE or failed.reason.kind == CONTROL_FAILED:
        return failed.reason
    return Infeasible(CONTROL_FAILED, f"The control did not run: {failed.reason.cause}")
