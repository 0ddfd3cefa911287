"""The graph made from the database, by a fixed number of statements."""

from __future__ import annotations

import json
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, Text, cast, func, null, select
from sqlalchemy.orm import Session

from db.labels import Noun, format_label
from db.models import (
    Campaign,
    Experiment,
    Finding,
    FindingEvidence,
    Hypothesis,
    HypothesisParent,
    ImportedEvidence,
    Verdict,
)
from db.states import (
    EvidenceRelation,
    ExperimentKind,
    VerdictOutcome,
)
from knowledge.figures import DEFAULT_METRIC, in_scale
from knowledge.graph import Graph, NodeKind, Relation
from knowledge.graph_sketch import NOTHING, Sketch
from knowledge.queries.ties import experiment_relations, ties_of_findings
from knowledge.stored import findings_behind, metric_of, separates_of

_OF_EVIDENCE = {each: Relation(each.value) for each in EvidenceRelation}
MOST_CHANGES = 8192
"""Changes of hypotheses that are kept as read: those of a long history, a few MB."""

_OF_OUTCOME = {VerdictOutcome.SUPPORTED: Relation.SUPPORTS, VerdictOutcome.REFUTED: Relation.REFUTES}


@dataclass(frozen=True)
class Part:
    """Ids of the rows that a part of the graph is made from."""

    campaigns: Collection[int]
    hypotheses: Collection[int]
    experiments: Collection[int]
    findings: Collection[int]


def build_graph(session: Session, campaign_id: int | None = None) -> Graph:
    """Return the graph of everything in the database, or of one campaign and the findings its verdicts bear
    on."""
    if campaign_id is None:
        return sketch_graph(session).graph()
    verdicts = (
        select(FindingEvidence.finding_id)
        .join(Verdict, Verdict.id == FindingEvidence.verdict_id)
        .join(Experiment, Experiment.id == Verdict.experiment_id)
        .where(Experiment.campaign_id == campaign_id)
    )
    return _build(
        session,
        Where(
            campaigns=(Campaign.id == campaign_id,),
            hypotheses=(Hypothesis.campaign_id == campaign_id,),
            experiments=(Experiment.campaign_id == campaign_id,),
            findings=(Finding.id.in_(verdicts),),
        ),
    ).graph()


def sketch_graph(session: Session, *, effects: bool = True) -> Sketch:
    """Return the graph of everything in the database as plain rows; without effects it takes less time."""
    return _build(session, Where(), effects=effects)


def build_part(session: Session, part: Part) -> Graph:
    """Return the graph of these rows alone, with the knobs, models and hardware that they name."""
    return _build(session, _where(part)).graph()


@dataclass(frozen=True, slots=True)
class _Changed:
    """What a hypothesis changes, each knob with its values before and after; the findings that it builds on
    and the confounded experiment that it separates."""

    knobs: tuple[tuple[str, Mapping[str, str]], ...]
    findings: tuple[str, ...]
    separates: tuple[str, ...]


@dataclass(frozen=True)
class Where:
    """What rows of each table must meet; nothing takes all."""

    campaigns: tuple[ColumnElement[bool], ...] = ()
    hypotheses: tuple[ColumnElement[bool], ...] = ()
    experiments: tuple[ColumnElement[bool], ...] = ()
    findings: tuple[ColumnElement[bool], ...] = ()


def build_around(session: Session, part: Part, known: Container[str]) -> Sketch:
    """Return the rows of this part as they are now, with their edges to each other and to what is `known`."""
    return _build(session, _where(part), known=known)


def _where(part: Part) -> Where:
    return Where(
        campaigns=(Campaign.id.in_(part.campaigns),),
        hypotheses=(Hypothesis.id.in_(part.hypotheses),),
        experiments=(Experiment.id.in_(part.experiments),),
        findings=(Finding.id.in_(part.findings),),
    )


