"""What is known about a knob on some hardware: findings, values that were tried and with what, what does not
run, what is still to come. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from knowledge.asking.answer import (
    Answer,
    ImportedOf,
    Question,
    Row,
    Section,
    down_to_samples,
    none_imported,
    row_of,
    section,
    section_of,
)
from knowledge.asking.walking import (
    AGREEING,
    WAITING,
    change_of,
    changes_of,
    changes_words,
    hardware_in,
    into,
    knob_in,
    known_as,
    number_of,
    places_of,
    tests_of,
)
from knowledge.figures import counted, listed
from knowledge.graph.typed_graph import Graph, NodeKind, Relation
from knowledge.machines import machine

MOST_OF_A_VALUE = 5
"""Tests of one value that are shown, the newest."""

OUTCOMES = ("supported", "refuted", "inconclusive", "confounded", "infeasible")


def known(
    graph: Graph,
    knob: str,
    on: str | None,
    space: Collection[str],
    imported: ImportedOf = none_imported,
) -> Answer:
    """Return what is known about a knob, on the targets with `on` in their names or on all; `imported` are
    verdicts of another database on findings.

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
    every = [Tested(test, each) for each in hypotheses for test in tests_of(graph, each)]
    here = [each for each in every if targets is None or graph.nodes[each.test].get("target") in targets]
    findings = into(graph, node, Relation.CHANGES, kind=NodeKind.FINDING)
    ours = [each for each in findings if targets is None or graph.nodes[each].get("target") in targets]
    ours.sort(key=lambda each: (graph.nodes[each].get("state") != "holds", -number_of(each)))
    names = None if targets is None else known_as(graph, targets)
    open_ = [each for each in hypotheses if graph.nodes[each].get("state") in WAITING]
    waiting = [each for each in open_ if names is None or not names.isdisjoint(places_of(graph, each))]
    broken = [each for each in reversed(here) if _is_broken(graph, each.test)]
    sections = [
        section_of(
            "Findings",
            ours,
            lambda each: _finding(graph, each, imported(each)),
            f"No finding is about {name}{_there(on)}.",
            "each says no more than its scope",
        ),
        section_of(
            "Values that were tried",
            _by_value(graph, name, here),
            lambda each: _value(graph, name, *each),
            f"No test changed it{_there(on)}.",
        ),
        section(
            "What it was tried with",
            _companions(graph, name, here),
            "It was always set alone." if here else f"Nothing was tried{_there(on)}.",
        ),
        section_of(
            "What does not run",
            broken,
            lambda each: _test(graph, each, name),
            "Everything that was tried ran." if here else f"Nothing was tried{_there(on)}.",
        ),
        section_of(
            "Still to come",
            waiting,
            lambda each: _to_come(graph, each),
            f"Nothing about it waits or is under test{_there(on)}.",
        ),
    ]
    if targets is not None:
        elsewhere = sorted(set(open_).difference(waiting), key=number_of)
        sections.append(_elsewhere(graph, findings, every, elsewhere, targets))
    return Answer(
        question=Question.KNOWN,
        asked=asked,
        sentence=_sentence(graph, name, on, here, ours, len(waiting)),
        sections=tuple(sections),
    )


@dataclass(frozen=True, slots=True)
class Tested:
    """An experiment, and the hypothesis that it tests."""

    test: str
    hypothesis: str


def _there(on: str | None) -> str:
    return "" if on is None else " there"


def _finding(graph: Graph, finding: str, imported: Sequence[Row]) -> Row:
    data = graph.nodes[finding]
    said = [
        (other, next(iter(edges)))
        for other, edges in graph.pred[finding].items()
        if graph.nodes[other]["kind"] == NodeKind.EXPERIMENT
    ]
    rows = [
        row_of(graph, each, relation, because=graph.nodes[each].get("reason"))
        for each, relation in said[:MOST_OF_A_VALUE]
    ]
    rows += imported[:MOST_OF_A_VALUE]
    agree = sum(relation in AGREEING for _, relation in said) + data.get("imported_for", 0)
    against = sum(relation == Relation.CONTRADICTS.value for _, relation in said)
    against += data.get("imported_against", 0)
    told = "no verdict decides it"
    if agree or against:
        told = f"{data.get('strength', '')}: {counted(agree, 'verdict')} for it"
        told += f", {against} against" if against else ""
    why = data.get("status_reason")
    return row_of(graph, finding, because=f"{told}. {why}" if why else told, rows=rows)


def _by_value(graph: Graph, knob: str, tests: Iterable[Tested]) -> list[tuple[tuple[str, str], list[Tested]]]:
    """The tests by change of the knob, the most tested first."""
    found: dict[tuple[str, str], list[Tested]] = {}
    for each in tests:
        change = change_of(graph, each.hypothesis, knob)
        if change is not None:
            found.setdefault(change, []).append(each)
    return sorted(found.items(), key=lambda pair: (-len(pair[1]), pair[0]))


