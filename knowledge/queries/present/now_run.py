"""What a campaign runs now: the experiment, its stage and how far it is, what is expected of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from functools import cache

from sqlalchemy import Select, bindparam, select
from sqlalchemy.orm import Session, aliased

from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Configuration, Event, Experiment, Hypothesis, Job
from db.models.base import JsonObject
from db.states import Arm, ExperimentKind, ExperimentState, JobState
from knowledge.queries.at_work import Interrupted, interrupted_experiments
from knowledge.queries.view import ChangeView, EffectView, View, changes_between, prediction_view
from knowledge.stored import number

MOST_RUNS = 16
"""Experiments of a campaign that are shown as running: more than one only where it has several devices."""

TEST_STEPS = (
    ("Check", ("static", "prune", "quantize", "draft")),
    ("Quick look", ("quick",)),
    ("Full", ("full",)),
    ("Quality", ("evaluate",)),
    ("Validation", ("validation",)),
)
"""The steps of a test as they are shown, and the stages that each stands for."""

BASELINE_STEPS = (
    ("Check", ("static", "kernels")),
    ("Sweep", ("sweep",)),
    ("Noise", ("noise",)),
    ("Quality", ("evaluate",)),
    ("Profile", ("profile",)),
)
"""The same of a baseline."""


BESIDE = ("further",)
"""Stages that are part of no step: what they measure is not judged."""


class RunStep(View):
    """A step of what runs: done, being done now, or still to come."""

    name: str
    done: bool
    now: bool


class RunView(View):
    """An experiment that runs; `done` of `planned` pieces of its stage, `text` says which it is, `loading`
    what launches do that are coming up, and for how long.

    `arm` is the one that is worked on, None while it is both, or neither (a baseline has one alone).
    `expected_s` is the whole time that the ranking expected it to take, `elapsed_s` the time since it
    started. Its samples come in when it ends, so nothing is measured before. `interrupted`: nobody measures
    it any more.
    """

    experiment: str
    kind: ExperimentKind
    hypothesis: str | None
    claim: str | None
    change: tuple[ChangeView, ...]
    device: str | None
    steps: tuple[RunStep, ...]
    stage: str | None
    arm: Arm | None
    text: str | None
    loading: str | None
    done: int | None
    planned: int | None
    started_at: datetime | None
    elapsed_s: float | None
    expected_s: float | None
    predicted: EffectView | None
    min_effect: float | None
    interrupted: Interrupted | None = None

    @property
    def left_s(self) -> float | None:
        """Expected seconds until its end, None where they are not known or have gone by."""
        if (
            self.interrupted is not None
            or self.expected_s is None
            or self.elapsed_s is None
            or self.elapsed_s >= self.expected_s
        ):
            return None
        return self.expected_s - self.elapsed_s


def runs_of(session: Session, campaign_id: int, present: datetime) -> tuple[RunView, ...]:
    """What a campaign runs, the newest first, what was interrupted too; three statements."""
    found = session.execute(_running(), {"campaign_id": campaign_id}).all()
    interrupted = interrupted_experiments(session, [row[0].id for row in found]) if found else {}
    labels = [format_label(Noun.EXPERIMENT, row[0].id) for row in found]
    begun: dict[str, set[str]] = {label: set() for label in labels}
    told = select(Event.subject, Event.data).where(
        Event.subject.in_(labels), Event.kind == EventKind.STAGE_STARTED.value
    )
    for subject, data in session.execute(told):
        begun[str(subject)].add(str((data or {}).get("stage")))
    views = [_view(label, begun[label], present, *row) for label, row in zip(labels, found, strict=True)]
    return tuple(
        view.model_copy(update={"interrupted": interrupted.get(row[0].id)})
        for view, row in zip(views, found, strict=True)
    )


@cache
def _running() -> Select[Experiment, Hypothesis, JsonObject, JsonObject, str | None]:
    """What a campaign runs, built once."""
    control, candidate = aliased(Configuration), aliased(Configuration)
    return (
        select(Experiment, Hypothesis, control.knobs, candidate.knobs, Job.device)
        .join(control, control.id == Experiment.control_configuration_id)
        .outerjoin(candidate, candidate.id == Experiment.candidate_configuration_id)
        .outerjoin(Hypothesis, Hypothesis.id == Experiment.hypothesis_id)
        .outerjoin(Job, (Job.experiment_id == Experiment.id) & (Job.state == JobState.RUNNING))
        .where(
            Experiment.campaign_id == bindparam("campaign_id"),
            Experiment.state == ExperimentState.RUNNING,
        )
        .order_by(Experiment.id.desc())
        .limit(MOST_RUNS)
    )


def _view(
    label: str,
    begun: Collection[str],
    present: datetime,
    experiment: Experiment,
    hypothesis: Hypothesis | None,
    control: dict[str, object],
    candidate: dict[str, object] | None,
    device: str | None,
) -> RunView:
    progress = experiment.progress or {}
    done, planned = number(progress.get("done")), number(progress.get("planned"))
    text, loading = progress.get("text"), progress.get("loading")
    started = experiment.started_at
    return RunView(
        experiment=label,
        kind=experiment.kind,
        hypothesis=None if hypothesis is None else format_label(Noun.HYPOTHESIS, hypothesis.id),
        claim=None if hypothesis is None else hypothesis.claim,
        change=changes_between(control, candidate),
        device=device,
        steps=steps_of(experiment.kind, begun, experiment.stage),
        stage=experiment.stage,
        arm=arm_of(experiment.progress),
        text=text if isinstance(text, str) else None,
        loading=loading if isinstance(loading, str) else None,
        done=None if done is None else int(done),
        planned=None if not planned else int(planned),
        started_at=started,
        elapsed_s=None if started is None else max(0.0, (present - started).total_seconds()),
        expected_s=None if hypothesis is None else number((hypothesis.score or {}).get("cost_s")),
        predicted=None if hypothesis is None else prediction_view(hypothesis.prediction, hypothesis.metric),
        min_effect=None if hypothesis is None else hypothesis.min_effect,
    )


def arm_of(progress: Mapping[str, object] | None) -> Arm | None:
    """The arm that a running experiment told last that it works on; pure."""
    told = (progress or {}).get("arm")
    return next((each for each in Arm if each.value == told), None)


def steps_of(kind: ExperimentKind, begun: Collection[str], stage: str | None) -> tuple[RunStep, ...]:
    """The steps of an experiment by the stages that have begun and the one that it is in; pure.

    The check comes first and is told only when it ends, so it is done once anything else has begun. A stage
    without a step of its own, such as training a drafter, is part of the check; while further workloads are
    measured no step is being done.
    """
    plan = BASELINE_STEPS if kind is ExperimentKind.BASELINE else TEST_STEPS
    own = {name for _, names in plan[1:] for name in names}
    steps = []
    for place, (name, stages) in enumerate(plan):
        is_now = stage in stages or (place == 0 and stage not in own and stage not in BESIDE)
        seen = any(each in begun for each in stages) or (place == 0 and bool(own & set(begun)))
        steps.append(RunStep(name=name, done=seen and not is_now, now=is_now))
    return tuple(steps)
