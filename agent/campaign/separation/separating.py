"""After a confounded verdict: the follow-ups that take its causes apart, into the queue, or why there are
none.

`follow_up` runs in the transaction that writes the verdict, so that no confounded experiment is left without
an answer and none is followed up twice. `follow_up_what_had_none` runs as a campaign is taken up: for what no
follow-up could separate then the space of today, or what is known by now of how keys go together, may have
one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.campaign.decision.desk import Desk
from agent.campaign.known.measured import read_measured
from agent.campaign.known.reading_facts import read_facts
from agent.campaign.known.within_memory import legal_of
from agent.campaign.learning.verdicts import CONFOUNDERS
from agent.campaign.queue.accept import Duplicate, accept
from agent.campaign.queue.order import read_directives
from agent.campaign.separation.foreseen import put_back
from agent.judge.confounding import Difference
from agent.proposers.claims import refuted_if
from agent.proposers.port import Trial
from agent.proposers.separation import PROPOSER, Confounded, Corner, Separation, separate
from configs.errors import UsageError
from db import events
from db.event_kinds import EventKind
from db.labels import Noun, format_label, parse_label
from db.models import Experiment, Hypothesis, Verdict
from db.states import HypothesisState, VerdictOutcome
from experiments.measurement.evidence import Json, Metric
from experiments.measurement.plan import Prediction
from knowledge.figures import listed
from knowledge.stored import CORNER, HELD, SEPARATES, STANDS_FOR, separates_of, stands_for_of, was_foreseen

MANY = 3
"""From so many tests on, where they are more than half of all, the same difference is no lever's."""

DROPPED = frozenset({HypothesisState.INFEASIBLE, HypothesisState.WITHDRAWN})
"""States of a follow-up that says nothing and will say nothing."""


def follow_up(session: Session, experiment_id: int) -> tuple[int, ...]:
    """Queue what the verdict on an experiment calls for; returns the ids of the new hypotheses.

    A confounded one: the follow-ups that separate its causes. A follow-up that does not run: those that go
    the other way round, or, where it stood in the place of a hypothesis that was not tested, that one waits
    again. Anything else: nothing.
    """
    experiment = session.get_one(Experiment, experiment_id)
    verdict = session.scalars(select(Verdict).where(Verdict.experiment_id == experiment_id)).first()
    if verdict is None or experiment.hypothesis_id is None:
        return ()
    hypothesis = session.get_one(Hypothesis, experiment.hypothesis_id)
    told: Mapping[str, Any] = hypothesis.change.get(SEPARATES) or {}
    if verdict.outcome is VerdictOutcome.CONFOUNDED:
        if hypothesis.proposer == PROPOSER:
            _tell(
                session,
                experiment,
                f"No follow-up is proposed: this one was to separate the causes of {told.get('experiment')}, "
                "and what differs now is for a person to look at.",
                (),
            )
            return ()
        return _separate(session, experiment, verdict, ())
    if verdict.outcome is VerdictOutcome.INFEASIBLE and was_foreseen(hypothesis.change):
        put_back(session, hypothesis)
        return ()
    if verdict.outcome is VerdictOutcome.INFEASIBLE and hypothesis.proposer == PROPOSER and told:
        _, first_id = parse_label(str(told["experiment"]))
        tried = _tried(session, experiment.campaign_id, str(told["experiment"]))
        if len(tried) == len(Corner):
            return ()
        first = session.scalars(select(Verdict).where(Verdict.experiment_id == first_id)).one()
        return _separate(session, session.get_one(Experiment, first_id), first, tried)
    return ()


def follow_up_what_had_none(session: Session, desk: Desk) -> tuple[int, ...]:
    """Queue what separates, as of today, the causes of confounded tests without a follow-up; returns its ids.

    Where there still is none nothing is said again.
    """
    campaign_id = desk.facts.id
    changes = session.scalars(select(Hypothesis.change).where(Hypothesis.campaign_id == campaign_id))
    followed = {separates_of(each) for each in changes if not was_foreseen(each)}
    query = (
        select(Experiment, Verdict)
        .join(Verdict, Verdict.experiment_id == Experiment.id)
        .join(Hypothesis, Hypothesis.id == Experiment.hypothesis_id)
        .where(Experiment.campaign_id == campaign_id, Verdict.outcome == VerdictOutcome.CONFOUNDED)
        .where(Hypothesis.proposer != PROPOSER)
        .order_by(Experiment.id)
    )
    all_queued: list[int] = []
    for experiment, verdict in session.execute(query).all():
        if format_label(Noun.EXPERIMENT, experiment.id) in followed:
            continue
        queued, told = _queue(session, desk, experiment, _separation(session, desk, experiment, verdict, ()))
        if queued:
            _tell(session, experiment, told, queued)
            all_queued += queued
    return tuple(all_queued)


def _separate(
    session: Session, experiment: Experiment, verdict: Verdict, without: Sequence[Corner]
) -> tuple[int, ...]:
    facts = read_facts(session, experiment.campaign_id)
    desk = Desk(facts, legal_of(facts), read_measured(session, facts), read_directives(session, facts.id))
    found = _separation(session, desk, experiment, verdict, without)
    if not found.drafts:
        _tell(
            session,
            experiment,
            f"No follow-up can separate its causes: {found.why_not}. Make both arms alike there and test "
            f"again.{_of_many(session, experiment)}",
            (),
        )
        return ()
    queued, told = _queue(session, desk, experiment, found)
    _tell(session, experiment, told, queued)
    return tuple(queued)


