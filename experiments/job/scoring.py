"""The scores of a test's arms: the weights before anything is timed, and both arms once they were.

Scoring changes a process, so what was scored is never timed again. The control, or the campaign's reference
in its place, is scored first, for the candidate is compared with what it gave.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from experiments.job.drafting import arms_to_check, check_control
from experiments.job.evaluation import (
    ReferenceEvaluation,
    evaluate_candidate,
    evaluate_reference,
    record_reference,
    weigh,
)
from experiments.job.failed_arm import blamed_on
from experiments.job.open_launch import OpenLaunch, Wanted, close
from experiments.job.running_job import RunningJob
from experiments.job.scored_arms import load_together
from experiments.job.second_try import SCORED_ANEW, Given, SecondTries
from experiments.job.spec import TestJob
from experiments.job.staging import StageTold, stage
from experiments.job.timed_pairs import TimedPairs
from experiments.measurement.evidence import QUALITY_METRICS, Arm, Json, Metric, Stage
from experiments.space.configuration import Configuration


class Scoring:
    """That of one test; `wanted` makes what to open of an arm and the part that is scored."""

    def __init__(
        self,
        job: RunningJob,
        spec: TestJob,
        wanted: Callable[[Arm, int], Wanted],
        pairs: TimedPairs,
        second_tries: SecondTries,
    ) -> None:
        self._job, self._spec, self._wanted, self._pairs = job, spec, wanted, pairs
        self._second_tries = second_tries
        self._loaded: dict[Arm, OpenLaunch] = {}
        """What is up to be scored, but for the candidate of the pair that was timed last."""
        self._control = self._reference = Configuration.of(spec.control)
        self._candidate = Configuration.of(spec.candidate)
        if spec.reference is not None and spec.plan.metric not in QUALITY_METRICS:
            self._reference = Configuration.of(spec.reference)
        self._drafting_due = arms_to_check(self._control, self._candidate)

    def screen(self, refuted: Callable[[], bool]) -> None:
        """Score the candidate's weights in a launch that is ready soonest, before any pair is up; what bits
        refute is asked no items."""
        plain = self._job.engine.plain(self._candidate)
        name = Stage.EVALUATE if plain == self._candidate else Stage.SCREEN
        if name is Stage.SCREEN:
            self._job.records.configuration(plain)
        with stage(self._job, name, 2, "look at the quality of the changed weights first") as told:
            reference = self._reference_evaluation(told, lambda: None)
            self._check_control(told)
            told.detail = {**told.detail, **_told_of(reference)}
            told.advance(Arm.CANDIDATE)
            with blamed_on(Arm.CANDIDATE):
                evaluate_candidate(
                    self._job,
                    replace(self._wanted(Arm.CANDIDATE, 0), configuration=plain),
                    self._spec.plan.workload,
                    reference.distributions,
                    stage=name,
                    drafting=Arm.CANDIDATE in self._drafting_due and name is Stage.EVALUATE,
                    refuted=refuted,
                )
            told.advance()

    def evaluate(self, part: int) -> None:
        """Score both arms. Scoring changes a process, so the pair is ended and never timed again.

        A part after the first is scored by fresh processes. Where neither arm is up, both are loaded at once.
        """
        self._pairs.measure_further()
        self._pairs.make_room()
        if part:
            self._pairs.retire()
        name = Stage.VALIDATION if part else Stage.EVALUATE
        text = "further documents and items" if part else "documents and items"
        try:
            with stage(self._job, name, 2, f"evaluate the quality of both arms on {text}") as told:
                self._evaluate(told, part)
        finally:
            self.end()
        self._pairs.retire()

    def _evaluate(self, told: StageTold, part: int) -> None:
        """Score both arms, the control first."""
        if (timed := self._pairs.take(Arm.CONTROL)) is not None:
            self._loaded[Arm.CONTROL] = timed

        def up() -> OpenLaunch | None:
            if not self._loaded and not self._pairs.up and not self._second_tries.made:
                load_together(told, self._loaded, [self._wanted(arm, part) for arm in Arm])
            return self._loaded.get(Arm.CONTROL)

        try:
            reference = self._reference_evaluation(told, up, part)
            self._check_control(told)
        finally:
            close(self._control_up())
        if self._spec.plan.metric is Metric.STEP_WEIGHT_BYTES and self._reference != self._control:
            with blamed_on(Arm.CONTROL):
                weigh(self._job, told.stage, self._wanted(Arm.CONTROL, part))
        told.detail = {**told.detail, **_told_of(reference)}
        told.advance(Arm.CANDIDATE)
        with blamed_on(Arm.CANDIDATE):
            evaluate_candidate(
                self._job,
                self._wanted(Arm.CANDIDATE, part),
                self._spec.plan.workload,
                reference.distributions,
                self._pairs.still_up(Arm.CANDIDATE) or self._loaded.get(Arm.CANDIDATE),
                stage=told.stage,
                part=part,
                drafting=Arm.CANDIDATE in self._drafting_due and part == 0,
            )
        told.advance()

    def end(self) -> None:
        """End what is up to be scored."""
        loaded, self._loaded = self._loaded, {}
        close([*loaded.values()])

    def _control_up(self) -> list[OpenLaunch]:
        """The launch of the control that is up to be scored, where one is."""
        launch = self._loaded.get(Arm.CONTROL)
        return [] if launch is None or launch.closed else [launch]

    def _of_control(
        self,
        told: StageTold,
        part: int,
        ask: Callable[[], Given],
        needs: Callable[[], Collection[OpenLaunch]],
    ) -> Given:
        """What `ask` gives that asks the control, or the reference in its place, with a second try; it
        `needs` these launches, or one that it opens itself."""

        def asked() -> Given:
            told.on(Arm.CONTROL)
            return ask()

        with blamed_on(Arm.CONTROL):
            return self._second_tries.of(told, part, needs, asked, asked, SCORED_ANEW)

    def _reference_evaluation(
        self, told: StageTold, up: Callable[[], OpenLaunch | None], part: int = 0
    ) -> ReferenceEvaluation:
        """The reference's evaluation, recorded under the stage; `up` is asked for a launch of the control."""
        is_control = self._reference == self._control
        launch, needs = (up, self._control_up) if is_control else (lambda: None, tuple)
        reference = self._of_control(
            told,
            part,
            lambda: evaluate_reference(self._job, self._reference, self._spec.plan.workload, launch, part),
            needs,
        )
        record_reference(self._job, self._reference, reference, told.stage, part=part, is_control=is_control)
        return reference

    def _check_control(self, told: StageTold) -> None:
        """Check the control's drafting where that is due, once, in the launch of it that is up, if one is."""
        if Arm.CONTROL not in self._drafting_due or told.stage is not Stage.EVALUATE:
            return
        workload, wanted = self._spec.plan.workload, self._wanted(Arm.CONTROL, 0)

        def check() -> None:
            check_control(self._job, wanted, workload, next(iter(self._control_up()), None))

        self._of_control(told, 0, check, self._control_up)


def _told_of(reference: ReferenceEvaluation) -> dict[str, Json]:
    """What a stage tells of the evaluation that candidates are compared with."""
    return {"reference": reference.artifact.digest, "reused": not reference.artifact.built}
