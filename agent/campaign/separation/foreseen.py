"""What confounded one test would confound the next: its claim is made anew at once, and it is not tested.

A test is foreseen to be confounded where a confounded one, of this campaign or of another on the same model,
engine, target and versions, compared arms that run the same: the same configurations, or such as differ in
the calibration text alone, which gives the weights other values and changes nothing that runs. What that test
told of its arms holds of these, and what the claimed change does not explain of it would be found again.
So is it where the engine's kernels were timed alone with the baseline, and other classes multiplied weights
as one arm packs them than as the other does. Where a knob fixes it, the claim is made anew with that knob
alike in both arms, as after a confounded test (`agent.campaign.separation.separating`), a test earlier.
Where none does, it is tested as it was asked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.campaign.decision.desk import Desk
from agent.campaign.known import store
from agent.campaign.known.facts import Facts, Queued
from agent.campaign.learning.verdicts import CONFOUNDERS
from agent.campaign.queue.accept import Duplicate, accept
from agent.judge.confounding import PACE_WORDS, Difference, clauses
from agent.judge.consequences import TEXT_KNOBS, explained, words
from agent.proposers.claims import refuted_if
from agent.proposers.separation import PROPOSER, Confounded, Corner, Separation, separate
from agent.surrogate.timed_kernels import TimedKernels
from configs.errors import UsageError
from db import events
from db.clock import now
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Campaign, Experiment, Hypothesis, Verdict
from db.states import ExperimentKind, HypothesisState, VerdictOutcome
from experiments.engines.kernel_timings import KERNEL
from experiments.measurement.evidence import SCORED_METRICS, Metric
from experiments.space.configuration import Configuration
from experiments.space.knob import listed
from experiments.space.space import Space
from knowledge.findings.facts import versions_of_experiments
from knowledge.findings.staleness import of_other_versions
from knowledge.stored import CORNER, FORESEEN, HELD, SEPARATES, STANDS_FOR, stands_for_of, was_foreseen

MOST_SEEN = 200
"""Confounded tests that are looked at, the newest first."""


@dataclass(frozen=True)
class Confounder:
    """What differed between the arms of a confounded test beyond its claim; of a baseline (`timed`), what
    differed between these arms' kernels when they were timed alone."""

    experiment_id: int
    campaign_id: int
    control: Configuration
    candidate: Configuration
    differences: tuple[Difference, ...]
    timed: bool = False


def foresee(
    queued: Queued, confounded: Iterable[Confounder], pinned: Collection[str] = ()
) -> Confounder | None:
    """What would confound a test of a hypothesis, as its arms are, by the confounded tests so far, in their
    order; None where nothing is known to. `pinned` are the resolved keys that its changed knobs pin. Pure."""
    changes = queued.control.changes_to(queued.candidate)
    timed = Metric(queued.metric) not in SCORED_METRICS
    for each in confounded:
        left = tuple(
            difference
            for difference in _as_here(queued, each)
            if not explained(difference.key, changes, pinned)
            and (timed or not words(difference.key) & PACE_WORDS)
        )
        if left:
            return replace(each, control=queued.control, candidate=queued.candidate, differences=left)
    return None


def by_kernels(space: Space, timed: TimedKernels, queued: Queued) -> tuple[Difference, ...]:
    """What would differ between a hypothesis's arms by the kernels that multiply their packed weights, as
    these were timed alone: by the keys that the kernel's knob pins. Empty where nothing would, where a format
    was not timed, and where the space has no such knob. Pure."""
    knob = next((each for each in space.knobs if each.name == KERNEL), None)
    control, candidate = timed.classes(queued.control), timed.classes(queued.candidate)
    both = control.keys() & candidate.keys()
    before, after = (", ".join(sorted({each[part] for part in both})) for each in (control, candidate))
    if knob is None or before == after:
        return ()
    return tuple(Difference(pin.key, before, after) for pin in knob.pins)


def _as_here(queued: Queued, seen: Confounder) -> tuple[Difference, ...]:
    """What differed between a test's arms, as the hypothesis has them; empty where it compares others."""
    if _runs_alike(queued.control, seen.control) and _runs_alike(queued.candidate, seen.candidate):
        return seen.differences
    if _runs_alike(queued.control, seen.candidate) and _runs_alike(queued.candidate, seen.control):
        return tuple(Difference(each.key, each.candidate, each.control) for each in seen.differences)
    return ()


def _runs_alike(one: Configuration, other: Configuration) -> bool:
    return TEXT_KNOBS.issuperset(change.knob for change in one.changes_to(other))


def set_aside(session: Session, desk: Desk, queued: Queued) -> int | None:
    """Make the claim of a hypothesis anew whose test is foreseen to be confounded, and set it aside; returns
    the id of what makes it anew. None where it is to be tested as it was asked: nothing is foreseen, no knob
    takes the causes apart, or what would does not run here or was put down before."""
    if queued.proposer == PROPOSER or queued.target:
        return None
    seen = [*_confounded(session, desk.facts), *_timed(desk, queued)]
    foreseen = foresee(queued, seen, desk.space.pinned_keys(queued.control, queued.candidate))
    if foreseen is None:
        return None
    found = separate(
        desk.space,
        Confounded(
            experiment=format_label(Noun.EXPERIMENT, foreseen.experiment_id),
            hypothesis_id=queued.id,
            claim=queued.claim,
            control=queued.control,
            candidate=queued.candidate,
            metric=Metric(queued.metric),
            min_effect=queued.min_effect,
            prediction=queued.prediction,
            effect_log=None,
            differences=foreseen.differences,
        ),
        desk.beliefs.predict,
        refused=desk.legal.refused,
        without=_tried(session, desk, queued),
    )
    return _made_anew(session, desk, queued, foreseen, found) if found.drafts else None


