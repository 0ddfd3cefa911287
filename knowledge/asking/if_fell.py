"""What rests on a verdict or a finding, and would change if it fell: findings, bests, hypotheses. Pure.

A finding falls with the verdicts that say it. A finding whose verdicts all fall falls too; one that keeps
some gets weaker. A supported hypothesis falls when no other verdict supports it. What was tried on top of a
configuration that fell was measured against it, so its own effect stands, but the chain that leads there from
the baseline is broken: a campaign whose best lies on it has another best. A refuted or infeasible hypothesis
is open again when no other verdict says so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from db.states import ExperimentKind, ExperimentState
from knowledge.asking.answer import Answer, Question, Row, Section, author_of, named, row_of, section, some
from knowledge.asking.walking import (
    AGREEING,
    WAITING,
    campaign_of_node,
    hypothesis_of,
    into,
    number_of,
    tests_of,
    to,
)
from knowledge.figures import counted, listed
from knowledge.graph.pieces import OF_EVIDENCE
from knowledge.graph.typed_graph import Graph, NodeKind, Relation

MOST_RESTING = 40
"""Hypotheses that are shown."""

SETTLED = ("supported", "refuted", "infeasible")
"""States of a hypothesis that a verdict settled."""

BEGUN_FROM = (
    "{subject} found the baseline, and gave no verdict that could fall: each test was timed beside its own "
    "control, so what it found stands; where the campaign began from and what it expects would change."
)
"""What is said of a baseline that was measured."""

MOST_NAMED = 4
"""Findings that a sentence names; how many more there are is told."""


@dataclass(frozen=True)
class Fallen:
    """What would fall: verdicts (by experiment), the findings and supported hypotheses that rest on them
    alone, those that they alone rule out and that are open `again`, and what lies on a chain over one of the
    supported."""

    experiments: tuple[str, ...]
    hypotheses: tuple[str, ...]
    again: tuple[str, ...]
    findings: tuple[str, ...]
    weaker: tuple[str, ...]
    on_top: tuple[str, ...]
    derived: tuple[str, ...]
    building: tuple[str, ...]
    began: tuple[str, ...]
    """Campaigns that began with one of the findings."""
    bests: tuple[tuple[str, str], ...]
    """Campaigns whose best is among these, each with the experiment."""


def fall(graph: Graph, subject: str) -> Fallen:
    """Return what rests on an experiment's verdict, a hypothesis's verdicts, or a finding's."""
    experiments = _verdicts(graph, subject)
    gone = set(experiments)
    touched = dict.fromkeys(
        f for each in experiments for f in to(graph, each, *OF_EVIDENCE.values(), kind=NodeKind.FINDING)
    )
    falls = [each for each in touched if each == subject or not _left(graph, each, gone)]
    judged = dict.fromkeys(hypothesis_of(graph, e) for e in experiments)
    undone = [each for each in judged if each is not None and _is_undone(graph, each, gone)]
    hypotheses = [each for each in undone if graph.nodes[each]["state"] == "supported"]
    if graph.nodes[subject]["kind"] == NodeKind.FINDING and subject not in falls:
        falls.insert(0, subject)
    on_top = _on_top(graph, hypotheses)
    bests = [
        (campaign, best)
        for campaign in {campaign_of_node(graph, each) for each in hypotheses}
        if campaign is not None
        and (best := graph.nodes[campaign].get("best")) in graph
        and (best in gone or hypothesis_of(graph, best) in {*hypotheses, *on_top})
    ]
    return Fallen(
        experiments=tuple(experiments),
        hypotheses=tuple(hypotheses),
        again=tuple(each for each in undone if each not in hypotheses),
        findings=tuple(falls),
        weaker=tuple(each for each in touched if each not in falls),
        on_top=tuple(on_top),
        derived=tuple(_descendants(graph, _asked(graph, subject, experiments), {*hypotheses, *on_top})),
        building=tuple(dict.fromkeys(h for f in falls for h in into(graph, f, Relation.BUILDS_ON))),
        began=tuple(dict.fromkeys(c for f in falls for c in into(graph, f, Relation.RESTS_ON))),
        bests=tuple(sorted(bests)),
    )


