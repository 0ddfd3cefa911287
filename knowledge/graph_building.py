"""The graph made from the database, by a fixed number of statements."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session, aliased

from db.labels import Noun, format_label
from db.models import (
    Campaign,
    Configuration,
    Experiment,
    Finding,
    FindingEvidence,
    Hypothesis,
    HypothesisParent,
    Verdict,
)
from db.states import ExperimentKind, VerdictOutcome
from knowledge.figures import in_scale
from knowledge.graph import Graph, NodeKind, Relation
from knowledge.queries.view import changes_between
from knowledge.stored import metric_of, verdict_metric

_OF_OUTCOME = {VerdictOutcome.SUPPORTED: Relation.SUPPORTS, VerdictOutcome.REFUTED: Relation.REFUTES}


def build_graph(session: Session, campaign_id: int | None = None) -> Graph:
    """Return the graph of everything in the database, or of one campaign and the findings its verdicts bear
    on."""
    graph = Graph()
    _add_campaigns(graph, session, campaign_id)
    _add_hypotheses(graph, session, campaign_id)
    _add_experiments(graph, session, campaign_id)
    _add_findings(graph, session, campaign_id)
    return graph


def _add_campaigns(graph: Graph, session: Session, campaign_id: int | None) -> None:
    query = select(Campaign).order_by(Campaign.id)
    if campaign_id is not None:
        query = query.where(Campaign.id == campaign_id)
    for campaign in session.scalars(query):
        label = format_label(Noun.CAMPAIGN, campaign.id)
        _node(graph, label, NodeKind.CAMPAIGN, campaign.name, state=campaign.state.value)
        _edge(graph, label, _model(graph, campaign.model, campaign.model_fingerprint), Relation.OPTIMIZES)
        _edge(graph, label, _hardware(graph, campaign.target), Relation.RUNS_ON)


def _add_hypotheses(graph: Graph, session: Session, campaign_id: int | None) -> None:
    control, candidate = aliased(Configuration), aliased(Configuration)
    query = (
        select(Hypothesis, control.knobs, candidate.knobs)
        .join(control, control.id == Hypothesis.control_configuration_id)
        .join(candidate, candidate.id == Hypothesis.candidate_configuration_id)
        .order_by(Hypothesis.id)
    )
    parents = select(HypothesisParent.hypothesis_id, HypothesisParent.parent_id).order_by(
        HypothesisParent.hypothesis_id, HypothesisParent.parent_id
    )
    if campaign_id is not None:
        query = query.where(Hypothesis.campaign_id == campaign_id)
        mine = select(Hypothesis.id).where(Hypothesis.campaign_id == campaign_id)
        parents = parents.where(
            HypothesisParent.hypothesis_id.in_(mine), HypothesisParent.parent_id.in_(mine)
        )
    for hypothesis, before, after in session.execute(query):
        label = format_label(Noun.HYPOTHESIS, hypothesis.id)
        _node(
            graph,
            label,
            NodeKind.HYPOTHESIS,
            hypothesis.claim,
            state=hypothesis.state.value,
            lever=hypothesis.lever,
            proposer=hypothesis.proposer,
        )
        _edge(graph, label, format_label(Noun.CAMPAIGN, hypothesis.campaign_id), Relation.PART_OF)
        for change in changes_between(before, after):
            knob = _knob(graph, change.knob)
            _edge(
                graph, label, knob, Relation.CHANGES, before=_text(change.before), after=_text(change.after)
            )
    for child, parent in session.execute(parents):
        _edge(
            graph,
            format_label(Noun.HYPOTHESIS, child),
            format_label(Noun.HYPOTHESIS, parent),
            Relation.DERIVED_FROM,
        )


def _add_experiments(graph: Graph, session: Session, campaign_id: int | None) -> None:
    query = (
        select(Experiment, Verdict)
        .outerjoin(Verdict, Verdict.experiment_id == Experiment.id)
        .order_by(Experiment.id)
    )
    if campaign_id is not None:
        query = query.where(Experiment.campaign_id == campaign_id)
    for experiment, verdict in session.execute(query):
        label = format_label(Noun.EXPERIMENT, experiment.id)
        _node(
            graph,
            label,
            NodeKind.EXPERIMENT,
            f"{experiment.kind.value} {label}",
            state=experiment.state.value,
        )
        if verdict is not None:
            graph.nodes[label]["outcome"] = verdict.outcome.value
            _effect(
                graph.nodes[label],
                verdict_metric(verdict),
                (verdict.effect_log, verdict.interval_low_log, verdict.interval_high_log),
            )
        if experiment.hypothesis_id is None:
            _edge(graph, label, format_label(Noun.CAMPAIGN, experiment.campaign_id), Relation.PART_OF)
        else:
            hypothesis = format_label(Noun.HYPOTHESIS, experiment.hypothesis_id)
            _edge(graph, label, hypothesis, Relation.TESTS)
            if verdict is not None and verdict.outcome in _OF_OUTCOME:
                _edge(graph, label, hypothesis, _OF_OUTCOME[verdict.outcome])
        original = experiment.reproduces_experiment_id
        if experiment.kind is ExperimentKind.REPRODUCE and original is not None:
            _edge(graph, label, format_label(Noun.EXPERIMENT, original), Relation.REPLICATES)


def _add_findings(graph: Graph, session: Session, campaign_id: int | None) -> None:
    findings = select(Finding).order_by(Finding.id)
    evidence = (
        select(FindingEvidence.finding_id, FindingEvidence.relation, Verdict.experiment_id)
        .join(Verdict, Verdict.id == FindingEvidence.verdict_id)
        .order_by(FindingEvidence.finding_id, FindingEvidence.verdict_id)
    )
    if campaign_id is not None:
        evidence = evidence.join(Experiment, Experiment.id == Verdict.experiment_id).where(
            Experiment.campaign_id == campaign_id
        )
    links = session.execute(evidence).all()
    wanted = None if campaign_id is None else {link.finding_id for link in links}
    shown = [each for each in session.scalars(findings) if wanted is None or each.id in wanted]
    present = {finding.id for finding in shown}
    for finding in shown:
        label = format_label(Noun.FINDING, finding.id)
        _node(
            graph,
            label,
            NodeKind.FINDING,
            finding.claim,
            state=finding.status.value,
            strength=finding.strength,
            rule=finding.rule,
        )
        _effect(
            graph.nodes[label],
            metric_of(finding.scope),
            (finding.effect_log, finding.interval_low_log, finding.interval_high_log),
        )
        for knob in finding.scope.get("knobs", []):
            _edge(graph, label, _knob(graph, knob), Relation.CHANGES)
        if "model" in finding.scope:
            model = _model(graph, finding.scope["model"], finding.scope.get("model_fingerprint", ""))
            _edge(graph, label, model, Relation.SCOPED_TO)
        if "target" in finding.scope:
            _edge(graph, label, _hardware(graph, finding.scope["target"]), Relation.SCOPED_TO)
    for finding in shown:
        newer = finding.superseded_by_id
        if newer is not None and newer in present:
            _edge(
                graph,
                format_label(Noun.FINDING, newer),
                format_label(Noun.FINDING, finding.id),
                Relation.SUPERSEDES,
            )
    for link in links:
        source, target = (
            format_label(Noun.EXPERIMENT, link.experiment_id),
            format_label(Noun.FINDING, link.finding_id),
        )
        _edge(graph, source, target, Relation(link.relation.value))


def _node(graph: Graph, name: str, kind: NodeKind, title: str, **attributes: str) -> str:
    graph.add_node(name, kind=kind.value, title=title, **attributes)
    return name


def _edge(graph: Graph, source: str, target: str, relation: Relation, **attributes: str) -> None:
    graph.add_edge(source, target, key=relation.value, relation=relation.value, **attributes)


def _model(graph: Graph, model: str, fingerprint: str) -> str:
    name = f"model:{model}@{fingerprint[:12]}" if fingerprint else f"model:{model}"
    return _node(graph, name, NodeKind.MODEL, model, fingerprint=fingerprint)


def _hardware(graph: Graph, target: str) -> str:
    return _node(graph, f"hardware:{target}", NodeKind.HARDWARE, target)


def _knob(graph: Graph, knob: str) -> str:
    return _node(graph, f"knob:{knob}", NodeKind.KNOB, knob)


def _effect(attributes: dict[str, Any], metric: str, values: tuple[float | None, ...]) -> None:
    """Write an effect and its interval, with the metric that they are on."""
    if values[0] is not None:
        attributes["metric"] = metric
    for name, value in zip(("effect", "effect_low", "effect_high"), values, strict=True):
        if value is not None:
            attributes[name] = in_scale(value, metric)


def _text(value: object) -> str:
    return "" if value is None else str(value)