def _build(
    session: Session, where: Where, *, effects: bool = True, known: Container[str] = frozenset()
) -> Sketch:
    graph = Sketch(known=known)
    _add_campaigns(graph, session, where)
    follows = _add_hypotheses(graph, session, where, told=effects)
    _add_experiments(graph, session, where, effects=effects)
    _add_findings(graph, session, where, effects=effects)
    _join_follows(graph, follows)
    return graph


def _add_campaigns(graph: Sketch, session: Session, where: Where) -> None:
    columns = (
        Campaign.id,
        Campaign.name,
        Campaign.state,
        Campaign.model,
        Campaign.model_fingerprint,
        Campaign.target,
        Campaign.baseline_configuration_id,
        Campaign.best_experiment_id,
    )
    for row in session.execute(select(*columns).where(*where.campaigns).order_by(Campaign.id)):
        label = format_label(Noun.CAMPAIGN, row.id)
        _node(graph, label, NodeKind.CAMPAIGN, row.name, state=_word(row.state))
        _told(graph.nodes[label], baseline=row.baseline_configuration_id)
        if row.best_experiment_id is not None:
            graph.nodes[label]["best"] = format_label(Noun.EXPERIMENT, row.best_experiment_id)
        _edge(graph, label, _model(graph, row.model, row.model_fingerprint), Relation.OPTIMIZES)
        _edge(graph, label, _hardware(graph, row.target), Relation.RUNS_ON)


def _add_hypotheses(
    graph: Sketch, session: Session, where: Where, *, told: bool
) -> list[tuple[str, _Changed, int | None]]:
    """Returns what is to be joined once experiments and findings are there."""
    columns = (
        Hypothesis.id,
        Hypothesis.campaign_id,
        Hypothesis.claim,
        Hypothesis.state,
        Hypothesis.lever,
        Hypothesis.proposer,
        Hypothesis.confirms_experiment_id,
        cast(Hypothesis.change, Text).label("change"),
        *(
            (
                Hypothesis.metric,
                Hypothesis.control_configuration_id,
                Hypothesis.candidate_configuration_id,
                Hypothesis.state_reason,
                Hypothesis.rationale,
            )
            if told
            else ()
        ),
    )
    follows = []
    for row in session.execute(select(*columns).where(*where.hypotheses).order_by(Hypothesis.id)):
        label = format_label(Noun.HYPOTHESIS, row.id)
        _node(
            graph,
            label,
            NodeKind.HYPOTHESIS,
            row.claim,
            state=_word(row.state),
            lever=row.lever,
            proposer=row.proposer,
        )
        if told:
            _told(
                graph.nodes[label],
                metric=row.metric,
                control=row.control_configuration_id,
                candidate=row.candidate_configuration_id,
                state_reason=row.state_reason,
                rationale=row.rationale,
            )
        _joined(graph, label, format_label(Noun.CAMPAIGN, row.campaign_id), Relation.PART_OF)
        changed = _changes(row.change)
        for knob, values in changed.knobs:
            graph.add_edge(label, _knob(graph, knob), _word(Relation.CHANGES), values)
        if changed.findings or changed.separates or row.confirms_experiment_id is not None:
            follows.append((label, changed, row.confirms_experiment_id))
    parents = select(HypothesisParent.hypothesis_id, HypothesisParent.parent_id).order_by(
        HypothesisParent.hypothesis_id, HypothesisParent.parent_id
    )
    if where.hypotheses:
        mine = select(Hypothesis.id).where(*where.hypotheses)
        parents = parents.where(HypothesisParent.hypothesis_id.in_(mine))
    for child, parent in session.execute(parents):
        source, target = (format_label(Noun.HYPOTHESIS, each) for each in (child, parent))
        _joined(graph, source, target, Relation.DERIVED_FROM)
    return follows


def _join_follows(graph: Sketch, follows: Iterable[tuple[str, _Changed, int | None]]) -> None:
    """Edges from hypotheses to the experiments and findings that they came of, once those are there."""
    for label, changed, confirms in follows:
        for finding in changed.findings:
            _joined(graph, label, finding, Relation.BUILDS_ON)
        followed = [] if confirms is None else [format_label(Noun.EXPERIMENT, confirms)]
        for experiment in [*changed.separates, *followed]:
            _joined(graph, label, experiment, Relation.FOLLOWS_UP)


