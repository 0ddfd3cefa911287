"""What fresh runs of an experiment say of it: the same arms once more, in processes of their own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from db.labels import Noun, format_label
from db.models import Experiment, FindingEvidence, Job, StageRun, Verdict
from db.states import FINAL_JOB_STATES, ExperimentKind, ExperimentState, StageOutcome, VerdictOutcome
from experiments.measurement.evidence import Stage
from knowledge.figures import listed
from knowledge.findings.facts import versions_of_experiments
from knowledge.findings.staleness import moved_on
from knowledge.queries.view import EffectView, View, effect_view, verdict_effect
from knowledge.replication import Agreement, Judgement, compare
from knowledge.stored import min_effect_of, verdict_metric


class FreshView(View):
    """What a fresh run says: its experiment, outcome and effect, the difference from what was claimed
    (reproduced less claimed), `agreement` with `why` in a clause, and the stages it had to build anew."""

    experiment: str
    outcome: VerdictOutcome
    effect: EffectView | None
    difference: EffectView | None
    agreement: Agreement
    why: str
    built: tuple[str, ...] = ()


def fresh_runs(session: Session, experiment_id: int) -> tuple[FreshView, ...]:
    """Return what every fresh run of an experiment on its own target says of it, oldest first."""
    first = session.scalars(select(Verdict).where(Verdict.experiment_id == experiment_id)).first()
    if first is None:
        return ()
    query = (
        select(Verdict, Experiment)
        .join(Experiment, Experiment.id == Verdict.experiment_id)
        .where(
            Experiment.reproduces_experiment_id == experiment_id, Experiment.kind == ExperimentKind.REPRODUCE
        )
        .order_by(Verdict.experiment_id)
    )
    original = session.get_one(Experiment, experiment_id)
    again = [(each, fresh) for each, fresh in session.execute(query) if is_said_again(original, fresh)]
    built = _built(session, [each.experiment_id for each, _ in again])
    moved = moved_words(session, [(original, fresh) for _, fresh in again])
    return tuple(_view(first, each, built, moved) for each, _ in again)


def differing(session: Session, campaign_id: int) -> dict[str, FreshView]:
    """The supported tests of a campaign whose newest fresh run differs, by label, with what that says."""
    found = _differing(session, Experiment.campaign_id == campaign_id)
    return {format_label(Noun.EXPERIMENT, number): fresh for number, fresh in found.items()}


def differing_of(session: Session, experiments: Collection[int]) -> dict[int, FreshView]:
    """The same of these experiments, of whichever campaigns, by id."""
    return _differing(session, Experiment.id.in_(experiments))


def differing_on(session: Session, findings: Collection[int]) -> dict[int, tuple[FreshView, ...]]:
    """The newest fresh runs that differ from supported tests on which these findings rest, by finding."""
    query = (
        select(FindingEvidence.finding_id, Verdict.experiment_id)
        .join(Verdict, Verdict.id == FindingEvidence.verdict_id)
        .where(FindingEvidence.finding_id.in_(findings))
        .order_by(Verdict.id)
    )
    rests_on = session.execute(query).all()
    again = _differing(session, Experiment.id.in_({test for _, test in rests_on}))
    found: dict[int, tuple[FreshView, ...]] = {}
    for finding, test in rests_on:
        if test in again:
            found[finding] = (*found.get(finding, ()), again[test])
    return found


def _differing(session: Session, which: ColumnElement[bool]) -> dict[int, FreshView]:
    """Of some tests the supported ones whose newest fresh run differs, by id, with what that says."""
    again = select(Experiment.reproduces_experiment_id).where(Experiment.kind == ExperimentKind.REPRODUCE)
    query = (
        select(Verdict.experiment_id)
        .join(Experiment, Experiment.id == Verdict.experiment_id)
        .where(
            which,
            Verdict.outcome == VerdictOutcome.SUPPORTED,
            Experiment.kind == ExperimentKind.TEST,
            Experiment.id.in_(again),
        )
    )
    tests = session.scalars(query.order_by(Verdict.experiment_id)).all()
    if not tests:
        return {}
    return {
        number: fresh
        for number, (fresh, _) in sorted(newest_fresh(session, tests, 0).items())
        if fresh is not None and fresh.agreement is Agreement.DIFFERS
    }


def is_said_again(first: Experiment, fresh: Experiment) -> bool:
    """Whether a fresh run asks what the first one asked: of the same arms, by the same margin. The check of a
    recipe does not: it holds the whole of it against the baseline, by what was promised."""
    return (
        first.control_configuration_id == fresh.control_configuration_id
        and first.candidate_configuration_id == fresh.candidate_configuration_id
        and min_effect_of(first.plan) == min_effect_of(fresh.plan)
    )


def judgement(verdict: Verdict) -> Judgement:
    """A stored verdict as `compare` reads it."""
    return Judgement(
        verdict.outcome,
        verdict_metric(verdict),
        verdict.effect_log,
        verdict.interval_low_log,
        verdict.interval_high_log,
    )


def moved_words(session: Session, runs: Sequence[tuple[Experiment, Experiment]]) -> dict[int, str]:
    """Of first runs, each with a fresh one, those whose versions differ: by the fresh one's id in which, as a
    clause. What differs between the two may come from that."""
    ran = {each.id: each for pair in runs for each in pair}
    versions = versions_of_experiments(session, list(ran.values())) if ran else {}
    moved = {fresh.id: moved_on(versions[first.id], versions[fresh.id]) for first, fresh in runs}
    return {
        number: f"its versions are others, which a difference may come from ({listed(list(found))})"
        for number, found in moved.items()
        if found
    }


def _view(
    first: Verdict, again: Verdict, built: Mapping[int, tuple[str, ...]], moved: Mapping[int, str]
) -> FreshView:
    compared = compare(judgement(first), judgement(again))
    why = compared.why if compared.agreement is Agreement.AGREES else f"{compared.why}: {again.reason}"
    others = moved.get(again.experiment_id)
    found = compared.difference
    metric = verdict_metric(again)
    return FreshView(
        experiment=format_label(Noun.EXPERIMENT, again.experiment_id),
        outcome=again.outcome,
        effect=verdict_effect(again),
        difference=None
        if found is None
        else effect_view(found.effect_log, found.low_log, found.high_log, metric),
        agreement=compared.agreement,
        why=f"{why.rstrip('.')}; {others}" if others else why,
        built=built.get(again.experiment_id, ()),
    )


def newest_fresh(
    session: Session, experiments: Sequence[int], after: int
) -> dict[int, tuple[FreshView | None, str | None]]:
    """Return, by experiment, what its newest judged fresh run after the experiment `after` says, and else the
    label of one that is under way."""
    firsts = {
        each.experiment_id: each
        for each in session.scalars(select(Verdict).where(Verdict.experiment_id.in_(experiments)))
    }
    over = select(Job.experiment_id).where(Job.state.in_(FINAL_JOB_STATES))
    query = (
        select(Experiment, Verdict, Experiment.id.in_(over))
        .outerjoin(Verdict, Verdict.experiment_id == Experiment.id)
        .where(
            Experiment.reproduces_experiment_id.in_(experiments),
            Experiment.kind == ExperimentKind.REPRODUCE,
            Experiment.id > after,
            Experiment.state != ExperimentState.CANCELLED,
        )
        .order_by(Experiment.id)
    )
    originals = {
        each.id: each for each in session.scalars(select(Experiment).where(Experiment.id.in_(experiments)))
    }
    rows = [
        row
        for row in session.execute(query).all()
        if is_said_again(originals[row.Experiment.reproduces_experiment_id or 0], row.Experiment)
    ]
    built = _built(session, [experiment.id for experiment, *_ in rows])
    moved = moved_words(session, [(originals[each.reproduces_experiment_id or 0], each) for each, *_ in rows])
    found: dict[int, tuple[FreshView | None, str | None]] = {}
    for experiment, verdict, is_over in rows:
        first = experiment.reproduces_experiment_id
        assert first is not None  # asked for above
        if verdict is not None:
            found[first] = (_view(firsts[first], verdict, built, moved), None)
        elif not is_over and experiment.failure is None:
            found[first] = (found.get(first, (None, None))[0], format_label(Noun.EXPERIMENT, experiment.id))
    return found


def _built(session: Session, experiments: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """The stages that experiments had to build anew where the first run's artifact was gone, in their order:
    of a fresh run whose artifacts are all there each such stage is reused."""
    query = (
        select(StageRun.experiment_id, StageRun.stage)
        .where(
            StageRun.experiment_id.in_(experiments),
            StageRun.stage.in_(BUILT_STAGES),
            StageRun.outcome == StageOutcome.DONE,
        )
        .order_by(StageRun.id)
    )
    found: dict[int, tuple[str, ...]] = {}
    for experiment_id, stage in session.execute(query):
        known = found.get(experiment_id, ())
        found[experiment_id] = known if stage in known else (*known, stage)
    return found


BUILT_STAGES = (Stage.PRUNE.value, Stage.QUANTIZE.value, Stage.DRAFT.value)
"""Stages that leave an artifact which a later experiment reuses."""
