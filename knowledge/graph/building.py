"""The graph made from the database, by a fixed number of statements."""

from __future__ import annotations

import json
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from sqlalchemy import ColumnElement, Text, cast, select
from sqlalchemy.orm import Session

from configs.garbage import uncollected
from db.labels import Noun, format_label, parse_label_of
from db.models import (
    Campaign,
    Experiment,
    Finding,
    FindingEvidence,
    Hypothesis,
    HypothesisParent,
    Verdict,
)
from db.states import (
    ExperimentKind,
    VerdictOutcome,
)
from knowledge.figures import DEFAULT_METRIC
from knowledge.graph.of_findings import add_findings
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
from knowledge.graph.sketch import Sketch
from knowledge.graph.typed_graph import Graph, NodeKind, Relation
from knowledge.queries.found.ties import experiment_relations
from knowledge.queries.order.carried import findings_carried
from knowledge.stored import findings_behind, separates_of

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
    """Return the graph of everything in the database, or of one campaign and the findings that its verdicts
    bear on or that it began with."""
    if campaign_id is None:
        with uncollected():
            return sketch_graph(session).graph()
    verdicts = (
        select(FindingEvidence.finding_id)
        .join(Verdict, Verdict.id == FindingEvidence.verdict_id)
        .join(Experiment, Experiment.id == Verdict.experiment_id)
        .where(Experiment.campaign_id == campaign_id)
    )
    began, _ = findings_carried(session, [campaign_id]).get(campaign_id, ((), 0.0))
    carried = [parse_label_of(Noun.FINDING, each) for each in began]
    return _build(
        session,
        Where(
            campaigns=(Campaign.id == campaign_id,),
            hypotheses=(Hypothesis.campaign_id == campaign_id,),
            experiments=(Experiment.campaign_id == campaign_id,),
            findings=(Finding.id.in_(verdicts) | Finding.id.in_(carried),),
        ),
    ).graph()


def sketch_graph(session: Session, *, effects: bool = True) -> Sketch:
    """Return the graph of everything in the database as plain rows; without effects it takes less time."""
    with uncollected():
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
    add_findings(graph, session, where.findings, effects=effects)
    _join_follows(graph, follows)
    _join_carried(graph, session)
    return graph


def _join_carried(graph: Sketch, session: Session) -> None:
    """Edges from the campaigns of the sketch to the findings that they began with."""
    for campaign, (findings, weight) in findings_carried(session).items():
        label = format_label(Noun.CAMPAIGN, campaign)
        if label not in graph.nodes:
            continue
        for finding in findings:
            if graph.has(finding):
                graph.add_edge(label, finding, word(Relation.RESTS_ON), {"weight": round(weight, 3)})


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
        add_node(graph, label, NodeKind.CAMPAIGN, row.name, state=word(row.state))
        tell(graph.nodes[label], baseline=row.baseline_configuration_id)
        if row.best_experiment_id is not None:
            graph.nodes[label]["best"] = format_label(Noun.EXPERIMENT, row.best_experiment_id)
        add_edge(graph, label, model_node(graph, row.model, row.model_fingerprint), Relation.OPTIMIZES)
        add_edge(graph, label, hardware_node(graph, row.target), Relation.RUNS_ON)


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
        Hypothesis.target,
        cast(Hypothesis.change, Text),
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
    # by place: to look up each column by its name takes as long as all the rest
    for number, campaign, claim, state, lever, proposer, confirms, target, change, *more in session.execute(
        select(*columns).where(*where.hypotheses).order_by(Hypothesis.id)
    ):
        label = format_label(Noun.HYPOTHESIS, number)
        add_node(graph, label, NodeKind.HYPOTHESIS, claim, state=word(state), lever=lever, proposer=proposer)
        if told:
            metric, control, candidate, state_reason, rationale = more
            tell(
                graph.nodes[label],
                metric=metric,
                control=control,
                candidate=candidate,
                state_reason=state_reason,
                rationale=rationale,
                target=target or None,
            )
        joined(graph, label, format_label(Noun.CAMPAIGN, campaign), Relation.PART_OF)
        changed = _changes(change)
        for knob, values in changed.knobs:
            graph.add_edge(label, knob_node(graph, knob), word(Relation.CHANGES), values)
        if changed.findings or changed.separates or confirms is not None:
            follows.append((label, changed, confirms))
    parents = select(HypothesisParent.hypothesis_id, HypothesisParent.parent_id).order_by(
        HypothesisParent.hypothesis_id, HypothesisParent.parent_id
    )
    if where.hypotheses:
        mine = select(Hypothesis.id).where(*where.hypotheses)
        parents = parents.where(HypothesisParent.hypothesis_id.in_(mine))
    for child, parent in session.execute(parents):
        source, target = (format_label(Noun.HYPOTHESIS, each) for each in (child, parent))
        joined(graph, source, target, Relation.DERIVED_FROM)
    return follows


