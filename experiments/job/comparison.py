"""The test job: one hypothesis, control against candidate, step by step as the judge asks.

Launch pairs are timed (`timed_pairs`) and both arms scored (`scoring`). The control's failure is not the
candidate's: it is reported under the kind `control`. So is a control whose own drafting does not do its work,
for what is claimed against it would be a claim against a fault.

Where the spec has a limit of its own (`within_s`), it runs from when both checkpoints are there. At it, and
where the job is asked to end its measuring, every
process is ended, what was being timed is left out, and the rest is the result. Left out is all of a fresh
pair, and of one that is timed further the blocks that were asked for last. So it is where a launch that was
asked for a further workload can't be cleared away, beside which nothing may be loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from configs.errors import AutoinferError
from experiments.engines.port import Infeasible
from experiments.job.checkpoints import prepare_checkpoint
from experiments.job.failed_arm import CONTROL_FAILED, blamed_on
from experiments.job.limits import ENDS_MEASURING
from experiments.job.open_launch import Wanted
from experiments.job.result import measured_s
from experiments.job.running_job import RunningJob
from experiments.job.scoring import Scoring
from experiments.job.second_try import SecondTries
from experiments.job.spec import TestJob
from experiments.job.staging import stage
from experiments.job.static_check import check_static
from experiments.job.timed_pairs import TimedPairs
from experiments.measurement.evidence import Arm, Evidence, NoiseProfile, Stage
from experiments.measurement.judging import Evaluate, Judge, MeasureMore, MeasurePair, Outcome, Screen, Stop
from experiments.space.configuration import Configuration

MAX_STEPS = 100
"""Steps after which a judge that never stops counts as broken; the default plan, 16 + 2 pairs, takes fewer
than 30."""


def run_test(job: RunningJob, spec: TestJob, judge: Judge) -> None:
    """Run the job; raises `Infeasible` when an arm can't run, of kind `control` when it is the control, and
    `AutoinferError` for a plan without quality on a checkpoint that has weights, or the reverse."""
    if spec.plan.latency_only != job.context.latency_only:
        raise AutoinferError(
            "The plan is for made-up weights and the checkpoint has real ones, or the reverse.",
            "Begin a new campaign: autoinfer run --new",
        )
    comparison = _Comparison(job, spec)
    try:
        _run(comparison, job, spec, judge)
    except Infeasible as reason:
        if reason.kind not in ENDS_MEASURING:
            raise
        comparison.cut_off(reason.cause)


def _run(comparison: _Comparison, job: RunningJob, spec: TestJob, judge: Judge) -> None:
    with comparison.running():
        for _ in range(MAX_STEPS):
            job.limits.check()
            step = judge.next_step(spec.plan, comparison.evidence())
            match step:
                case MeasurePair():
                    comparison.pairs.measure_pair(step.stage, step.blocks)
                case MeasureMore():
                    comparison.pairs.measure_more(step.stage, step.blocks)
                case Screen():
                    comparison.scoring.screen(lambda: comparison.refuted(judge))
                case Evaluate():
                    comparison.scoring.evaluate(step.part)
                case Stop():
                    if step.failed is Arm.CONTROL:
                        raise Infeasible(CONTROL_FAILED, step.reason)
                    comparison.stop(step.reason)
                    return
    raise AutoinferError(
        f"The judge {judge.name} did not stop after {MAX_STEPS} steps.", "This is a fault of the judge."
    )


class _Comparison:
    """The arms of one test: their checkpoints, what is done with them, and what was measured so far."""

    def __init__(self, job: RunningJob, spec: TestJob) -> None:
        self._job = job
        self._spec = spec
        self._control = Configuration.of(spec.control)
        self._candidate = Configuration.of(spec.candidate)
        self._noise = NoiseProfile(
            spec.noise.target_key,
            spec.plan.metric,
            spec.noise.launches,
            spec.noise.degrees_of_freedom,
            spec.noise.launch_sd_log,
        )
        second_tries = SecondTries(job, self._end_all)
        self.pairs = TimedPairs(job, spec, self._wanted, self, second_tries)
        self.scoring = Scoring(job, spec, self._wanted, self.pairs, second_tries)
        self._stopped = self._cut = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """Check and prepare both arms, and end what is up afterwards.

        Raises `Infeasible` of a kind of `ENDS_MEASURING` where the spec's own limit ended it, or what was
        left behind; see `cut_off`.
        """
        with stage(self._job, Stage.STATIC, 2, "check both configurations") as told:
            for arm, configuration in ((Arm.CONTROL, self._control), (Arm.CANDIDATE, self._candidate)):
                with blamed_on(arm):
                    check_static(self._job, told, configuration, self._spec.plan.workload)
                told.advance()
        self._job.begin_ahead(1 if self._spec.in_turn else len(Arm))
        with blamed_on(Arm.CONTROL):
            control, _ = prepare_checkpoint(self._job, self._control)
        candidate, _ = prepare_checkpoint(self._job, self._candidate)
        self._checkpoints = {Arm.CONTROL: control, Arm.CANDIDATE: candidate}
        try:
            with self._job.limits.until(self._spec.within_s, self.cut_off):
                yield
                self.pairs.retire()
        finally:
            self.pairs.end()

    def stop(self, reason: str) -> None:
        """Record why nothing more is measured."""
        self._stopped = True
        self._job.records.stopped(reason)

    def cut_off(self, why: str) -> None:
        """Record why nothing more could be measured, once, and leave out what was being timed then: what came
        of it is not balanced between the arms."""
        if self._cut:
            return
        self._cut = True
        self.pairs.leave_out()
        if not self.is_complete:  # else only what comes after the last step was cut off, such as a profile
            self.stop(why)

    @property
    def is_complete(self) -> bool:
        """Whether all that is judged was measured: the judge asked for nothing more."""
        return self._stopped

    def evidence(self) -> Evidence:
        """What the judge may look at by now."""
        return Evidence(
            launches=self._job.records.fold.launches(),
            noise=self._noise,
            changes=self._control.changes_to(self._candidate),
            pinned_keys=self._spec.pinned_keys,
            in_turn=self._spec.in_turn,
            measured_s=measured_s(self._job.records.fold.stages),
        )

    def refuted(self, judge: Judge) -> bool:
        """Whether what was measured by now refutes the claim."""
        return judge.verdict(self._spec.plan, self.evidence()).outcome is Outcome.REFUTED

    def _end_all(self) -> None:
        self.pairs.give_way()
        self.scoring.end()

    def _wanted(self, arm: Arm, index: int) -> Wanted:
        configuration = self._control if arm is Arm.CONTROL else self._candidate
        return Wanted(arm, index, configuration, self._checkpoints[arm])