def put_back(session: Session, stood_in: Hypothesis) -> None:
    """Put the hypothesis back into the queue in whose place one stood that does not run here."""
    number = stands_for_of(stood_in.change)
    row = session.get_one(Hypothesis, number)
    if row.state is not HypothesisState.CONFOUNDED:
        return
    row.state, row.state_reason, row.state_changed_at = HypothesisState.QUEUED, None, now()
    events.append(
        session,
        EventKind.HYPOTHESIS_REQUEUED,
        f"Waits again: {format_label(Noun.HYPOTHESIS, stood_in.id)}, which was to make its claim anew, does "
        "not run.",
        format_label(Noun.HYPOTHESIS, row.id),
        row.campaign_id,
    )


def _confounded(session: Session, facts: Facts) -> list[Confounder]:
    """The confounded tests of this ground, the newest first: the campaign's own, and those of others on its
    model, engine and target that ran with the versions that its baseline ran with."""
    baseline = session.get_one(Experiment, facts.baseline_experiment_id)
    query = (
        select(Experiment, Verdict.judge)
        .join(Verdict, Verdict.experiment_id == Experiment.id)
        .join(Campaign, Campaign.id == Experiment.campaign_id)
        .where(
            Verdict.outcome == VerdictOutcome.CONFOUNDED,
            Experiment.kind == ExperimentKind.TEST,
            Experiment.target == facts.target_key,
            Campaign.model_fingerprint == facts.model_fingerprint,
            Campaign.spec["engine"].as_string() == facts.spec.engine,
        )
        .order_by(Verdict.id.desc())
        .limit(MOST_SEEN)
    )
    rows = session.execute(query).all()
    elsewhere = [each for each, _ in rows if each.campaign_id != facts.id]
    versions = versions_of_experiments(session, [*elsewhere, baseline]) if elsewhere else {}
    other = {each.id for each in elsewhere if of_other_versions(versions[each.id], versions[baseline.id])}
    arms = {each: (each.control_configuration_id, each.candidate_configuration_id) for each, _ in rows}
    known = store.configurations(session, [each for both in arms.values() for each in both if each])
    return [
        Confounder(
            each.id,
            each.campaign_id,
            known[control],
            known[candidate],
            tuple(Difference(**told) for told in judge.get(CONFOUNDERS) or ()),
        )
        for each, judge in rows
        if each.id not in other and (control := arms[each][0]) and (candidate := arms[each][1])
    ]


def _timed(desk: Desk, queued: Queued) -> Iterator[Confounder]:
    """What the kernels that were timed with the baseline tell of a hypothesis's arms, where these differ."""
    if desk.timed is None or (differences := by_kernels(desk.space, desk.timed, queued)) == ():
        return
    baseline = desk.facts.baseline_experiment_id
    assert baseline is not None  # they were timed with it
    yield Confounder(baseline, desk.facts.id, queued.control, queued.candidate, differences, timed=True)


def _tried(session: Session, desk: Desk, queued: Queued) -> tuple[Corner, ...]:
    """The corners over which its claim was made anew before."""
    query = select(Hypothesis.change).where(
        Hypothesis.campaign_id == desk.facts.id, Hypothesis.proposer == PROPOSER
    )
    found = {
        str(change[SEPARATES][CORNER])
        for change in session.scalars(query)
        if was_foreseen(change) and stands_for_of(change) == queued.id
    }
    return tuple(corner for corner in Corner if corner.value in found)


def _made_anew(
    session: Session, desk: Desk, queued: Queued, foreseen: Confounder, found: Separation
) -> int | None:
    label = format_label(Noun.HYPOTHESIS, queued.id)
    experiment = format_label(Noun.EXPERIMENT, foreseen.experiment_id)
    assert found.corner is not None
    held = ", ".join(f"{name} at {listed([value])}" for name, value in sorted(found.held.items()))
    seen_in = experiment
    if foreseen.campaign_id != desk.facts.id:
        seen_in += f" of {format_label(Noun.CAMPAIGN, foreseen.campaign_id)}"
    would = "; ".join(clauses(foreseen.differences))
    told_by = f"as {seen_in} was"
    why = f"for what confounded {seen_in} would confound it too"
    if foreseen.timed:
        told_by = f"by the kernels that were timed with {seen_in}"
        why = f"for it would be confounded {told_by}"
    draft = replace(
        found.drafts[0],
        refuted_if=refuted_if(Metric(queued.metric), queued.min_effect),
        rationale=f"{label} would be confounded {told_by}: {would}. So it is asked with {held} in both arms.",
    )
    try:
        accepted = accept(
            session,
            desk.facts.id,
            draft,
            queued.metric,
            desk.space,
            separates={
                "experiment": experiment,
                CORNER: found.corner.value,
                STANDS_FOR: queued.id,
                HELD: dict(found.held),
                FORESEEN: True,
            },
        )
    except (Duplicate, UsageError):
        return None
    anew = format_label(Noun.HYPOTHESIS, accepted.hypothesis_id)
    reason = (
        f"Not tested as it was asked, {why}: {would}. {anew} makes the claim anew, with {held} in both arms."
    )
    row = session.get_one(Hypothesis, queued.id)
    row.state, row.state_reason, row.state_changed_at = HypothesisState.CONFOUNDED, reason, now()
    row.rank = None
    events.append(
        session,
        EventKind.HYPOTHESIS_CONFOUNDED,
        reason,
        label,
        desk.facts.id,
        {"as": experiment, "anew": anew},
    )
    return accepted.hypothesis_id