def _join_follows(graph: Sketch, follows: Iterable[tuple[str, _Changed, int | None]]) -> None:
    """Edges from hypotheses to the experiments and findings that they came of, once those are there."""
    for label, changed, confirms in follows:
        for finding in changed.findings:
            joined(graph, label, finding, Relation.BUILDS_ON)
        followed = [] if confirms is None else [format_label(Noun.EXPERIMENT, confirms)]
        for experiment in [*changed.separates, *followed]:
            joined(graph, label, experiment, Relation.FOLLOWS_UP)


def _add_experiments(graph: Sketch, session: Session, where: Where, *, effects: bool) -> None:
    columns = (
        Experiment.id,
        Experiment.kind,
        Experiment.state,
        Experiment.campaign_id,
        Experiment.hypothesis_id,
        Experiment.reproduces_experiment_id,
        Verdict.outcome,
        *(
            (
                Verdict.judge["details"]["metric"].as_string(),
                Verdict.effect_log,
                Verdict.interval_low_log,
                Verdict.interval_high_log,
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
    for number, kind, state, campaign, hypothesis, original, outcome, *more in session.execute(
        query.where(*where.experiments).order_by(Experiment.id)
    ):
        label = format_label(Noun.EXPERIMENT, number)
        add_node(graph, label, NodeKind.EXPERIMENT, f"{kind} {label}", state=word(state))
        if effects:
            metric, effect, low, high, target, candidate, failure, reason, launches, samples = more
            tell(
                graph.nodes[label],
                purpose=word(kind),
                target=target,
                candidate=candidate,
                failure=failure,
                reason=reason,
                launches=launches,
                samples=samples,
            )
        if outcome is not None:
            graph.nodes[label]["outcome"] = word(outcome)
            if effects:
                tell_effect(graph.nodes[label], metric or DEFAULT_METRIC, (effect, low, high))
        if hypothesis is None:
            joined(graph, label, format_label(Noun.CAMPAIGN, campaign), Relation.PART_OF)
        else:
            tested = format_label(Noun.HYPOTHESIS, hypothesis)
            joined(graph, label, tested, Relation.TESTS)
            if outcome in _OF_OUTCOME:
                joined(graph, label, tested, _OF_OUTCOME[outcome])
        if kind is ExperimentKind.REPRODUCE and original is not None:
            joined(graph, label, format_label(Noun.EXPERIMENT, original), Relation.REPRODUCES)
        if kind is ExperimentKind.PROMOTE and original is not None:
            elsewhere[number] = format_label(Noun.EXPERIMENT, original)
    for number, tie in (experiment_relations(session, elsewhere) if elsewhere else {}).items():
        if tie.relation is not None:
            source = format_label(Noun.EXPERIMENT, number)
            joined(graph, source, elsewhere[number], OF_EVIDENCE[tie.relation])


@lru_cache(maxsize=MOST_CHANGES)
def _changes(change: str) -> _Changed:
    """What a stored change says; of the text as it is stored, since reading it takes longer than all else of
    a hypothesis and most are read again and again."""
    read = json.loads(change)
    separates = separates_of(read)
    return _Changed(
        tuple((each["knob"], ends_of(each)) for each in read.get("changes", [])),
        findings_behind(read),
        () if separates is None else (separates,),
    )
