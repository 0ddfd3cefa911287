"""A queue that is taken up again, held against the space of today.

A campaign may be older than a rule of its space, a value may have gone, and its model, engine or target may
refuse today what they took when a hypothesis was queued. A hypothesis whose arms today's space would write
as they are stays as it is. One that it would write with nothing more than knobs at their defaults (newer
ones, where the engine chose for itself), or without such (that mean nothing by now), compares what it did: it
is written so, for nobody to ask for it twice, and one line of the log tells of all of them. Of the others:

- One goes on in today's form where that makes the same claim: what it changes is changed there from and to
  the same values, knobs that it holds alike in both arms are held there, and nothing differs besides but what
  the change itself makes active (at its default) or drops. The form must be admitted, and nobody else's.
- One whose test was sealed before, whatever differs, is not changed: it is withdrawn, and what it claims is
  asked anew in that form, as a hypothesis of its own; a campaign's question, which is asked once, is not.
- Any other is withdrawn, with the reason.

What is to be confirmed on another target stays as it was measured; whether that target serves it is looked at
when it is sent there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.campaign.decision.desk import Desk
from agent.campaign.known import store
from agent.campaign.known.settling import settled
from agent.campaign.queue.accept import accept, change_digest, same_arms
from agent.ground.drafter import space_of
from agent.ground.legal import Legal
from agent.ground.positions import space_on
from agent.proposers.port import Draft
from agent.surrogate.levers import joined
from configs.errors import UsageError
from db import events
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Hypothesis, HypothesisParent
from db.states import HypothesisState
from experiments.measurement.evidence import Metric
from experiments.measurement.plan import Prediction
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.knob import same_value, written
from experiments.space.space import Space
from knowledge.acts import steering
from knowledge.stored import SEPARATES, builds_on, held_of

NOT_ADMITTED = "The space of today does not admit it as it was asked"
"""How the reason of what is withdrawn begins."""


@dataclass(frozen=True)
class Arms:
    """The two configurations that a hypothesis compares."""

    control: Configuration
    candidate: Configuration


@dataclass(frozen=True)
class WrittenOut:
    """A hypothesis, by its label, whose arms today's space writes otherwise and which compares the same."""

    label: str
    arms: Arms
    form: Arms


def form_of_today(
    space: Space, arms: Arms, changes: Collection[Mapping[str, Any]], held: Mapping[str, KnobValue]
) -> Arms:
    """The arms as today's space writes them, where they make the same claim. Pure.

    `changes` are those of the hypothesis, as they are stored (`knob`, `before`, `after`), `held` the knobs
    that it holds alike in both arms. Raises `UsageError` with what of the claim is lost.
    """
    control, candidate = (space.with_change(each, {}) for each in (arms.control, arms.candidate))
    for each in changes:
        if not same_value(control.get(each["knob"]), each["before"]):
            raise UsageError(
                f"{each['knob']} was to be changed from {written(each['before'])}, and means nothing in its "
                "control any more."
            )
    assigned = {each["knob"]: each["after"] for each in changes if each["after"] is not None}
    if space.with_change(control, assigned) != candidate:
        raise UsageError("Its arms differ by more than its change.")
    if control == candidate:
        raise UsageError("Nothing differs between its arms any more.")
    for name, value in held.items():
        if not all(same_value(each.get(name), value) for each in (control, candidate)):
            raise UsageError(f"{name} was to be {value} in both arms, and means nothing there any more.")
    return Arms(control, candidate)


def compares_the_same(space: Space, arms: Arms, form: Arms) -> bool:
    """Whether today's form differs from the arms by nothing but knobs at their defaults. Pure."""
    return all(
        None in (each.before, each.after)
        and same_value(each.before if each.after is None else each.after, space.knob(each.knob).default)
        for then, now in ((arms.control, form.control), (arms.candidate, form.candidate))
        for each in then.changes_to(now)
    )


def check_admitted(legal: Legal, arms: Arms) -> None:
    """Raise `UsageError` for arms that model, engine and target don't take today."""
    for each in (arms.control, arms.candidate):
        why = legal.why_not_admitted(each)
        if why is not None:
            raise UsageError(why)
    refusal = legal.refused(arms.candidate)
    if refusal is not None:
        raise UsageError(refusal)