def _add_experiments(graph: Sketch, session: Session, where: Where, *, effects: bool) -> None:
    columns = (
        Experiment.id,
        Experiment.kind,
        Experiment.state,
        Experiment.campaign_id,
        Experiment.hypothesis_id,
        Experiment.reproduces_experiment_id,
        Verdict.outcome,
        Verdict.effect_log,
        Verdict.interval_low_log,
        Verdict.interval_high_log,
        (Verdict.judge["details"]["metric"].as_string() if effects else null()).label("metric"),
        *(
            (
                Experiment.target,
                Experiment.candidate_configuration_id,
                Experiment.failure,
                Verdict.reason,
                Verdict.launches,
                Verdict.samples,
            )
            if effects
            else ()
        ),
    )
    query = select(*columns).outerjoin(Verdict, Verdict.experiment_id == Experiment.id)
    elsewhere: dict[int, str] = {}
    for row in session.execute(query.where(*where.experiments).order_by(Experiment.id)):
        label = format_label(Noun.EXPERIMENT, row.id)
        _node(graph, label, NodeKind.EXPERIMENT, f"{row.kind} {label}", state=_word(row.state))
        if effects:
            _told(
                graph.nodes[label],
                purpose=_word(row.kind),
                target=row.target,
                candidate=row.candidate_configuration_id,
                failure=row.failure,
                reason=row.reason,
                launches=row.launches,
                samples=row.samples,
            )
        if row.outcome is not None:
            graph.nodes[label]["outcome"] = _word(row.outcome)
            if effects:
                logs = (row.effect_log, row.interval_low_log, row.interval_high_log)
                _effect(graph.nodes[label], row.metric or DEFAULT_METRIC, logs)
        if row.hypothesis_id is None:
            _joined(graph, label, format_label(Noun.CAMPAIGN, row.campaign_id), Relation.PART_OF)
        else:
            hypothesis = format_label(Noun.HYPOTHESIS, row.hypothesis_id)
            _joined(graph, label, hypothesis, Relation.TESTS)
            if row.outcome in _OF_OUTCOME:
                _joined(graph, label, hypothesis, _OF_OUTCOME[row.outcome])
        original = row.reproduces_experiment_id
        if row.kind is ExperimentKind.REPRODUCE and original is not None:
            _joined(graph, label, format_label(Noun.EXPERIMENT, original), Relation.REPLICATES)
        if row.kind is ExperimentKind.PROMOTE and original is not None:
            elsewhere[row.id] = format_label(Noun.EXPERIMENT, original)
    for number, tie in (experiment_relations(session, elsewhere) if elsewhere else {}).items():
        if tie.relation is not None:
            source = format_label(Noun.EXPERIMENT, number)
            _joined(graph, source, elsewhere[number], _OF_EVIDENCE[tie.relation])


