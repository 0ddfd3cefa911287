"""The scores of a test's arms: the weights before anything is timed, and both arms once they were.

Scoring changes a process, so what was scored is never timed again. The control, or the campaign's reference
in its place, is scored first, for the candidate is compared with what it gave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
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
from experiments.job.launching import OpenLaunch, RunningJob, Wanted, close
from experiments.job.scored_arms import load_together
from experiments.job.spec import TestJob
from experiments.job.staging import stage
from experiments.job.timed_pairs import TimedPairs
from experiments.measurement.evidence import QUALITY_METRICS, Arm, Json, Metric, Stage
from experiments.space.configuration import Configuration


class Scoring:
    """That of one test; `wanted` makes what to open of an arm and the part that is scored."""

    def __init__(
        self, job: RunningJob, spec: TestJob, wanted: Callable[[Arm, int], Wanted], pairs: TimedPairs
    ) -> None:
        self._job, self._spec, self._wanted, self._pairs = job, spec, wanted, pairs
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
            told.on(Arm.CONTROL)
            reference = self._reference_evaluation(name, lambda: None)
            self._check_control(name, None)
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
        loaded: dict[Arm, OpenLaunch] = {}
        with (
            ended(loaded),
            stage(self._job, name, 2, f"evaluate the quality of both arms on {text}") as told,
        ):
            told.on(Arm.CONTROL)
            workload = self._spec.plan.workload
            if (timed := self._pairs.take(Arm.CONTROL)) is not None:
                loaded[Arm.CONTROL] = timed

            def up() -> OpenLaunch | None:
                if not loaded and not self._pairs.up:
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
                    self._pairs.still_up(Arm.CANDIDATE) or loaded.get(Arm.CANDIDATE),
                    stage=name,
                    part=part,
                    drafting=Arm.CANDIDATE in self._drafting_due and part == 0,
                )
            told.advance()
        self._pairs.retire()

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
