"""Findings in the graph: what verdicts say of them, their scope, and what ties them to one another."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from db.labels import Noun, format_label
from db.models import Experiment, Finding, FindingEvidence, ImportedEvidence, Verdict
from db.states import EvidenceRelation, ExperimentKind
from knowledge.findings.rules import Rule
from knowledge.findings.verdict_fact import SAYING
from knowledge.graph.pieces import (
    OF_EVIDENCE,
    add_edge,
    add_node,
    ends_of,
    hardware_node,
    joined,
    knob_node,
    model_node,
    tell,
    tell_effect,
    word,
)
from knowledge.graph.sketch import NOTHING, Sketch
from knowledge.graph.typed_graph import NodeKind, Relation
from knowledge.machines import machines_named
from knowledge.queries.found.ties import ties_of_findings
from knowledge.stored import TOLD_BY, metric_of


def add_findings(
    graph: Sketch, session: Session, where: Sequence[ColumnElement[bool]], *, effects: bool
) -> None:
    """Add the findings that meet these conditions, with their scope and what verdicts say of them."""
    columns = (
        Finding.id,
        Finding.claim,
        Finding.status,
        Finding.status_reason,
        Finding.strength,
        Finding.rule,
        Finding.scope,
        Finding.effect_log,
        Finding.interval_low_log,
        Finding.interval_high_log,
        Finding.superseded_by_id,
    )
    shown = session.execute(select(*columns).where(*where).order_by(Finding.id)).all()
    for row in shown:
        label = format_label(Noun.FINDING, row.id)
        add_node(
            graph,
            label,
            NodeKind.FINDING,
            machines_named(row.claim),
            state=word(row.status),
            strength=row.strength,
            rule=row.rule,
            lever=str(row.scope.get("lever", "")),
        )
        if effects:
            logs = (row.effect_log, row.interval_low_log, row.interval_high_log)
            tell_effect(graph.nodes[label], metric_of(row.scope), logs)
            tell(
                graph.nodes[label],
                status_reason=row.status_reason,
                target=row.scope.get("target"),
                says=row.scope.get(SAYING),
                told_by=str(row.scope.get(TOLD_BY) or "you") if row.rule == Rule.TOLD else None,
            )
        ends = {each["knob"]: ends_of(each) for each in row.scope.get("change") or ()}
        for knob in row.scope.get("knobs", []):
            graph.add_edge(label, knob_node(graph, knob), word(Relation.CHANGES), ends.get(knob, NOTHING))
        if "model" in row.scope:
            model = model_node(graph, row.scope["model"], row.scope.get("model_fingerprint", ""))
            add_edge(graph, label, model, Relation.SCOPED_TO)
        if "target" in row.scope:
            add_edge(graph, label, hardware_node(graph, row.scope["target"]), Relation.SCOPED_TO)
    for row in shown:
        if row.superseded_by_id is not None:
            newer = format_label(Noun.FINDING, row.superseded_by_id)
            joined(graph, newer, format_label(Noun.FINDING, row.id), Relation.SUPERSEDES)
    evidence = (
        select(FindingEvidence.finding_id, FindingEvidence.relation, Verdict.experiment_id)
        .join(Verdict, Verdict.id == FindingEvidence.verdict_id)
        .order_by(FindingEvidence.finding_id, FindingEvidence.verdict_id)
    )
    if where:
        mine = select(Finding.id).where(*where)
        evidence = evidence.where(FindingEvidence.finding_id.in_(mine))
    for link in session.execute(evidence):
        source = format_label(Noun.EXPERIMENT, link.experiment_id)
        target = format_label(Noun.FINDING, link.finding_id)
        joined(graph, source, target, OF_EVIDENCE[link.relation])
    _tie_findings(graph, session, [row.id for row in shown])
    if effects:
        _count_imported(graph, session)


def _count_imported(graph: Sketch, session: Session) -> None:
    """How many verdicts of other databases say the same of a finding, and how many the opposite."""
    query = select(ImportedEvidence.finding_id, ImportedEvidence.relation, func.count()).group_by(
        ImportedEvidence.finding_id, ImportedEvidence.relation
    )
    for number, relation, count in session.execute(query):
        node = graph.nodes.get(format_label(Noun.FINDING, number))
        if node is not None and relation is not EvidenceRelation.INFORMS:
            side = "against" if relation is EvidenceRelation.CONTRADICTS else "for"
            node[f"imported_{side}"] = node.get(f"imported_{side}", 0) + count


def _tie_findings(graph: Sketch, session: Session, findings: Collection[int]) -> None:
    """The finding of another target says something of that of the first; none where nothing was confirmed."""
    if not session.scalar(select(Experiment.id).where(Experiment.kind == ExperimentKind.PROMOTE).limit(1)):
        return
    for number, ties in ties_of_findings(session, findings).items():
        for tie in ties:
            if tie.is_second:
                continue
            joined(graph, tie.id, format_label(Noun.FINDING, number), OF_EVIDENCE[tie.relation])
