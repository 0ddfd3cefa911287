"""How much of a campaign's tests each lever has had: what caps and minimum shares count."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from configs.quantities import format_duration
from db.models import Directive, Experiment, Hypothesis, Verdict
from db.states import ExperimentKind, ExperimentState
from knowledge.acts.directives import stored_allowance
from knowledge.stored import LEVER_JOINT


@dataclass(frozen=True)
class LeverUse:
    """All tests, and by lever how many and how many seconds; one of several levers counts for each."""

    tests: int
    of_lever: Mapping[str, int]
    seconds_of: Mapping[str, float]

    def words(self, directive: Directive) -> str:
        """How far a cap or a reserve is, such as `2 of 24 tests so far`."""
        lever = directive.lever or ""
        if stored_allowance(directive).time_s is not None:
            return f"{format_duration(self.seconds_of.get(lever, 0.0))} so far"
        return f"{self.of_lever.get(lever, 0)} of {self.tests} tests so far"


def lever_use(session: Session, campaign_id: int) -> LeverUse:
    """Count the tests of a campaign that have a verdict or are under way; one statement."""
    under_way = Experiment.state.in_((ExperimentState.PLANNED, ExperimentState.RUNNING))
    query = (
        select(Hypothesis.lever, func.count(), func.sum(Experiment.wall_s))
        .join(Experiment, Experiment.hypothesis_id == Hypothesis.id)
        .outerjoin(Verdict, Verdict.experiment_id == Experiment.id)
        .where(
            Hypothesis.campaign_id == campaign_id,
            Experiment.kind == ExperimentKind.TEST,
            or_(Verdict.id.is_not(None), under_way),
        )
        .group_by(Hypothesis.lever)
    )
    counts, seconds, tests = Counter[str](), defaultdict[str, float](float), 0
    for levers, count, wall_s in session.execute(query):
        tests += count
        for lever in levers.split(LEVER_JOINT):
            counts[lever] += count
            seconds[lever] += wall_s or 0.0
    return LeverUse(tests, counts, seconds)
