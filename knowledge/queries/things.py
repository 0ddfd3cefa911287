"""What the graph is made of as a list: campaigns, hypotheses, experiments and findings, searched in SQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, String, cast, func, literal, null, or_, select, union_all
from sqlalchemy.orm import Session

from db.labels import Noun, format_label
from db.models import Campaign, Experiment, Finding, FindingEvidence, Hypothesis, HypothesisParent, Verdict
from db.states import ExperimentKind
from knowledge.graph.typed_graph import NodeKind, Relation
from knowledge.queries.found.doubts import NO_DOUBT, doubts_of
from knowledge.queries.found.ties import experiment_relations
from knowledge.queries.view import Page, View
from knowledge.stored import LEVER_JOINT

_NOUNS = {
    NodeKind.FINDING: Noun.FINDING,
    NodeKind.HYPOTHESIS: Noun.HYPOTHESIS,
    NodeKind.EXPERIMENT: Noun.EXPERIMENT,
    NodeKind.CAMPAIGN: Noun.CAMPAIGN,
}


class ThingRow(View):
    """A node of the graph that is a row of its own; knobs, models and hardware are found at these. `doubt` is
    what speaks against a finding beside its own verdicts, as a clause."""

    id: str
    kind: NodeKind
    title: str
    state: str
    lever: str | None
    doubt: str | None = None


@dataclass(frozen=True)
class Things:
    """Which: all that are given must hold; `relation` is one that begins at the node."""

    kind: NodeKind | None = None
    lever: str | None = None
    relation: Relation | None = None
    text: str | None = None


def list_things(session: Session, asked: Things, limit: int, offset: int = 0) -> Page[ThingRow]:
    """Return a page of them: findings, hypotheses, experiments, campaigns, each newest first."""
    parts = [part for kind, part in _parts(session, asked) if asked.kind in (None, kind)]
    if not parts:
        return Page[ThingRow](items=(), total=0, limit=limit, offset=offset)
    found = union_all(*parts).subquery()
    total = session.scalar(select(func.count()).select_from(found)) or 0
    query = select(found).order_by(found.c.place, found.c.id.desc()).limit(limit).offset(offset)
    kinds = list(_NOUNS)
    page = session.execute(query).all()
    numbers = [row.id for row in page if kinds[row.place] is NodeKind.FINDING]
    doubts = doubts_of(session, session.scalars(select(Finding).where(Finding.id.in_(numbers))).all())
    rows = tuple(
        ThingRow(
            id=format_label(_NOUNS[kinds[row.place]], row.id),
            kind=kinds[row.place],
            title=row.title,
            state=row.state,
            lever=row.lever,
            doubt=doubts.get(row.id, NO_DOUBT).words if kinds[row.place] is NodeKind.FINDING else None,
        )
        for row in page
    )
    return Page[ThingRow](items=rows, total=total, limit=limit, offset=offset)


def _parts(session: Session, asked: Things) -> list[tuple[NodeKind, Select[Any]]]:
    relation = asked.relation
    scope_lever = Finding.scope["lever"].as_string()
    finding = _select(0, Finding.id, Finding.claim, Finding.status, scope_lever)
    hypothesis = _select(1, Hypothesis.id, Hypothesis.claim, Hypothesis.state, Hypothesis.lever)
    title = func.coalesce(Verdict.reason, cast(Experiment.kind, String))
    state = func.coalesce(cast(Verdict.outcome, String), cast(Experiment.state, String))
    experiment = (
        _select(2, Experiment.id, title, state, Hypothesis.lever)
        .select_from(Experiment)
        .outerjoin(Verdict, Verdict.experiment_id == Experiment.id)
        .outerjoin(Hypothesis, Hypothesis.id == Experiment.hypothesis_id)
    )
    campaign = _select(3, Campaign.id, Campaign.name, Campaign.state, null())
    found: list[tuple[NodeKind, Select[Any], list[Any], Any, ColumnElement[bool] | bool]] = [
        (NodeKind.FINDING, finding, [Finding.claim], scope_lever, _finding_says(relation)),
        (
            NodeKind.HYPOTHESIS,
            hypothesis,
            [Hypothesis.claim, Hypothesis.rationale],
            Hypothesis.lever,
            _hypothesis_says(relation),
        ),
        (NodeKind.EXPERIMENT, experiment, [title], Hypothesis.lever, _experiment_says(session, relation)),
        (
            NodeKind.CAMPAIGN,
            campaign,
            [Campaign.name, Campaign.model, Campaign.target],
            None,
            relation in (None, Relation.OPTIMIZES, Relation.RUNS_ON),
        ),
    ]
    parts = []
    for kind, query, texts, lever, says in found:
        if says is False or (asked.lever is not None and lever is None):
            continue
        if says is not True:
            query = query.where(says)
        if asked.lever is not None and lever is not None:
            joined = literal(LEVER_JOINT) + lever + LEVER_JOINT
            query = query.where(joined.contains(f"{LEVER_JOINT}{asked.lever}{LEVER_JOINT}", autoescape=True))
        if asked.text is not None:
            query = query.where(or_(*(text.icontains(asked.text, autoescape=True) for text in texts)))
        parts.append((kind, query))
    return parts


def _select(place: int, number: Any, title: Any, state: Any, lever: Any) -> Select[Any]:
    return select(
        literal(place).label("place"),
        number.label("id"),
        title.label("title"),
        cast(state, String).label("state"),
        lever.label("lever"),
    )


def _finding_says(relation: Relation | None) -> ColumnElement[bool] | bool:
    if relation is Relation.SUPERSEDES:
        return Finding.id.in_(select(Finding.superseded_by_id).where(Finding.superseded_by_id.is_not(None)))
    return relation in (None, Relation.CHANGES, Relation.SCOPED_TO)


def _hypothesis_says(relation: Relation | None) -> ColumnElement[bool] | bool:
    if relation is Relation.DERIVED_FROM:
        return Hypothesis.id.in_(select(HypothesisParent.hypothesis_id))
    return relation in (None, Relation.CHANGES, Relation.PART_OF)


def _experiment_says(session: Session, relation: Relation | None) -> ColumnElement[bool] | bool:
    if relation is Relation.TESTS:
        return Experiment.hypothesis_id.is_not(None)
    if relation is Relation.PART_OF:
        return Experiment.hypothesis_id.is_(None)
    said: list[ColumnElement[bool]] = [
        Verdict.id.in_(
            select(FindingEvidence.verdict_id).where(cast(FindingEvidence.relation, String) == relation)
        )
    ]
    if relation is Relation.REFUTES:
        said = [cast(Verdict.outcome, String) == "refuted"]
    elif relation is Relation.SUPPORTS:
        said.append(cast(Verdict.outcome, String) == "supported")
    elif relation is Relation.REPRODUCES:
        again = Experiment.kind == ExperimentKind.REPRODUCE
        said.append(again & Experiment.reproduces_experiment_id.is_not(None))
    elif relation in (Relation.REPLICATES, Relation.CONTRADICTS, Relation.INFORMS):
        elsewhere = experiment_relations(session, None)
        tied = [number for number, tie in elsewhere.items() if tie.relation == relation.value]
        said.append(Experiment.id.in_(tied))
    else:
        return relation is None
    return or_(*said)
