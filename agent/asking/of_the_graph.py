"""Answers that need nothing of a campaign's ground: what is known, what led to something. They import none of
what the loop decides with, which takes longer than such an answer. Reads, writes nothing."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.asking.imported import imported_of, imported_rows
from agent.asking.scopes import scoped
from configs.catalog import Kind, packaged_names
from configs.errors import AutoinferError
from db.event_kinds import EventKind
from db.events import of_kind
from db.labels import Noun, parse_label_of
from db.models import Campaign, Event, Hypothesis
from experiments.space.loading import load_space
from knowledge.asking.answer import Answer, Row, Section, section
from knowledge.asking.known import known
from knowledge.asking.led_to import led_to
from knowledge.asking.walking import EVIDENT, hypothesis_of, label_in
from knowledge.graph.typed_graph import Graph
from knowledge.queries.claims.hypothesis_detail import moves_of


def what_is_known(session: Session, graph: Graph, knob: str, on: str | None) -> Answer:
    """What is known about a knob, on hardware with `on` in its name or on all, where that says nothing."""
    on = on if on and on.strip() else None
    space = () if f"knob:{knob}" in graph else knobs_known(session)  # of what nothing changed yet
    return scoped(session, known(graph, knob, on, space, imported_of(session)))


def what_led_to(session: Session, graph: Graph, subject: str) -> Answer:
    """What led to a hypothesis, an experiment or a finding, with its places in the queue and the profile that
    it was proposed under."""
    label = label_in(graph, subject, *EVIDENT)
    hypothesis = hypothesis_of(graph, label) if label.startswith("E-") else label
    more: list[Section] = []
    if hypothesis is not None and hypothesis.startswith("H-"):
        number = parse_label_of(Noun.HYPOTHESIS, hypothesis)
        more = [_places(session, number), _profile(session, hypothesis, number)]
    told = imported_rows(session, label) if label.startswith("F-") else ()
    return scoped(session, led_to(graph, label, more, told))


def knobs_known(session: Session) -> tuple[str, ...]:
    """Return the knobs of all packaged spaces, and of the spaces of the campaigns that can be read."""
    found = {knob.name for name in packaged_names(Kind.SPACES) for knob in load_space(name).knobs}
    for (spec,) in session.execute(select(Campaign.spec)):
        try:
            found |= {knob.name for knob in load_space(str(spec.get("space", "reference"))).knobs}
        except AutoinferError:
            continue  # a file of the user's that is not there any more
    return tuple(sorted(found))


def _places(session: Session, hypothesis_id: int) -> Section:
    rows = [
        Row(
            id=None if each.cause_subject and each.cause_subject in each.reason else each.cause_subject,
            relation=_place(each.from_rank, each.to_rank),
            text=each.reason,
            because=f"What came before: {each.cause}",
        )
        for each in moves_of(session, hypothesis_id)
    ]
    return section("Its places in the queue", rows, "It never moved in the queue.")


def _place(before: int | None, after: int | None) -> str:
    if before is None:
        return "never in the queue" if after is None else f"new at place {after}"
    return f"left from place {before}" if after is None else f"place {before} → {after}"


def _profile(session: Session, hypothesis: str, number: int) -> Section:
    """The newest profile of its campaign when it was proposed."""
    campaign_id = session.get_one(Hypothesis, number).campaign_id
    proposed = session.scalar(
        select(Event.id).where(Event.kind == EventKind.HYPOTHESIS_PROPOSED.value, Event.subject == hypothesis)
    )
    query = select(Event).where(of_kind(EventKind.CAMPAIGN_PROFILED, campaign_id))
    if proposed is not None:
        query = query.where(Event.id < proposed)
    newest = session.scalars(query.order_by(Event.id.desc()).limit(1)).first()
    rows = [] if newest is None else [Row(id=newest.subject, text=newest.text)]
    return section("The profile it was proposed under", rows, "Nothing was profiled before.")
