"""Whether an experiment in the database is still the one that was preregistered: every stored copy against
the seal.

What was sealed stands in more than one place: in the job that was run, in the experiment's plan and arms, in
the hypothesis, and as a hash in all three and in the event log. All of them must still say the same. That
finds what was changed by accident or by hand; who rewrites every copy and makes the hash anew is not found.
A verdict carries the hash too, once there is one.

A field that a version added after a job was stored is in no copy of it, and was not sealed: what is held
against the plan is what the job has written down, and never what this version would fill in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlalchemy import select
from sqlalchemy.orm import Session

from configs.errors import AutoinferError
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Configuration, Event, Experiment, Hypothesis, Job, Verdict
from db.states import ExperimentKind
from experiments.job.seal import broken_seal
from experiments.job.spec import TestJob
from experiments.measurement.evidence import Json
from experiments.recording import load_test_spec
from experiments.space.configuration import Configuration as Point

_DIGITS = 12
"""Digits of a hash that a sentence shows."""


def tampered(session: Session, experiment: Experiment) -> str | None:
    """What of a test was changed after it was preregistered, in one sentence; None when nothing was."""
    try:
        spec = load_test_spec(session, experiment.id)
    except AutoinferError as error:
        return error.message
    found = next(_changed(session, experiment, spec), None)
    if found is None:
        return None
    label = format_label(Noun.EXPERIMENT, experiment.id)
    return f"{label} was changed after it was preregistered: {found}."


def altered(session: Session, experiment: Experiment) -> str | None:
    """As `tampered`, of a test that was sealed; None too where no job is left to hold it against."""
    if experiment.candidate_configuration_id is None or experiment.preregistration_digest is None:
        return None
    job = session.scalar(select(Job.id).where(Job.experiment_id == experiment.id).limit(1))
    return None if job is None else tampered(session, experiment)


def _changed(session: Session, experiment: Experiment, spec: TestJob) -> Iterator[str]:
    """Everything that contradicts the seal, as clauses; what names a field comes before what names a hash."""
    sealed = spec.preregistration_digest
    plan = spec.plan.model_dump(mode="json", exclude_unset=True)
    job_broken = broken_seal(spec)
    other = "its job has" if job_broken else "was sealed"
    for name, now, then in _differing(experiment.plan, plan):
        yield f"{name} of its plan is {_shown(now)}, and {other} {_shown(then)}"
    if job_broken:
        yield job_broken
    for arm, number, knobs in (
        ("control", experiment.control_configuration_id, spec.control),
        ("candidate", experiment.candidate_configuration_id, spec.candidate),
    ):
        yield from _other_arm(session, f"its {arm}", number, Point.of(knobs))
    if experiment.preregistration_digest != sealed:
        yield f"its seal is {_hash(experiment.preregistration_digest)}, and that of its job {_hash(sealed)}"
    yield from _other_verdict(session, experiment.id, sealed)
    if experiment.kind is ExperimentKind.TEST and experiment.hypothesis_id is not None:
        hypothesis = session.get_one(Hypothesis, experiment.hypothesis_id)
        if not _sealed_anew(session, hypothesis, experiment.id):
            yield from _other_hypothesis(session, hypothesis, spec)
        yield from _other_event(session, hypothesis, experiment.id, spec)


def _sealed_anew(session: Session, hypothesis: Hypothesis, experiment_id: int) -> bool:
    """Whether what the hypothesis says is of a later test of it, say after one whose device failed: then it
    has that one's seal, and the log tells that too."""
    return any(
        seal == hypothesis.preregistration_digest and _has_seal(session, hypothesis, later, seal)
        for later, seal in _told_seals(session, hypothesis)
        if later > experiment_id and isinstance(seal, str)
    )


def _has_seal(session: Session, hypothesis: Hypothesis, experiment_id: int, seal: str) -> bool:
    """Whether there is such a test of the hypothesis, under that seal, with its job."""
    experiment = session.get(Experiment, experiment_id)
    if experiment is None or experiment.hypothesis_id != hypothesis.id:
        return False
    try:
        spec = load_test_spec(session, experiment_id)
    except AutoinferError:
        return False
    return experiment.preregistration_digest == seal == spec.preregistration_digest