def hold_to_today(session: Session, desk: Desk) -> int:
    """Deal with what in the queue the space of today would not write so; returns how many hypotheses that
    were."""
    query = select(Hypothesis).where(
        Hypothesis.campaign_id == desk.facts.id,
        Hypothesis.state == HypothesisState.QUEUED,
        Hypothesis.target == "",
    )
    rows = session.scalars(query.order_by(Hypothesis.id)).all()
    stored = store.configurations(
        session,
        [number for row in rows for number in (row.control_configuration_id, row.candidate_configuration_id)],
    )
    legal = desk.legal
    space = (
        space_of(desk.facts.spec)
        if legal.profile is None
        else space_on(desk.facts.spec, legal.profile, legal.packing)
    )
    dealt_with, written_out = 0, list[WrittenOut]()
    for row in rows:
        arms = Arms(stored[row.control_configuration_id], stored[row.candidate_configuration_id])
        try:
            form = form_of_today(space, arms, row.change.get("changes", ()), held_of(row.change))
            check_admitted(desk.legal, form)
            if form == arms:
                row.lever = joined(space.levers_between(arms.control, arms.candidate)) or row.lever
                continue
            _check_nobody_elses(session, desk, row, form)
            if row.preregistration_digest is not None:
                _ask_anew(session, desk, row, space, form)
            elif compares_the_same(space, arms, form):
                _rewrite(session, row, space, form)
                written_out.append(WrittenOut(format_label(Noun.HYPOTHESIS, row.id), arms, form))
            else:
                _go_on(session, row, space, arms, form)
        except UsageError as error:
            steering.withdraw_proposal(session, row.id, f"{NOT_ADMITTED}: {error.message}")
        dealt_with += 1
    if written_out:
        _tell_written_out(session, desk.facts.id, written_out)
    return dealt_with


def _check_nobody_elses(session: Session, desk: Desk, row: Hypothesis, form: Arms) -> None:
    """Raise `UsageError` where another hypothesis of the campaign compares these arms, or compared what ran
    as they do. A question may ask what others did, as it may when it is posed."""
    if row.question is not None:
        return
    twins = [
        each.hypothesis_id
        for each in same_arms(
            session, row.campaign_id, form.control, form.candidate, row.metric, with_questions=False
        )
        if not each.void
    ]
    twins += _ran_alike(session, desk, row, form)
    others = [each for each in twins if each != row.id]
    if others:
        twin = format_label(Noun.HYPOTHESIS, min(others))
        raise UsageError(f"In its form of today it is the same as {twin}.")


def _ran_alike(session: Session, desk: Desk, row: Hypothesis, form: Arms) -> list[int]:
    """The hypotheses under test and tested whose arms, settled as the loop reads them, are these."""
    query = select(
        Hypothesis.id, Hypothesis.control_configuration_id, Hypothesis.candidate_configuration_id
    ).where(
        Hypothesis.campaign_id == row.campaign_id,
        Hypothesis.metric == row.metric,
        Hypothesis.target == "",
        Hypothesis.question.is_(None),
        Hypothesis.state.not_in(
            (HypothesisState.QUEUED, HypothesisState.PROPOSED, HypothesisState.WITHDRAWN)
        ),
    )
    found = session.execute(query).all()
    stored = store.configurations(session, [number for each in found for number in each[1:]])
    name = desk.facts.spec.space
    return [
        number
        for number, control, candidate in found
        if settled(stored[candidate], name) == form.candidate
        and settled(stored[control], name) == form.control
    ]


def _go_on(session: Session, row: Hypothesis, space: Space, arms: Arms, form: Arms) -> None:
    """Give a hypothesis that nothing was sealed of today's form of its arms, and tell of it."""
    _rewrite(session, row, space, form)
    label = format_label(Noun.HYPOTHESIS, row.id)
    events.append(
        session,
        EventKind.HYPOTHESIS_RESTATED,
        f"{label} goes on in the form that the space of today gives its arms, with the same claim: "
        f"{_differs(arms, form)}",
        label,
        row.campaign_id,
        {"control": form.control.digest, "candidate": form.candidate.digest, "lever": row.lever},
    )


