"""A judge that follows a list of steps, for tests of the runner; it decides nothing from the data."""

from collections.abc import Sequence

from experiments.measurement.evidence import Evidence, Stage
from experiments.measurement.judging import (
    Evaluate,
    JudgeVerdict,
    MeasurePair,
    Outcome,
    Step,
    Stop,
)
from experiments.measurement.plan import StoppingPlan


class StepsJudge:
    """Asks for the steps one after the other, whatever was measured, and then stops."""

    name = "steps"
    version = "1"

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = [*steps, Stop("The list of steps is done.")]
        self.seen: list[Evidence] = []

    def next_step(self, plan: StoppingPlan, evidence: Evidence) -> Step:
        self.seen.append(evidence)
        return self._steps[len(self.seen) - 1]

    def verdict(self, plan: StoppingPlan, evidence: Evidence) -> JudgeVerdict:
        return JudgeVerdict(Outcome.INCONCLUSIVE, "A list decides nothing.", None, None, None, 0, 0, {}, {})


class OnePairJudge(StepsJudge):
    """One pair and an evaluation."""

    name = "one-pair"

    def __init__(self) -> None:
        super().__init__([MeasurePair(Stage.QUICK, 2), Evaluate()])