def _separation(
    session: Session, desk: Desk, experiment: Experiment, verdict: Verdict, without: Sequence[Corner]
) -> Separation:
    hypothesis = session.get_one(Hypothesis, experiment.hypothesis_id)
    trial = next(each for each in desk.facts.trials if each.experiment_id == experiment.id)
    return separate(
        desk.legal.space,
        _confounded(trial, hypothesis, verdict),
        desk.beliefs.predict,
        refused=desk.legal.refused,
        without=without,
    )


def _confounded(trial: Trial, hypothesis: Hypothesis, verdict: Verdict) -> Confounded:
    return Confounded(
        experiment=format_label(Noun.EXPERIMENT, trial.experiment_id),
        hypothesis_id=hypothesis.id,
        claim=hypothesis.claim,
        control=trial.control,
        candidate=trial.candidate,
        metric=Metric(hypothesis.metric),
        min_effect=hypothesis.min_effect,
        prediction=Prediction.model_validate(hypothesis.prediction),
        effect_log=verdict.effect_log,
        differences=tuple(Difference(**each) for each in verdict.judge.get(CONFOUNDERS) or ()),
    )


def _queue(session: Session, desk: Desk, experiment: Experiment, found: Separation) -> tuple[list[int], str]:
    """Queue the drafts; gives the ids of the new hypotheses, and the sentence that names all of them."""
    label = format_label(Noun.EXPERIMENT, experiment.id)
    queued: list[int] = []
    told: list[str] = []
    anew = _made_anew(session, experiment)
    for place, draft in enumerate(found.drafts):
        assert found.corner is not None
        separates: dict[str, Json] = {"experiment": label, CORNER: found.corner.value}
        if place == 0:
            if anew:
                continue  # the other corner is for what is left of the causes
            separates[STANDS_FOR] = experiment.hypothesis_id
            separates[HELD] = dict(found.held)
        metric = Metric(draft.metric or desk.facts.objective)
        try:
            accepted = accept(
                session,
                desk.facts.id,
                replace(draft, refuted_if=refuted_if(metric, draft.min_effect)),
                metric.value,
                desk.space,
                separates=separates,
            )
        except Duplicate as known:
            told.append(known.message.rstrip("."))
        except UsageError as error:
            told.append(f"one can't be tested: {error.message.rstrip('.')}")
        else:
            queued.append(accepted.hypothesis_id)
            told.append(f"{format_label(Noun.HYPOTHESIS, accepted.hypothesis_id)} {draft.claim.rstrip('.')}")
    return queued, f"What separates its causes: {'; '.join(told)}."


def _made_anew(session: Session, experiment: Experiment) -> bool:
    """Whether another hypothesis makes the claim of a confounded one anew, and waits, runs or was judged."""
    query = select(Hypothesis).where(
        Hypothesis.campaign_id == experiment.campaign_id, Hypothesis.proposer == PROPOSER
    )
    return any(
        stands_for_of(each.change) == experiment.hypothesis_id and each.state not in DROPPED
        for each in session.scalars(query)
    )


def _of_many(session: Session, experiment: Experiment) -> str:
    """A sentence where the same keys have confounded test after test of a campaign; empty where not."""
    query = (
        select(Verdict.judge)
        .join(Experiment, Experiment.id == Verdict.experiment_id)
        .where(Experiment.campaign_id == experiment.campaign_id, Verdict.hypothesis_id.is_not(None))
        .order_by(Verdict.id.desc())
    )
    told = [{str(each["key"]) for each in judge.get(CONFOUNDERS) or ()} for judge in session.scalars(query)]
    often = Counter(key for keys in told for key in keys)
    shared = sorted(key for key in told[0] if often[key] >= MANY and 2 * often[key] > len(told))
    if not shared:
        return ""
    least = min(often[key] for key in shared)
    return (
        f" By now {least} of {len(told)} tests were confounded by {listed(shared)}: look for the cause in "
        "the engine or the machine, for no lever's change explains it."
    )


def _tried(session: Session, campaign_id: int, label: str) -> tuple[Corner, ...]:
    """The corners over which follow-ups of an experiment were proposed already."""
    query = select(Hypothesis.change).where(
        Hypothesis.campaign_id == campaign_id, Hypothesis.proposer == PROPOSER
    )
    found = {
        str(change[SEPARATES][CORNER])
        for change in session.scalars(query)
        if separates_of(change) == label and not was_foreseen(change)
    }
    return tuple(corner for corner in Corner if corner.value in found)


def _tell(session: Session, experiment: Experiment, text: str, queued: Sequence[int]) -> None:
    events.append(
        session,
        EventKind.EXPERIMENT_CONFOUNDED,
        text,
        subject=format_label(Noun.EXPERIMENT, experiment.id),
        campaign_id=experiment.campaign_id,
        data={"follow_ups": [format_label(Noun.HYPOTHESIS, number) for number in queued]},
    )
