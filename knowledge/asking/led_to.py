"""What led to a hypothesis, an experiment or a finding: its ancestors, up to where they begin. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from knowledge.asking.answer import Answer, Question, Row, Section, author_of, named, row_of, section
from knowledge.asking.walking import (
    AGREEING,
    campaign_of_node,
    hypothesis_of,
    into,
    number_of,
    origins,
    starts_at_baseline,
    to,
)
from knowledge.figures import counted, listed
from knowledge.graph.typed_graph import Graph, NodeKind, Relation
from knowledge.proposers import proposer_words

MOST_GENERATIONS = 12
"""Steps back that are followed."""

MOST_ANCESTORS = 80
"""Rows of the tree; a long chain is cut at its far end."""


def led_to(graph: Graph, subject: str, more: Sequence[Section] = (), imported: Sequence[Row] = ()) -> Answer:
    """Return what led to a node of the graph; `more` are sections on what the graph does not hold: places in
    the queue, the profile; `imported` are verdicts of another database behind a finding."""
    climbed = _Climb(graph)
    rows = climbed.above(subject, 0)
    people = list(dict.fromkeys(climbed.proposers))
    return Answer(
        question=Question.LED_TO,
        asked=f"What led to {named(graph, subject)}?",
        sentence=_sentence(graph, subject, climbed, people, len(imported)),
        sections=(
            section(
                "Where it comes from",
                (*rows, *imported),
                "Nothing here led to it: it stands at the beginning.",
                "what stands below a row, further in, led to it",
                most=MOST_ANCESTORS,
            ),
            *_why(graph, subject),
            *more,
        ),
    )


def _why(graph: Graph, subject: str) -> tuple[Section, ...]:
    """Why a hypothesis was proposed, in its proposer's words; nothing of what is none."""
    rationale = graph.nodes[subject].get("rationale")
    if graph.nodes[subject]["kind"] != NodeKind.HYPOTHESIS or not rationale:
        return ()
    return (section("Why it was proposed", (Row(text=str(rationale)),), ""),)


_KINDS: Mapping[str, tuple[str, str]] = {
    NodeKind.FINDING: ("finding", "findings"),
    NodeKind.HYPOTHESIS: ("hypothesis", "hypotheses"),
    NodeKind.EXPERIMENT: ("experiment", "experiments"),
}
"""Kinds of things that lead to one another, in words: one, and several."""


