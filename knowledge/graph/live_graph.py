"""The graph of the whole database, kept as it is now.

An event tells that something was written, and then only the rows that changed since are read again.

What changed is found by small marks, not by what an event says of itself: rows with a new id, those whose
state is another (of what can still change), verdicts since, and the few columns that tell a campaign or a
finding apart from what it was. A row that changed takes its edges anew. Each edge belongs to one of its ends:
those to a finding from its evidence, and from one that supersedes it, to the finding, all others to their
source.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Executable, func, select
from sqlalchemy.orm import Session
from sqlalchemy.sql import Select

from db import events
from db.event_kinds import EventKind
from db.labels import Noun, format_label, parse_label
from db.models import (
    Campaign,
    Event,
    Experiment,
    Finding,
    FindingEvidence,
    Hypothesis,
    ImportedEvidence,
    Verdict,
)
from db.states import ExperimentState, HypothesisState
from knowledge.graph.building import Part, build_around, build_graph
from knowledge.graph.sketch import Sketch
from knowledge.graph.typed_graph import Graph, NodeKind, Relation, new_graph

OPEN_HYPOTHESES = (HypothesisState.PROPOSED, HypothesisState.QUEUED, HypothesisState.TESTING)
OPEN_EXPERIMENTS = (ExperimentState.PLANNED, ExperimentState.RUNNING)
"""States that a row leaves without a verdict of its own to tell of it."""

_NAMED = frozenset({NodeKind.KNOB.value, NodeKind.MODEL.value, NodeKind.HARDWARE.value})
"""Kinds that are there because something names them."""

Marks = dict[int, tuple[object, ...]]
"""By id, what tells that a row is not what it was."""


@dataclass
class LiveGraph:
    """The graph as of the last `refresh`; `event_id` is the last event that it knows of. Not for threads."""

    graph: Graph = field(default_factory=new_graph)
    event_id: int = -1
    _last: dict[type[object], int] = field(default_factory=dict)
    _hypotheses: Marks = field(default_factory=dict)
    _experiments: Marks = field(default_factory=dict)
    _campaigns: Marks = field(default_factory=dict)
    _findings: Marks = field(default_factory=dict)

    def refresh(self, session: Session) -> bool:
        """Take in what was written since; whether anything of the graph was. Built whole the first time, and
        where the log is shorter than it was, for then it is another database."""
        newest = events.last_id(session)
        if newest == self.event_id:
            return False
        if self.event_id < 0 or newest < self.event_id:
            self.graph = build_graph(session)
            self._look(session)
            self.event_id = newest
            return True
        changed = self._take_in(session)
        self.event_id = newest
        return changed

    def _take_in(self, session: Session) -> bool:
        named = _named_by_events(session, self.event_id)
        campaigns, hypotheses, experiments, findings = self._look(session)
        campaigns |= _carried_since(session, self.event_id)
        hypotheses |= named.get(Noun.HYPOTHESIS, set())
        experiments |= named.get(Noun.EXPERIMENT, set())
        part = _with_what_hangs_on(session, campaigns, hypotheses, experiments, findings)
        if not any((part.campaigns, part.hypotheses, part.experiments, part.findings)):
            return False
        self._replace(part, build_around(session, part, self.graph))
        return True

    def _look(self, session: Session) -> tuple[set[int], set[int], set[int], set[int]]:
        """Ids of the rows that are new or not what they were, and remember how they are now."""
        hypotheses = _marked(
            self._hypotheses,
            _marks(
                session,
                select(Hypothesis.id, Hypothesis.state, Hypothesis.state_changed_at).where(
                    Hypothesis.state.in_(OPEN_HYPOTHESES)
                ),
            ),
        ) | self._new(session, Hypothesis)
        experiments = _marked(
            self._experiments,
            _marks(
                session, select(Experiment.id, Experiment.state).where(Experiment.state.in_(OPEN_EXPERIMENTS))
            ),
        ) | self._new(session, Experiment)
        judged = self._new(session, Verdict)
        query = select(Verdict.experiment_id).where(Verdict.id.in_(judged))
        experiments |= set(session.scalars(query)) if judged else set()
        campaigns = _marked(
            self._campaigns,
            _marks(
                session,
                select(
                    Campaign.id,
                    Campaign.name,
                    Campaign.state,
                    Campaign.baseline_configuration_id,
                    Campaign.best_experiment_id,
                ),
            ),
        )
        imported = select(func.count()).where(ImportedEvidence.finding_id == Finding.id).scalar_subquery()
        findings = _marked(
            self._findings,
            _marks(
                session,
                select(
                    Finding.id,
                    Finding.status,
                    Finding.strength,
                    Finding.superseded_by_id,
                    Finding.updated_at,
                    imported,
                ),
            ),
        )
        return campaigns, hypotheses, experiments, findings

    def _new(self, session: Session, table: type[Hypothesis] | type[Experiment] | type[Verdict]) -> set[int]:
        known = self._last.get(table, 0)
        found = set(session.scalars(select(table.id).where(table.id > known)))
        self._last[table] = max(found, default=known)
        return found

    def _replace(self, part: Part, sketch: Sketch) -> None:
        graph = self.graph
        for noun, numbers in _by_noun(part):
            for label in (format_label(noun, number) for number in numbers):
                if label in graph:
                    graph.remove_edges_from(_edges_of(graph, label))
        for name, attributes in sketch.nodes.items():
            if name in graph and attributes["kind"] not in _NAMED:
                graph.nodes[name].clear()
            graph.add_node(name, **attributes)
        for (source, target, relation), told in sketch.edges.items():
            graph.add_edge(source, target, relation, relation=relation, **told)
        bare = [node for node, kind in graph.nodes(data="kind") if kind in _NAMED and not graph.degree(node)]
        graph.remove_nodes_from(bare)


def _edges_of(graph: Graph, label: str) -> list[tuple[str, str, str]]:
    """The edges that belong to a node: see the top of this file."""
    owned = [edge for edge in graph.out_edges(label, keys=True) if not _belongs_to_target(graph, edge)]
    return owned + [edge for edge in graph.in_edges(label, keys=True) if _belongs_to_target(graph, edge)]


def _belongs_to_target(graph: Graph, edge: tuple[str, str, str]) -> bool:
    found = graph.nodes[edge[1]]["kind"] == NodeKind.FINDING
    return found and edge[2] not in (Relation.BUILDS_ON.value, Relation.RESTS_ON.value)


def _marks(session: Session, query: Executable) -> Marks:
    return {row[0]: tuple(row[1:]) for row in session.execute(query)}


def _marked(known: Marks, now: Marks) -> set[int]:
    """Ids whose marks differ; `known` is brought up to what is now."""
    changed = {number for number in known.keys() | now.keys() if known.get(number) != now.get(number)}
    known.clear()
    known.update(now)
    return changed


def _named_by_events(session: Session, after_id: int) -> dict[Noun, set[int]]:
    """What the events since are about: a verdict that changed, a hypothesis that was brought back."""
    found: dict[Noun, set[int]] = {}
    # What is said twice is left out here: to leave it out itself, a database goes through all subjects.
    query = select(Event.subject).where(Event.id > after_id, Event.subject.is_not(None))
    for subject in set(session.scalars(query)):
        if subject and subject[:2] in ("H-", "E-"):
            noun, number = parse_label(subject)
            found.setdefault(noun, set()).add(number)
    return found


def _carried_since(session: Session, after_id: int) -> set[int]:
    """The campaigns that told since what they began with of others."""
    query = select(Event.campaign_id).where(
        Event.id > after_id, Event.kind == EventKind.CAMPAIGN_CARRIED.value, Event.campaign_id.is_not(None)
    )
    return {number for number in session.scalars(query.distinct()) if number is not None}


def _with_what_hangs_on(
    session: Session,
    campaigns: set[int],
    hypotheses: set[int],
    experiments: set[int],
    findings: set[int],
) -> Part:
    """These rows and those that say something else because of them: the hypothesis of a verdict, what ties
    two targets, the findings of a verdict."""

    def ids(query: Select[Any]) -> set[int]:
        return {number for number in session.scalars(query) if number is not None}

    if experiments:
        tied = select(Experiment.id).where(Experiment.reproduces_experiment_id.in_(experiments))
        first = select(Experiment.reproduces_experiment_id).where(Experiment.id.in_(experiments))
        experiments = experiments | ids(tied) | ids(first)
        hypotheses = hypotheses | ids(select(Experiment.hypothesis_id).where(Experiment.id.in_(experiments)))
        said = select(FindingEvidence.finding_id).join(Verdict, Verdict.id == FindingEvidence.verdict_id)
        findings = findings | ids(said.where(Verdict.experiment_id.in_(experiments)))
    if findings:
        older = select(Finding.id).where(Finding.superseded_by_id.in_(findings))
        newer = select(Finding.superseded_by_id).where(Finding.id.in_(findings))
        findings = findings | ids(older) | ids(newer)
    return Part(campaigns, hypotheses, experiments, findings)


def _by_noun(part: Part) -> list[tuple[Noun, Iterable[int]]]:
    return [
        (Noun.CAMPAIGN, part.campaigns),
        (Noun.HYPOTHESIS, part.hypotheses),
        (Noun.EXPERIMENT, part.experiments),
        (Noun.FINDING, part.findings),
    ]