def _rewrite(session: Session, row: Hypothesis, space: Space, form: Arms) -> None:
    row.control_configuration_id = store.configuration_id(session, form.control)
    row.candidate_configuration_id = store.configuration_id(session, form.candidate)
    changes = form.control.changes_to(form.candidate)
    row.change = {**row.change, "changes": [asdict(each) for each in changes]}
    row.change_digest = change_digest(changes)
    row.lever = joined(space.levers_between(form.control, form.candidate))
    session.flush()


def _tell_written_out(session: Session, campaign_id: int, written_out: Sequence[WrittenOut]) -> None:
    """Tell once of all hypotheses whose arms are the same and were written out."""
    added: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    for each in written_out:
        gone, come = _lost_and_added(each.arms, each.form)
        lost.update(gone.keys())
        added.update(come.keys())
    told = [
        f"{what} {', '.join(f'{name} ({count})' for name, count in found.most_common())}"
        for what, found in (
            ("with newer knobs at their defaults:", added),
            ("without knobs at their defaults that mean nothing by now:", lost),
        )
        if found
    ]
    those = (
        "1 waiting hypothesis compares what it did, and is"
        if len(written_out) == 1
        else f"{len(written_out)} waiting hypotheses compare what they did, and are"
    )
    events.append(
        session,
        EventKind.QUEUE_WRITTEN_OUT,
        f"{those} written {', and '.join(told)}",
        format_label(Noun.CAMPAIGN, campaign_id),
        campaign_id,
        {"hypotheses": [each.label for each in written_out]},
    )


def _ask_anew(session: Session, desk: Desk, row: Hypothesis, space: Space, form: Arms) -> None:
    """Withdraw a hypothesis whose test was sealed on other arms, and ask what it claims on today's."""
    sealed = (
        "Its test was sealed with arms that the space of today writes otherwise, and stays as it was sealed"
    )
    if row.question is not None:
        steering.withdraw_proposal(session, row.id, f"{sealed}; ask it anew with autoinfer enqueue")
        return
    parents = session.scalars(
        select(HypothesisParent.parent_id).where(HypothesisParent.hypothesis_id == row.id)
    )
    label = format_label(Noun.HYPOTHESIS, row.id)
    draft = Draft(
        claim=row.claim,
        control=form.control,
        candidate=form.candidate,
        lever=joined(space.levers_between(form.control, form.candidate)),
        prediction=Prediction.model_validate(row.prediction),
        min_effect=row.min_effect,
        refuted_if=row.refuted_if,
        rationale=f"{row.rationale} It was {label}, whose test was sealed and never run.".strip(),
        proposer=row.proposer,
        parents=(*sorted(parents), row.id),
        metric=Metric(row.metric),
        builds_on=builds_on(row.change),
        pinned=row.pinned,
    )
    separates = row.change.get(SEPARATES)
    steering.withdraw_proposal(session, row.id, f"{sealed}; what it claims is asked anew")
    try:
        accept(session, row.campaign_id, draft, row.metric, desk.space, separates=separates)
    except UsageError:
        return  # such as somebody's who asked for just that, and had it withdrawn


def _differs(arms: Arms, form: Arms) -> str:
    """What today's form leaves out and adds, in words."""
    lost, added = _lost_and_added(arms, form)
    told = [f"without {each} in {_where(arms_)}, where it means nothing" for each, arms_ in lost.items()]
    told += [f"with {each} in {_where(arms_)}, which is its default" for each, arms_ in added.items()]
    return "; ".join(told)


def _lost_and_added(arms: Arms, form: Arms) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """The assignments that today's form leaves out, and those that it adds, each with its arms."""
    then_now = {"control": (arms.control, form.control), "candidate": (arms.candidate, form.candidate)}
    lost: dict[str, list[str]] = {}
    added: dict[str, list[str]] = {}
    for arm, (then, now) in then_now.items():
        for change in then.changes_to(now):
            if change.after is None:
                lost.setdefault(f"{change.knob}={_written(change.before)}", []).append(arm)
            else:
                added.setdefault(f"{change.knob}={_written(change.after)}", []).append(arm)
    return lost, added


def _where(arms: Sequence[str]) -> str:
    return "both arms" if len(arms) > 1 else f"its {arms[0]}"


def _written(value: KnobValue | None) -> str:
    return "" if value is None else written(value)