def _other_hypothesis(session: Session, hypothesis: Hypothesis, spec: TestJob) -> Iterator[str]:
    plan: Mapping[str, Json] = spec.plan.model_dump(mode="json")
    label = format_label(Noun.HYPOTHESIS, hypothesis.id)
    for name, now in (
        ("prediction", hypothesis.prediction),
        ("min_effect", hypothesis.min_effect),
        ("metric", hypothesis.metric),
    ):
        for field, value, then in _differing({name: now}, {name: plan[name]}):
            yield f"{field} of {label} is {_shown(value)}, and was sealed {_shown(then)}"
    for arm, number, knobs in (
        ("control", hypothesis.control_configuration_id, spec.control),
        ("candidate", hypothesis.candidate_configuration_id, spec.candidate),
    ):
        yield from _other_arm(session, f"the {arm} of {label}", number, Point.of(knobs), settled=True)
    if hypothesis.preregistration_digest != spec.preregistration_digest:
        yield (
            f"the seal of {label} is {_hash(hypothesis.preregistration_digest)}, and that of its job "
            f"{_hash(spec.preregistration_digest)}"
        )


def _other_arm(
    session: Session, what: str, number: int | None, sealed: Point, *, settled: bool = False
) -> Iterator[str]:
    """`settled`: the stored one may lack knobs that the space got later; the job has their defaults."""
    row = None if number is None else session.get(Configuration, number)
    if row is None:
        yield f"{what} is gone"
        return
    stored = Point.of(row.knobs)
    if stored.digest != row.digest:
        yield f"the stored knobs of {what} are no longer those of its digest {_hash(row.digest)}"
        return
    changes = [
        change
        for change in sealed.changes_to(stored)
        if not (settled and change.after is None and change.knob not in stored)
    ]
    if changes:
        yield f"{what} was sealed otherwise ({', '.join(map(str, changes))})"


def _other_event(
    session: Session, hypothesis: Hypothesis, experiment_id: int, spec: TestJob
) -> Iterator[str]:
    """The log tells the seal too, and a log is only added to: its line must be there and say the same."""
    sealed = spec.preregistration_digest
    told = [seal for number, seal in _told_seals(session, hypothesis) if number == experiment_id]
    for each in told:
        if each != sealed:
            yield f"the log tells the seal {_hash(each)}, and its job {_hash(sealed)}"
    if not told and spec.judge_version is not None:
        yield f"the log no longer tells its seal {_hash(sealed)}"


def _told_seals(session: Session, hypothesis: Hypothesis) -> list[tuple[int, object]]:
    """The experiments of a hypothesis and their seals, as the log tells them."""
    query = select(Event.data).where(
        Event.campaign_id == hypothesis.campaign_id,
        Event.kind == EventKind.HYPOTHESIS_PREREGISTERED.value,
        Event.subject == format_label(Noun.HYPOTHESIS, hypothesis.id),
    )
    return [
        (number, data.get("preregistration_digest"))
        for data in session.scalars(query)
        if data is not None and isinstance(number := data.get("experiment_id"), int)
    ]


def _other_verdict(session: Session, experiment_id: int, sealed: str) -> Iterator[str]:
    """The verdict carries the seal that it was given under."""
    for told in session.scalars(
        select(Verdict.preregistration_digest).where(Verdict.experiment_id == experiment_id)
    ):
        if told != sealed:
            yield f"the seal of its verdict is {_hash(told)}, and that of its job {_hash(sealed)}"


def _differing(
    now: Mapping[str, object], then: Mapping[str, object], prefix: str = ""
) -> Iterator[tuple[str, object, object]]:
    """Dotted names at which two JSON objects differ, with both values; None stands for a missing one."""
    for name in sorted({*now, *then}):
        one, other = now.get(name), then.get(name)
        if isinstance(one, dict) and isinstance(other, dict):
            yield from _differing(one, other, f"{prefix}{name}.")
        elif one != other:
            yield f"{prefix}{name}", one, other


def _shown(value: object) -> str:
    return "nothing" if value is None else str(value)


def _hash(digest: object) -> str:
    return digest[:_DIGITS] if isinstance(digest, str) and digest else "missing"