def if_fell(
    graph: Graph,
    subject: str,
    found: Fallen,
    more: Sequence[Section] = (),
    imported: Sequence[Row] = (),
) -> Answer:
    """Return what would change if a finding or a verdict fell, of what was `found` to rest on it; `more` are
    sections on the queue's order, `imported` verdicts of another database that say a finding, and fall with
    it."""
    rows = [
        row_of(graph, best, f"the best of {campaign}", because="what the campaign recommends")
        for campaign, best in found.bests
    ]
    findings = [
        row_of(graph, each, "falls", because=_what_is_left(graph, each, found, subject))
        for each in found.findings
    ]
    findings += [
        row_of(graph, each, "weaker", because=_what_is_left(graph, each, found, subject))
        for each in found.weaker
    ]
    resting = list(dict.fromkeys([*found.on_top, *found.building, *found.derived]))
    resting = [each for each in resting if each not in found.hypotheses]  # which are told as such
    resting.sort(key=lambda each: (graph.nodes[each].get("state") not in WAITING, number_of(each)))
    hypotheses = [row_of(graph, each, _why_it_rests(each, found)) for each in resting]
    decided = [row_of(graph, each, "no longer supported") for each in found.hypotheses]
    decided += [row_of(graph, each, "open again") for each in found.again]
    began = [
        row_of(graph, each, "began with it", because=_weight(graph, each, found)) for each in found.began
    ]
    return Answer(
        question=Question.IF_FELL,
        asked=f"What would change if {named(graph, subject)} is wrong?",
        sentence=_sentence(graph, subject, found, resting),
        sections=(
            section("Bests and recommendations", rows, "No campaign's best rests on it."),
            section("Findings", findings, "No finding rests on it."),
            *([section("Campaigns", began, "")] if began else []),
            section(
                "Hypotheses that it decides",
                decided,
                "It alone decides no hypothesis.",
                "no other verdict says so",
                most=MOST_RESTING,
            ),
            section(
                "Hypotheses",
                hypotheses,
                "No hypothesis rests on it.",
                "that rest on it",
                most=MOST_RESTING,
            ),
            section(
                "Verdicts that would fall",
                [
                    *(
                        row_of(graph, each, because=graph.nodes[each].get("reason"))
                        for each in found.experiments
                    ),
                    *imported,
                ],
                "None.",
                "what was measured, taken as never said",
            ),
            *more,
        ),
    )


def _asked(graph: Graph, subject: str, experiments: Iterable[str]) -> list[str]:
    """The hypotheses that this is about."""
    if graph.nodes[subject]["kind"] == NodeKind.HYPOTHESIS:
        return [subject]
    return [each for each in dict.fromkeys(hypothesis_of(graph, e) for e in experiments) if each is not None]


def _verdicts(graph: Graph, subject: str) -> list[str]:
    """The experiments whose verdicts fall with the subject."""
    kind = graph.nodes[subject]["kind"]
    if kind == NodeKind.EXPERIMENT:
        return [subject] if graph.nodes[subject].get("outcome") else []
    if kind == NodeKind.HYPOTHESIS:
        return [each for each in tests_of(graph, subject) if graph.nodes[each].get("outcome")]
    agreeing = {
        edge[0]
        for edge in graph.in_edges(subject, keys=True)
        if edge[2] in AGREEING and graph.nodes[edge[0]]["kind"] == NodeKind.EXPERIMENT
    }
    return sorted(agreeing, key=number_of)


def _left(graph: Graph, finding: str, gone: Collection[str]) -> int:
    """How many verdicts still say a finding."""
    here = {
        edge[0]
        for edge in graph.in_edges(finding, keys=True)
        if edge[2] in AGREEING and edge[0] not in gone and graph.nodes[edge[0]]["kind"] == NodeKind.EXPERIMENT
    }
    return len(here) + int(graph.nodes[finding].get("imported_for", 0))


def _is_undone(graph: Graph, hypothesis: str, gone: Collection[str]) -> bool:
    """Whether no other verdict says of a hypothesis what its state does; not of one that is not settled."""
    state = graph.nodes[hypothesis].get("state")
    return state in SETTLED and not any(
        each not in gone and graph.nodes[each].get("outcome") == state for each in tests_of(graph, hypothesis)
    )