class _Climb:
    """A walk to the ancestors that tells each once."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.origin = origins(graph)
        self.seen: set[str] = set()
        self.proposers: list[str] = []
        self.generations = 0
        self.baselines: dict[str | None, str | None] = {}

    def above(self, node: str, generation: int, proposed: str | None = None) -> list[Row]:
        """The rows of what led directly to a node, with theirs below them; of a finding that the hypothesis
        `proposed` builds on, what was known of it then."""
        self.seen.add(node)
        self.generations = max(self.generations, generation)
        if generation >= MOST_GENERATIONS or len(self.seen) > MOST_ANCESTORS:
            return []
        if self.graph.nodes[node]["kind"] == NodeKind.HYPOTHESIS:
            proposed = node
        return [
            self._row(relation, each, generation, proposed)
            for relation, each in self._causes(node)
            if not self._came_later(each, proposed)
        ]

    def _came_later(self, node: str, proposed: str | None) -> bool:
        """Whether it is a test of the hypothesis itself, or of one that was proposed after it."""
        if proposed is None or self.graph.nodes[node]["kind"] != NodeKind.EXPERIMENT:
            return False
        tested = hypothesis_of(self.graph, node)
        return tested is not None and number_of(tested) >= number_of(proposed)

    def _row(self, relation: str, node: str, generation: int, proposed: str | None) -> Row:
        data = self.graph.nodes[node]
        because = data.get("rationale") or data.get("reason")
        if node in self.seen:
            return row_of(self.graph, node, relation, because="told above")
        if data["kind"] == NodeKind.HYPOTHESIS:
            proposer = proposer_words(str(data.get("proposer", "")))
            self.proposers.append(proposer)
            because = f"Proposed by {proposer}. {because or ''}".strip()
        if data.get("imported_for"):
            because = f"{counted(data['imported_for'], 'imported verdict')} for it"
        return row_of(
            self.graph, node, relation, because=because, rows=self.above(node, generation + 1, proposed)
        )

    def _causes(self, node: str) -> Iterator[tuple[str, str]]:
        graph, kind = self.graph, self.graph.nodes[node]["kind"]
        if kind == NodeKind.FINDING:
            evidence = [
                (edge[2], edge[0])
                for edge in graph.in_edges(node, keys=True)
                if graph.nodes[edge[0]]["kind"] == NodeKind.EXPERIMENT
            ]
            for relation, each in sorted(
                evidence, key=lambda pair: (pair[0] not in AGREEING, number_of(pair[1]))
            ):
                yield f"{relation} it", each
            for each in to(graph, node, Relation.SUPERSEDES):
                yield "takes the place of", each
        elif kind == NodeKind.EXPERIMENT:
            hypothesis = hypothesis_of(graph, node)
            if hypothesis is not None:
                yield "tests", hypothesis
            for each in to(graph, node, Relation.REPRODUCES, kind=NodeKind.EXPERIMENT):
                yield "runs again", each
            for each in to(graph, node, Relation.REPLICATES, kind=NodeKind.EXPERIMENT):
                yield "says the same on another target as", each
        elif kind == NodeKind.HYPOTHESIS:
            yield from self._of_hypothesis(node)

    def _of_hypothesis(self, node: str) -> Iterator[tuple[str, str]]:
        graph = self.graph
        for each in to(graph, node, Relation.BUILDS_ON):
            yield "builds on", each
        for each in to(graph, node, Relation.FOLLOWS_UP):
            yield "follows up", each
        best = self.origin(node)
        if best is not None:
            yield "on top of the best at that time", best
        for each in to(graph, node, Relation.DERIVED_FROM):
            if each != best:
                yield "derived from", each
        if best is None and starts_at_baseline(graph, node):
            campaign = campaign_of_node(graph, node)
            if campaign not in self.baselines:
                self.baselines[campaign] = _baseline(graph, campaign)
            baseline = self.baselines[campaign]
            if baseline is not None:
                yield "on top of the baseline", baseline


def _baseline(graph: Graph, campaign: str | None) -> str | None:
    if campaign is None:
        return None
    return next(
        (
            each
            for each in into(graph, campaign, Relation.PART_OF, kind=NodeKind.EXPERIMENT)
            if graph.nodes[each].get("purpose") == "baseline"
        ),
        None,
    )


def _sentence(graph: Graph, subject: str, climbed: _Climb, people: Sequence[str], imported: int) -> str:
    proposer = graph.nodes[subject].get("proposer")
    count = len(climbed.seen) - 1
    by = f"{subject} was proposed by {proposer_words(proposer)}" if proposer else ""
    if author := author_of(graph.nodes[subject]):
        by = f"{subject} was written down by {author}"
    told = [counted(imported, "imported verdict")] if imported else []
    if not count and told:
        return f"{told[0]} led to {subject}; nothing here did."
    if not count:
        return f"{by or subject + ' stands at the beginning'}; nothing here led to it."
    kinds = [graph.nodes[each]["kind"] for each in climbed.seen if each != subject]
    what = listed([counted(kinds.count(kind), *_KINDS[kind]) for kind in _KINDS if kind in kinds] + told)
    far = f", up to {counted(climbed.generations, 'step')} back" if climbed.generations > 1 else ""
    rest = f"; proposers on the way: {listed(list(people))}" if people else ""
    return f"{by}; {what} led to it{far}{rest}." if by else f"{what} led to {subject}{far}{rest}."