def _value(graph: Graph, knob: str, change: tuple[str, str], tests: Sequence[Tested]) -> Row:
    before, after = (end or "not there" for end in change)
    newest = sorted(tests, key=lambda each: number_of(each.test), reverse=True)
    return Row(
        text=f"{before} → {after}",
        state=_together(graph, tests),
        because=outcomes_words(graph, tests),
        rows=tuple(_test(graph, each, knob) for each in newest[:MOST_OF_A_VALUE]),
    )


def _test(graph: Graph, tested: Tested, knob: str) -> Row:
    """A test of the knob, with what else its hypothesis set."""
    others = changes_words(changes_of(graph, tested.hypothesis), knob)
    text = f"{tested.hypothesis} {graph.nodes[tested.hypothesis]['title']}"
    told = f"{text} Together with {listed(others)}." if others else text
    return down_to_samples(graph, tested.test).model_copy(update={"text": told})


def _is_broken(graph: Graph, test: str) -> bool:
    data = graph.nodes[test]
    return data.get("outcome") == "infeasible" or bool(data.get("failure"))


def _to_come(graph: Graph, hypothesis: str) -> Row:
    data = graph.nodes[hypothesis]
    relation = f"to be confirmed on {machine(data['target'])}" if data.get("target") else None
    return row_of(graph, hypothesis, relation, because=data.get("rationale"))


def _companions(graph: Graph, knob: str, tests: Iterable[Tested]) -> list[Row]:
    """Knobs that were set with it, the most often first."""
    found: dict[str, list[Tested]] = {}
    for each in tests:
        for name, ends in changes_of(graph, each.hypothesis).items():
            if name != knob and all(ends):  # not what only came or went with another
                found.setdefault(name, []).append(each)
    return [
        Row(id=f"knob:{name}", text=name, because=outcomes_words(graph, each))
        for name, each in sorted(found.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    ]


def _elsewhere(
    graph: Graph,
    findings: Sequence[str],
    tests: Sequence[Tested],
    waiting: Sequence[str],
    targets: Collection[str],
) -> Section:
    """What is known of other hardware; `waiting` is what is to be tested there."""
    counts: Counter[str] = Counter()
    to_come: Counter[str] = Counter()
    of: dict[str, list[Tested]] = {}
    for each in tests:
        target = graph.nodes[each.test].get("target", "")
        if target not in targets:
            of.setdefault(target, []).append(each)
    for finding in findings:
        target = graph.nodes[finding].get("target", "")
        if target not in targets:
            counts[target] += 1
            of.setdefault(target, [])
    for hypothesis in waiting:
        for place in places_of(graph, hypothesis):
            to_come[place] += 1
            of.setdefault(place, [])
    rows = [
        Row(
            id=f"hardware:{target}" if f"hardware:{target}" in graph else None,
            text=machine(target) or "an unknown target",
            because=f"{counted(counts[target], 'finding')}; {outcomes_words(graph, found) or 'no test'}"
            + (f"; {to_come[target]} to come" if to_come[target] else ""),
        )
        for target, found in sorted(of.items())
    ]
    return section("On other hardware", rows, "It was tried nowhere else.", "says nothing of this one")


def outcomes_words(graph: Graph, tests: Sequence[Tested]) -> str:
    """Return how tests came out: `3 tests: 2 supported, 1 refuted`; empty of none."""
    if not tests:
        return ""
    counts = Counter(graph.nodes[each.test].get("outcome") or "without a verdict" for each in tests)
    told = [f"{counts[word]} {word}" for word in (*OUTCOMES, "without a verdict") if counts[word]]
    return f"{counted(len(tests), 'test')}: {', '.join(told)}"


def _together(graph: Graph, tests: Sequence[Tested]) -> str | None:
    """The one outcome that decided tests share; None where they differ or none decided."""
    found = {graph.nodes[each.test].get("outcome") for each in tests} & {"supported", "refuted", "infeasible"}
    return found.pop() if len(found) == 1 else None


def _held(findings: int, holds: int) -> str:
    if not findings:
        return "no finding"
    if holds == findings:
        return f"{counted(findings, 'finding')} that hold{'s' if findings == 1 else ''}"
    return f"{counted(findings, 'finding')}, {holds or 'none'} of which hold{'s' if holds == 1 else ''}"


def _sentence(
    graph: Graph, name: str, on: str | None, tests: Sequence[Tested], findings: Sequence[str], waiting: int
) -> str:
    where = name if on is None else f"{name} on {on}"
    holds = sum(graph.nodes[each].get("state") == "holds" for each in findings)
    told = [outcomes_words(graph, tests) or "no test changed it"]
    told.append(_held(len(findings), holds))
    if waiting:
        told.append(f"{waiting} {'more ' if tests else ''}to come")
    best = min(
        (each.test for each in tests if graph.nodes[each.test].get("outcome") == "supported"),
        key=lambda each: graph.nodes[each].get("effect", 0.0),
        default=None,
    )
    most = "" if best is None else f" The largest supported effect is that of {best}."
    return f"{where}: {'; '.join(told)}.{most}"
