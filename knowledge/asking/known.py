"""What is known about a knob on some hardware: findings, values that were tried and with what, what does not
run, what is still to come. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from knowledge.asking.answer import Answer, Question, Row, Section, down_to_samples, row_of, section
from knowledge.asking.walking import (
    AGREEING,
    changes_of,
    changes_words,
    hardware_in,
    hypothesis_of,
    into,
    knob_in,
    newest,
    number_of,
    tests_of,
)
from knowledge.figures import counted, listed
from knowledge.graph import Graph, NodeKind, Relation

MOST_OF_A_VALUE = 5
"""Tests of one value that are shown, the newest."""

OUTCOMES = ("supported", "refuted", "inconclusive", "confounded", "infeasible")
WAITING = ("proposed", "queued", "testing")


def known(graph: Graph, knob: str, on: str | None, space: Collection[str]) -> Answer:
    """Return what is known about a knob, on the targets with `on` in their names or on all.

    Raises `UsageError` for a knob that is neither of the space nor of the graph, and for hardware that
    nothing was measured on.
    """
    name = knob_in(graph, knob, space)
    targets = None if on is None else hardware_in(graph, on)
    node = f"knob:{name}"
    asked = f"What is known about {name}" + ("?" if on is None else f" on {on}?")
    if node not in graph:
        return Answer(
            question=Question.KNOWN,
            asked=asked,
            sentence=f"Nothing is known about {name} yet: no hypothesis changed it.",
            sections=(),
        )
    hypotheses = into(graph, node, Relation.CHANGES, kind=NodeKind.HYPOTHESIS)
    tests = [test for each in hypotheses for test in tests_of(graph, each)]
    here = [each for each in tests if targets is None or graph.nodes[each].get("target") in targets]
    findings = into(graph, node, Relation.CHANGES, kind=NodeKind.FINDING)
    ours = [each for each in findings if targets is None or graph.nodes[each].get("target") in targets]
    ours.sort(key=lambda each: (graph.nodes[each].get("state") != "holds", -number_of(each)))
    waiting = [each for each in hypotheses if graph.nodes[each].get("state") in WAITING]
    sections = [
        section(
            "Findings",
            (_finding(graph, each) for each in ours),
            f"No finding is about {name}{_there(on)}.",
            "each says no more than its scope",
        ),
        section("Values that were tried", _values(graph, name, here), f"No test changed it{_there(on)}."),
        section("What it was tried with", _companions(graph, name, here), "It was always changed alone."),
        section("What does not run", _infeasible(graph, here), "Everything that was tried ran."),
        section(
            "Still to come",
            (row_of(graph, each, because=graph.nodes[each].get("rationale")) for each in waiting),
            "Nothing about it waits or is under test.",
        ),
    ]
    if targets is not None:
        sections.append(_elsewhere(graph, findings, tests, targets))
    return Answer(
        question=Question.KNOWN,
        asked=asked,
        sentence=_sentence(graph, name, on, here, ours, len(waiting)),
        sections=tuple(sections),
    )


def _there(on: str | None) -> str:
    return "" if on is None else " there"


def _finding(graph: Graph, finding: str) -> Row:
    data = graph.nodes[finding]
    said = [
        (edge[0], edge[2]) for edge in graph.in_edges(finding, keys=True) if edge[2] != Relation.CHANGES.value
    ]
    verdicts = [each for each in said if graph.nodes[each[0]]["kind"] == NodeKind.EXPERIMENT]
    rows = [
        row_of(graph, each, relation, because=graph.nodes[each].get("reason"))
        for each, relation in verdicts[:MOST_OF_A_VALUE]
    ]
    agree = sum(relation in AGREEING for _, relation in verdicts) + data.get("imported_for", 0)
    against = sum(relation == Relation.CONTRADICTS.value for _, relation in verdicts)
    against += data.get("imported_against", 0)
    told = f"{data.get('strength', '')}: {counted(agree, 'verdict')} for it"
    told += f", {against} against" if against else ""
    why = data.get("status_reason")
    return row_of(graph, finding, because=f"{told}. {why}" if why else told, rows=rows)


def _values(graph: Graph, knob: str, tests: Sequence[str]) -> list[Row]:
    """A row for each change of the knob, the most tested first."""
    by_change: dict[tuple[str, str], list[str]] = {}
    for test in tests:
        hypothesis = hypothesis_of(graph, test)
        change = None if hypothesis is None else changes_of(graph, hypothesis).get(knob)
        if change is not None:
            by_change.setdefault(change, []).append(test)
    return [
        Row(
            text=f"{before or 'not there'} → {after or 'not there'}",
            state=_together(graph, found),
            because=outcomes_words(graph, found),
            rows=tuple(_test(graph, each, knob) for each in newest(found, MOST_OF_A_VALUE)),
        )
        for (before, after), found in sorted(by_change.items(), key=lambda each: (-len(each[1]), each[0]))
    ]


def _test(graph: Graph, test: str, knob: str) -> Row:
    """A test of the knob, with what else its hypothesis set."""
    hypothesis = hypothesis_of(graph, test) or ""
    others = changes_words(changes_of(graph, hypothesis), knob)
    row = down_to_samples(graph, test)
    text = f"{hypothesis} {graph.nodes[hypothesis]['title']}"
    return row.model_copy(update={"text": f"{text} Together with {listed(others)}." if others else text})


def _companions(graph: Graph, knob: str, tests: Iterable[str]) -> list[Row]:
    """Knobs that were changed with it, the most often first."""
    found: dict[str, list[str]] = {}
    for test in tests:
        changed = changes_of(graph, hypothesis_of(graph, test) or "")
        for name, ends in changed.items():
            if name != knob and all(ends):  # not what only came or went with another
                found.setdefault(name, []).append(test)
    return [
        Row(id=f"knob:{name}", text=name, because=outcomes_words(graph, each))
        for name, each in sorted(found.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    ]


def _infeasible(graph: Graph, tests: Iterable[str]) -> list[Row]:
    found = [
        each
        for each in tests
        if graph.nodes[each].get("outcome") == "infeasible" or graph.nodes[each].get("failure")
    ]
    rows = []
    for each in reversed(found):
        row = down_to_samples(graph, each)
        hypothesis = hypothesis_of(graph, each)
        title = "" if hypothesis is None else f"{hypothesis} {graph.nodes[hypothesis]['title']}"
        rows.append(row.model_copy(update={"text": title or row.text}))
    return rows


def _elsewhere(
    graph: Graph, findings: Sequence[str], tests: Sequence[str], targets: Collection[str]
) -> Section:
    counts: Counter[str] = Counter()
    of: dict[str, list[str]] = {}
    for each in tests:
        target = graph.nodes[each].get("target", "")
        if target not in targets:
            of.setdefault(target, []).append(each)
    for each in findings:
        target = graph.nodes[each].get("target", "")
        if target not in targets:
            counts[target] += 1
            of.setdefault(target, [])
    rows = [
        Row(
            id=f"hardware:{target}" if f"hardware:{target}" in graph else None,
            text=target or "an unknown target",
            because=f"{counted(counts[target], 'finding')}; {outcomes_words(graph, found) or 'no test'}",
        )
        for target, found in sorted(of.items())
    ]
    return section("On other hardware", rows, "It was tried nowhere else.", "says nothing of this one")


def outcomes_words(graph: Graph, tests: Sequence[str]) -> str:
    """Return how tests came out: `3 tests: 2 supported, 1 refuted`; empty of none."""
    if not tests:
        return ""
    counts = Counter(graph.nodes[each].get("outcome") or "without a verdict" for each in tests)
    told = [f"{counts[word]} {word}" for word in (*OUTCOMES, "without a verdict") if counts[word]]
    return f"{counted(len(tests), 'test')}: {', '.join(told)}"


def _together(graph: Graph, tests: Sequence[str]) -> str | None:
    """The one outcome that decided tests share; None where they differ or none decided."""
    found = {graph.nodes[each].get("outcome") for each in tests} & {"supported", "refuted", "infeasible"}
    return found.pop() if len(found) == 1 else None


def _held(findings: int, holds: int) -> str:
    if not findings:
        return "no finding"
    if holds == findings:
        return f"{counted(findings, 'finding')} that hold{'s' if findings == 1 else ''}"
    return f"{counted(findings, 'finding')}, {holds or 'none'} of which hold{'s' if holds == 1 else ''}"


def _sentence(
    graph: Graph, name: str, on: str | None, tests: Sequence[str], findings: Sequence[str], waiting: int
) -> str:
    where = name if on is None else f"{name} on {on}"
    holds = sum(graph.nodes[each].get("state") == "holds" for each in findings)
    told = [outcomes_words(graph, tests) or "no test changed it"]
    told.append(_held(len(findings), holds))
    if waiting:
        told.append(f"{waiting} more to come")
    best = min(
        (each for each in tests if graph.nodes[each].get("outcome") == "supported"),
        key=lambda each: graph.nodes[each].get("effect", 0.0),
        default=None,
    )
    most = "" if best is None else f" The largest supported effect is that of {best}."
    return f"{where}: {'; '.join(told)}.{most}"