def _add_findings(graph: Sketch, session: Session, where: Where, *, effects: bool) -> None:
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
    shown = session.execute(select(*columns).where(*where.findings).order_by(Finding.id)).all()
    for row in shown:
        label = format_label(Noun.FINDING, row.id)
        _node(
            graph,
            label,
            NodeKind.FINDING,
            row.claim,
            state=_word(row.status),
            strength=row.strength,
            rule=row.rule,
            lever=str(row.scope.get("lever", "")),
        )
        if effects:
            logs = (row.effect_log, row.interval_low_log, row.interval_high_log)
            _effect(graph.nodes[label], metric_of(row.scope), logs)
            _told(graph.nodes[label], status_reason=row.status_reason, target=row.scope.get("target"))
        ends = {each["knob"]: _ends(each) for each in row.scope.get("change") or ()}
        for knob in row.scope.get("knobs", []):
            graph.add_edge(label, _knob(graph, knob), _word(Relation.CHANGES), ends.get(knob, NOTHING))
        if "model" in row.scope:
            model = _model(graph, row.scope["model"], row.scope.get("model_fingerprint", ""))
            _edge(graph, label, model, Relation.SCOPED_TO)
        if "target" in row.scope:
            _edge(graph, label, _hardware(graph, row.scope["target"]), Relation.SCOPED_TO)
    for row in shown:
        if row.superseded_by_id is not None:
            newer = format_label(Noun.FINDING, row.superseded_by_id)
            _joined(graph, newer, format_label(Noun.FINDING, row.id), Relation.SUPERSEDES)
    evidence = (
        select(FindingEvidence.finding_id, FindingEvidence.relation, Verdict.experiment_id)
        .join(Verdict, Verdict.id == FindingEvidence.verdict_id)
        .order_by(FindingEvidence.finding_id, FindingEvidence.verdict_id)
    )
    if where.findings:
        mine = select(Finding.id).where(*where.findings)
        evidence = evidence.where(FindingEvidence.finding_id.in_(mine))
    for link in session.execute(evidence):
        source = format_label(Noun.EXPERIMENT, link.experiment_id)
        target = format_label(Noun.FINDING, link.finding_id)
        _joined(graph, source, target, _OF_EVIDENCE[link.relation])
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
            _joined(graph, tie.id, format_label(Noun.FINDING, number), _OF_EVIDENCE[tie.relation])


@lru_cache(maxsize=MOST_CHANGES)
def _changes(change: str) -> _Changed:
    """What a stored change says; of the text as it is stored, since reading it takes longer than all else of
    a hypothesis and most are read again and again."""
    read = json.loads(change)
    separates = separates_of(read)
    return _Changed(
        tuple((each["knob"], _ends(each)) for each in read.get("changes", [])),
        findings_behind(read),
        () if separates is None else (separates,),
    )


def _ends(change: Mapping[str, object]) -> dict[str, str]:
    """The values of a knob before and after."""
    return {end: _text(change.get(end)) for end in ("before", "after")}


def _joined(graph: Sketch, source: str, target: str, relation: Relation) -> None:
    """Add an edge where both of its ends are in the graph."""
    if graph.has(source) and graph.has(target):
        graph.add_edge(source, target, _word(relation))


def _node(graph: Sketch, name: str, kind: NodeKind, title: str, **attributes: str) -> str:
    graph.add_node(name, _word(kind), title, **attributes)
    return name


def _edge(graph: Sketch, source: str, target: str, relation: Relation) -> None:
    graph.add_edge(source, target, _word(relation))


def model_name(model: str, fingerprint: str) -> str:
    """Return the name of a model's node."""
    return f"model:{model}@{fingerprint[:12]}" if fingerprint else f"model:{model}"


def _model(graph: Sketch, model: str, fingerprint: str) -> str:
    name = model_name(model, fingerprint)
    if name in graph.nodes:
        return name
    return _node(graph, name, NodeKind.MODEL, model, fingerprint=fingerprint)


def _hardware(graph: Sketch, target: str) -> str:
    name = f"hardware:{target}"
    return name if name in graph.nodes else _node(graph, name, NodeKind.HARDWARE, target)


def _knob(graph: Sketch, knob: str) -> str:
    name = f"knob:{knob}"
    return name if name in graph.nodes else _node(graph, name, NodeKind.KNOB, knob)


def _told(attributes: dict[str, Any], **values: str | int | None) -> None:
    """Write what is known of a node; GraphML has no word for what is not."""
    attributes.update({name: value for name, value in values.items() if value is not None})


def _effect(attributes: dict[str, Any], metric: str, values: tuple[float | None, ...]) -> None:
    """Write an effect and its interval, with the metric that they are on."""
    if values[0] is not None:
        attributes["metric"] = metric
    for name, value in zip(("effect", "effect_low", "effect_high"), values, strict=True):
        if value is not None:
            attributes[name] = in_scale(value, metric)


def _word(member: StrEnum) -> str:
    """The value as a plain text; not by `value`, which is a property in Python and slow."""
    word: str = member._value_
    return word


def _text(value: object) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
