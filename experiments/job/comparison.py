"""The test job: one hypothesis, control against candidate, step by step as the judge asks.

A pair of launches is loaded side by side, the control first in every second pair, and timed in blocks A B B A
B A A B …; while one is timed the other waits for its next request. Where memory has room for one launch at a
time (`spec.in_turn`), a pair's launches are neighbours: one is loaded, timed and ended, then the other; who
is first alternates from pair to pair, so that over pairs it is A B B A too. Before a launch is ended, or
scored, further workloads may be measured in it (`further`), of which the judge sees nothing. Launch pairs are
numbered over all stages. The control's failure is not the candidate's: it is reported under the kind
`control`. So is a control whose own drafting does not do its work, for what is claimed against it would be a
claim against a fault.

A pair that runs out of memory while others wait beside it, loaded ahead (`pairs_ahead`), is no fault of its
own: all are ended, what was asked of it last is left out, and is measured once more in a fresh pair that is
alone on the device. What fails there has failed.

Where the spec has a limit of its own (`within_s`), it runs from when both checkpoints are there. At it every
process is ended, what was being timed is left out, and the rest is the result. Left out is all of a fresh
pair, and of one that is timed further the blocks that were asked for last. So it is where a launch that was
asked for a further workload can't be cleared away, beside which nothing may be loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from configs.errors import AutoinferError
from experiments.engines.port import GenerationRequest, Infeasible
from experiments.job.checkpoints import prepare_checkpoint
from experiments.job.drafting import arms_to_check, check_control
from experiments.job.evaluation import (
    ReferenceEvaluation,
    evaluate_candidate,
    evaluate_reference,
    record_reference,
    weigh,
)
from experiments.job.failed_arm import CONTROL_FAILED, blamed, blamed_by_arm, blamed_on
from experiments.job.further import FurtherWorkloads
from experiments.job.launching import ArmInfeasible, OpenLaunch, RunningJob, Wanted, close
from experiments.job.limits import ENDS_MEASURING, time_is_up
from experiments.job.pairs_ahead import PairsAhead
from experiments.job.profiling import profile_candidate, profiles_candidates
from experiments.job.schedule import abba, seats
from experiments.job.scored_arms import load_together
from experiments.job.spec import TestJob
from experiments.job.staging import StageTold, stage
from experiments.job.static_check import check_static
from experiments.measurement.evidence import QUALITY_METRICS, Arm, Evidence, Json, Metric, NoiseProfile, Stage
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
                    comparison.measure_pair(step.stage, step.blocks)
                case MeasureMore():
                    comparison.measure_more(step.stage, step.blocks)
                case Screen():
                    comparison.screen(judge)
                case Evaluate():
                    comparison.evaluate(step.part)
                case Stop():
                    if step.failed is Arm.CONTROL:
                        raise Infeasible(CONTROL_FAILED, step.reason)
                    comparison.stop(step.reason)
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
        self._reference = self._control
        if spec.reference is not None and spec.plan.metric not in QUALITY_METRICS:
            self._reference = Configuration.of(spec.reference)
        self._drafting_due = arms_to_check(self._control, self._candidate)
        self._noise = NoiseProfile(
            spec.noise.target_key,
            spec.plan.metric,
            spec.noise.launches,
            spec.noise.degrees_of_freedom,
            spec.noise.launch_sd_log,
        )
        self._pairs = 0
        self._up: dict[Arm, OpenLaunch] = {}
        self._ahead = PairsAhead(job, spec.seed, spec.plan.validation_pairs, self._wanted)
        self._further = FurtherWorkloads(job, spec, self)
        self._blocks = 0
        self._profiled = False
        self._timed: tuple[int, int] | None = None
        """The pair that is being timed and the first block that was asked of it; None while none is."""
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
        with blamed_on(Arm.CONTROL):
            control, _ = prepare_checkpoint(self._job, self._control)
        candidate, _ = prepare_checkpoint(self._job, self._candidate)
        self._checkpoints = {Arm.CONTROL: control, Arm.CANDIDATE: candidate}
        try:
            with self._job.limits.until(self._spec.within_s, self._time_is_up):
                yield
                self._retire()
        finally:
            self._close()
            self._ahead.close()

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
        if self._timed is not None:
            self._job.records.left_out(*self._timed)
        if not self.is_complete:  # else only what comes after the last step was cut off, such as a profile
            self.stop(why)

    @property
    def is_complete(self) -> bool:
        """Whether all that is judged was measured: the judge asked for nothing more."""
        return self._stopped

    def _time_is_up(self) -> None:
        assert self._spec.within_s is not None
        self.cut_off(time_is_up(self._spec.within_s))

    def evidence(self) -> Evidence:
        """What the judge may look at by now."""
        return Evidence(
            launches=self._job.records.fold.launches(),
            noise=self._noise,
            changes=self._control.changes_to(self._candidate),
            pinned_keys=self._spec.pinned_keys,
        )

    def measure_pair(self, name: Stage, blocks: int) -> None:
        """Time a fresh launch an arm."""
        self._retire()
        index = self._begin_pair()
        if self._spec.in_turn:
            self._measure_in_turn(name, index, blocks)
        else:
            self._measure_side_by_side(name, index, blocks)
        self._timed = None

    def _begin_pair(self) -> int:
        """The index of a pair that is measured from now on."""
        index, self._pairs = self._pairs, self._pairs + 1
        self._timed = index, 0
        return index

    def _measure_side_by_side(self, name: Stage, index: int, blocks: int) -> None:
        with stage(self._job, name, 2 * blocks, f"time launch pair {index + 1}") as told, blamed_by_arm():
            try:
                self._time_pair(told, index, blocks)
            except ArmInfeasible as failed:
                self._make_room(told, failed)
                self._time_pair(told, index, blocks)

    def _time_pair(self, told: StageTold, index: int, blocks: int) -> None:
        """Time a fresh pair, loaded now or ahead. Raises `ArmInfeasible`."""
        opened, failed = self._ahead.open(told, index)
        self._up = {launch.wanted.arm: launch for launch in opened}
        self._blocks = 0
        if failed:
            raise min(failed, key=lambda each: each.arm is Arm.CANDIDATE)
        for launch in opened:
            launch.warm_up(self._spec.plan.workload)
        self._time(blocks, told)

    def _make_room(self, told: StageTold, failed: ArmInfeasible) -> None:
        """After a launch failed for want of memory that waiting pairs hold: end all launches, and leave out
        what came of the blocks that were asked for last. Raises any other failure."""
        if not self._ahead.gives_way(failed):
            raise failed
        self._job.limits.check()  # what was ended as the time was up is not measured anew
        assert self._timed is not None
        self._job.records.left_out(*self._timed)
        self._close()
        self._ahead.give_way(told, self._timed[0], failed)
        told.restart()

    def _measure_in_turn(self, name: Stage, index: int, blocks: int) -> None:
        """Time a pair's launches one after the other; the second stays up until its room is needed.

        With further workloads each launch is a stage of its own: the first is asked for those between the
        two, and that is no time of what is judged.
        """
        text = f"time launch pair {index + 1}, one launch after the other"
        order = tuple(enumerate(seats(self._spec.seed, index)))
        for part in [(each,) for each in order] if self._spec.further_here else [order]:
            self._retire()
            self._measure_launches(name, index, blocks, part, text)

    def _measure_launches(
        self, name: Stage, index: int, blocks: int, launches: Sequence[tuple[int, Arm]], text: str
    ) -> None:
        """Time launches of a pair, by their places in it, each ended before the next one."""
        with stage(self._job, name, len(launches) * blocks, text) as told:
            for place, arm in launches:
                told.on(arm)
                self._retire()
                opened, failed = self._job.open(name, [self._wanted(arm, index)])
                if failed:
                    raise blamed(failed[0])
                self._up = {arm: opened[0]}
                self._job.spare.append(opened[0])
                with blamed_on(arm):
                    opened[0].warm_up(self._spec.plan.workload)
                    for block in range(blocks):
                        requests = self._requests(index, block)
                        opened[0].time_block(block, place * blocks + block, requests)
                        told.advance()

    def measure_more(self, name: Stage, blocks: int) -> None:
        """Time further blocks on the pair that is up; a fresh pair where none is, or where that one runs out
        of memory beside others: what was measured of it before stands."""
        if len(self._up) < len(Arm):
            self.measure_pair(name, blocks)
            return
        self._timed = self._pairs - 1, self._blocks
        text = f"time launch pair {self._pairs} further"
        with stage(self._job, name, 2 * blocks, text) as told, blamed_by_arm():
            try:
                self._time(blocks, told)
            except ArmInfeasible as failed:
                self._make_room(told, failed)
                told.text = f"time launch pair {self._pairs + 1} in its place"
                self._time_pair(told, self._begin_pair(), blocks)
        self._timed = None

    def screen(self, judge: Judge) -> None:
        """Score the candidate's weights in a launch that is ready soonest, before any pair is up; what bits
        refute is asked no items."""
        plain = self._job.engine.plain(self._candidate)
        name = Stage.EVALUATE if plain == self._candidate else Stage.SCREEN
        if name is Stage.SCREEN:
            self._job.records.configuration(plain)
        with stage(self._job, name, 2, "look at the quality of the changed weights first") as told:
            told.on(Arm.CONTROL)
            reference = self._reference_evaluation(name, lambda: None)
            self._check_control(name, None)
            told.detail = {**told.detail, **_told_of(reference)}
            told.advance(Arm.CANDIDATE)
            with blamed_on(Arm.CANDIDATE):
                evaluate_candidate(
                    self._job,
                    Wanted(Arm.CANDIDATE, 0, plain, self._checkpoints[Arm.CANDIDATE]),
                    self._spec.plan.workload,
                    reference.distributions,
                    stage=name,
                    drafting=Arm.CANDIDATE in self._drafting_due and name is Stage.EVALUATE,
                    refuted=lambda: self._refuted(judge),
                )
            told.advance()

    def evaluate(self, part: int) -> None:
        """Score both arms. Scoring changes a process, so the pair is ended and never timed again.

        A part after the first is scored by fresh processes. Where neither arm is up, both are loaded at once.
        """
        self._measure_further()
        self._ahead.close()  # a launch that scores needs their room
        if part:
            self._retire()
        name = Stage.VALIDATION if part else Stage.EVALUATE
        text = "further documents and items" if part else "documents and items"
        loaded: dict[Arm, OpenLaunch] = {}
        with (
            ended(loaded),
            stage(self._job, name, 2, f"evaluate the quality of both arms on {text}") as told,
        ):
            told.on(Arm.CONTROL)
            workload = self._spec.plan.workload
            if (timed := self._take(Arm.CONTROL)) is not None:
                loaded[Arm.CONTROL] = timed

            def up() -> OpenLaunch | None:
                if not loaded and not self._up:
                    load_together(told, loaded, [self._wanted(arm, part) for arm in Arm])
                return loaded.get(Arm.CONTROL)

            try:
                reference = self._reference_evaluation(name, up, part)
                control = loaded.get(Arm.CONTROL)
                self._check_control(name, None if control is None or control.closed else control)
            finally:
                close([loaded[Arm.CONTROL]] if Arm.CONTROL in loaded else [])
            if self._spec.plan.metric is Metric.STEP_WEIGHT_BYTES and self._reference != self._control:
                with blamed_on(Arm.CONTROL):
                    weigh(self._job, name, self._wanted(Arm.CONTROL, part))
            told.detail = {**told.detail, **_told_of(reference)}
            told.advance(Arm.CANDIDATE)
            with blamed_on(Arm.CANDIDATE):
                evaluate_candidate(
                    self._job,
                    self._wanted(Arm.CANDIDATE, part),
                    workload,
                    reference.distributions,
                    self._still_up(Arm.CANDIDATE) or loaded.get(Arm.CANDIDATE),
                    stage=name,
                    part=part,
                    drafting=Arm.CANDIDATE in self._drafting_due and part == 0,
                )
            told.advance()
        self._retire()

    def _refuted(self, judge: Judge) -> bool:
        return judge.verdict(self._spec.plan, self.evidence()).outcome is Outcome.REFUTED

    def _reference_evaluation(
        self, name: Stage, up: Callable[[], OpenLaunch | None], part: int = 0
    ) -> ReferenceEvaluation:
        """The reference's evaluation, recorded under `name`; `up` is asked for a launch of the control."""
        workload = self._spec.plan.workload
        is_control = self._reference == self._control
        with blamed_on(Arm.CONTROL):
            reference = evaluate_reference(
                self._job, self._reference, workload, up if is_control else lambda: None, part
            )
        record_reference(self._job, self._reference, reference, name, part=part, is_control=is_control)
        return reference

    def _check_control(self, name: Stage, up: OpenLaunch | None) -> None:
        """Check the control's drafting where that is due, once; `up` is a launch of the control to use."""
        if Arm.CONTROL in self._drafting_due and name is Stage.EVALUATE:
            with blamed_on(Arm.CONTROL):
                check_control(self._job, self._wanted(Arm.CONTROL, 0), self._spec.plan.workload, up)

    def _time(self, blocks: int, told: StageTold) -> None:
        """Time blocks on the pair that is up. Raises `ArmInfeasible`."""
        index = self._pairs - 1
        first, self._blocks = self._blocks, self._blocks + blocks
        counts = dict.fromkeys(Arm, first)
        order = abba(self._spec.seed, index, first, blocks)
        told.on(order[0])
        for place, (arm, following) in enumerate(zip(order, (*order[1:], None), strict=True)):
            block = counts[arm]
            counts[arm] += 1
            self._up[arm].time_block(block, 2 * first + place, self._requests(index, block))
            told.advance(following)

    def _requests(self, index: int, block: int) -> Sequence[GenerationRequest]:
        return self._job.context.material.requests(self._spec.plan.workload, self._spec.seed, index, block)

    def _still_up(self, arm: Arm) -> OpenLaunch | None:
        """The launch of an arm that was timed last, unless its room was needed."""
        launch = self._up.get(arm)
        return None if launch is None or launch.closed else launch

    def _take(self, arm: Arm) -> OpenLaunch | None:
        """The same, no longer counted as up: whoever takes it ends it."""
        launch = self._still_up(arm)
        self._up.pop(arm, None)
        return launch

    def _wanted(self, arm: Arm, index: int) -> Wanted:
        configuration = self._control if arm is Arm.CONTROL else self._candidate
        return Wanted(arm, index, configuration, self._checkpoints[arm])

    def _retire(self) -> None:
        """End what is up. Before that further workloads are measured in it, and the first time the candidate
        is profiled in its launch."""
        self._measure_further()
        candidate = self._still_up(Arm.CANDIDATE)
        if candidate is not None and not self._profiled and profiles_candidates(self._job):
            self._profiled = True
            profile_candidate(self._job, self._candidate, self._spec.plan.workload, candidate)
        self._close()

    def _measure_further(self) -> None:
        """Measure further workloads in what is up, once; where they took too long every process was ended."""
        if not self._further.measure(list(self._up.values())):
            self._close()
            self._ahead.close()

    def _close(self) -> None:
        up, self._up = list(self._up.values()), {}
        self._job.spare.clear()
        close(up)


def _told_of(reference: ReferenceEvaluation) -> dict[str, Json]:
    """What a stage tells of the evaluation that candidates are compared with."""
    return {"reference": reference.artifact.digest, "reused": not reference.artifact.built}


@contextmanager
def ended(loaded: Mapping[Arm, OpenLaunch]) -> Iterator[None]:
    """End whatever has been loaded by the end."""
    try:
        yield
    finally:
        close([*loaded.values()])