def _on_top(graph: Graph, fallen: Sequence[str]) -> list[str]:
    """Hypotheses tried on a configuration that fell, and on those that the supported among them lead to; not
    those whose control another supported hypothesis leads to."""
    found: dict[str, None] = {}
    for campaign in dict.fromkeys(campaign_of_node(graph, each) for each in fallen):
        if campaign is None:
            continue
        mine = into(graph, campaign, Relation.PART_OF, kind=NodeKind.HYPOTHESIS)
        by_control: dict[int, list[str]] = {}
        standing: dict[int, set[str]] = {}
        for each in mine:
            data = graph.nodes[each]
            by_control.setdefault(data.get("control"), []).append(each)
            if data.get("state") == "supported":
                standing.setdefault(data.get("candidate"), set()).add(each)
        broken = set(fallen).intersection(mine)
        waiting = deque(sorted(broken, key=number_of))
        while waiting:
            candidate = graph.nodes[waiting.popleft()].get("candidate")
            if candidate == graph.nodes[campaign].get("baseline") or standing.get(candidate, set()) - broken:
                continue
            for each in by_control.get(candidate, []):
                if each not in broken:
                    broken.add(each)
                    found[each] = None
                    if graph.nodes[each].get("state") == "supported":
                        waiting.append(each)
    return list(found)


def _descendants(graph: Graph, fallen: Iterable[str], known: Collection[str]) -> list[str]:
    """Hypotheses derived from those that fell, which are not told of already."""
    found: dict[str, None] = {}
    waiting = deque(fallen)
    while waiting:
        for each in into(graph, waiting.popleft(), Relation.DERIVED_FROM):
            if each not in known and each not in found:
                found[each] = None
                waiting.append(each)
    return list(found)


def _why_it_rests(hypothesis: str, found: Fallen) -> str:
    if hypothesis in found.on_top:
        return "on top of what fell"
    return "builds on it" if hypothesis in found.building else "derived from it"


def _weight(graph: Graph, campaign: str, found: Fallen) -> str:
    """How far a campaign believes now what it began with."""
    weights = [
        edges[Relation.RESTS_ON.value].get("weight", 0.0)
        for finding, edges in graph.succ[campaign].items()
        if finding in found.findings and Relation.RESTS_ON.value in edges
    ]
    return f"all that was carried over counts {100 * max(weights):.0f} % there now"


def _what_is_left(graph: Graph, finding: str, found: Fallen, subject: str) -> str:
    left = 0 if finding == subject else _left(graph, finding, found.experiments)
    if left:
        return f"{counted(left, 'verdict')} would still say so"
    return "no verdict says so" if author_of(graph.nodes[finding]) else "no verdict would say so any more"


def _sentence(graph: Graph, subject: str, found: Fallen, resting: Sequence[str]) -> str:
    data = graph.nodes[subject]
    if data.get("purpose") == ExperimentKind.BASELINE and data["state"] == ExperimentState.DONE:
        return BEGUN_FROM.format(subject=subject)
    if not found.experiments and data["kind"] != NodeKind.FINDING:
        return f"{subject} has no verdict yet, so nothing rests on it."
    waiting = sum(graph.nodes[each].get("state") in WAITING for each in resting)
    told = []
    if found.bests:
        told.append(f"{listed([campaign for campaign, _ in found.bests])} would have another best")
    others = [each for each in found.findings if each != subject]
    if others:
        told.append(f"{some(others, MOST_NAMED)} would fall")
    if found.weaker:
        them = "it" if len(found.weaker) == 1 else "them"
        told.append(f"{some(found.weaker, MOST_NAMED)} would have fewer verdicts behind {them}")
    for fallen, how in ((found.hypotheses, "no longer be supported"), (found.again, "be open again")):
        if fallen:
            many = f"{len(fallen)} hypotheses" if len(fallen) > 1 else fallen[0]
            told.append(f"{'it' if fallen == (subject,) else many} would {how}")
    if found.began:
        told.append(f"{some(found.began, MOST_NAMED)} began with it")
    if resting:
        rest = counted(len(resting), "hypothesis rests", "hypotheses rest")
        wait = "waits" if waiting == 1 else "wait"
        told.append(f"{rest} on it, {waiting or 'none'} of which {wait} in the queue")
    if not told:
        return f"Nothing else rests on {subject}."
    return f"If {subject} is wrong: {'; '.join(told)}."
