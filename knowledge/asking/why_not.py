"""Why something is ruled out, or is not: verdicts against it down to their samples, what broke, bans, what
model, engine and target do not allow. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from knowledge.asking.answer import (
    Answer,
    ImportedOf,
    Question,
    Row,
    Section,
    down_to_samples,
    named,
    none_imported,
    row_of,
    section,
    section_of,
    some,
)
from knowledge.asking.objections import MOST_NAMED, Failure, Objection
from knowledge.asking.ruling import verdict_on_hypothesis, verdict_on_values
from knowledge.asking.walking import change_of, changes_of, changes_words, into, tests_of, to
from knowledge.change_words import LEVERS_OF_WEIGHTS
from knowledge.doubts import doubt_words
from knowledge.figures import listed
from knowledge.findings.verdict_fact import Saying
from knowledge.graph.pieces import OF_EVIDENCE
from knowledge.graph.typed_graph import Graph, NodeKind, Relation

AGAINST_RULES = ("R2-no-effect", "R3-quality", "R4-infeasible", "R6-contradicted")
"""Rules of findings that speak against a change, where a finding does not tell what it says of it."""

MOST_IMPORTED = 5
"""Verdicts of another database that are told of a finding."""

AGAINST = ("refuted", "infeasible", "confounded")
"""Outcomes that speak against a change, or leave it unusable as evidence."""


def why_not_hypothesis(
    graph: Graph,
    hypothesis: str,
    legality: Sequence[Objection],
    steering: Sequence[Objection],
    imported: ImportedOf = none_imported,
    failures: Sequence[Failure] = (),
) -> Answer:
    """Return why a hypothesis of the graph is ruled out, or that it is not; `imported` are verdicts of
    another database on findings, `failures` those of other tests that are put down to what it sets."""
    data = graph.nodes[hypothesis]
    tests = tests_of(graph, hypothesis)
    own = [down_to_samples(graph, each, "tested by") for each in tests]
    sections = [
        section("Its verdicts", own, "It was not tested."),
        _findings(graph, _said(graph, tests), imported),
        *_failures(graph, failures),
        _confounded(graph, tests),
        _legal(legality),
        _steered(steering),
    ]
    return Answer(
        question=Question.WHY_NOT,
        asked=f"Why is {named(graph, hypothesis)} ruled out?",
        sentence=verdict_on_hypothesis(hypothesis, data, tests, legality, steering, graph)
        + _but(graph, failures),
        sections=tuple(sections),
    )


def why_not_values(
    graph: Graph,
    assigned: Mapping[str, str | None],
    legality: Sequence[Objection],
    steering: Sequence[Objection],
    imported: ImportedOf = none_imported,
    failures: Sequence[Failure] = (),
) -> Answer:
    """Return why a configuration with these values is ruled out, or that it is not; None is any value of the
    knob. `imported` are verdicts of another database on findings, `failures` those of tests of more than
    these values that are put down to them."""
    words = ", ".join(name if value is None else f"{name}={value}" for name, value in assigned.items())
    hypotheses = [each for each in _changing(graph, assigned) if _sets(graph, each, assigned)]
    exact = [each for each in hypotheses if _alone(graph, each, assigned)]
    hypotheses.reverse()
    against = [each for each in hypotheses if graph.nodes[each].get("state") in AGAINST]
    known = set(against)
    rest = [each for each in hypotheses if each not in known]
    parts = [] if len(assigned) < 2 else _parts(graph, assigned, {*hypotheses})
    sections = [
        section_of(
            "Verdicts against it",
            against,
            lambda each: _hypothesis(graph, each),
            "No verdict speaks against it.",
        ),
        section_of(
            "Where else it was tried",
            rest,
            lambda each: _hypothesis(graph, each),
            "It was not tried otherwise.",
        ),
        *([section("Its values by themselves", parts, "None of them failed by itself.")] if parts else []),
        _findings(graph, _about(graph, assigned), imported),
        *_failures(graph, failures),
        _confounded(graph, [t for each in against for t in tests_of(graph, each)]),
        _legal(legality),
        _steered(steering),
    ]
    return Answer(
        question=Question.WHY_NOT,
        asked=f"Why is {words} ruled out?",
        sentence=verdict_on_values(graph, words, exact, hypotheses[::-1], legality, steering)
        + _but(graph, failures),
        sections=tuple(sections),
    )


def why_not_finding(
    graph: Graph,
    finding: str,
    imported: Sequence[Row] = (),
    disputed: Mapping[str, str] | None = None,
    differing: Mapping[str, str] | None = None,
) -> Answer:
    """Return why a finding is not believed any more, or that it is; `imported` are verdicts of another
    database against it, `disputed` the findings that disagree with it, each with what is to be asked of both,
    `differing` the fresh runs that differ from what it rests on, each with what it says."""
    data = graph.nodes[finding]
    state = data.get("state", "")
    against = [
        down_to_samples(graph, each, "contradicted by")
        for each in into(graph, finding, Relation.CONTRADICTS, kind=NodeKind.EXPERIMENT)
    ]
    known = {each.id for each in against}
    against += [
        row_of(graph, each, "a fresh run differs", because=why)
        for each, why in (differing or {}).items()
        if each not in known
    ]
    others = [
        row_of(graph, each, relation)
        for relation, wanted in (
            ("superseded by", Relation.SUPERSEDES),
            ("contradicted by", Relation.CONTRADICTS),
        )
        for each in into(graph, finding, wanted, kind=NodeKind.FINDING)
    ]
    labels = list(disputed or ())
    others += [row_of(graph, each, "disputed by", because=(disputed or {})[each]) for each in labels]
    doubt = doubt_words(labels, list(differing or ()))
    but = f", but {doubt}" if doubt else ""
    because = f": {data['status_reason']}" if data.get("status_reason") else "."
    return Answer(
        question=Question.WHY_NOT,
        asked=f"Why is {named(graph, finding)} not believed?",
        sentence=(
            f"{finding} is believed: it holds, {data.get('strength')}{but}."
            if state == "holds"
            else f"{finding} is {state}{because}"
        ),
        sections=(
            section("Verdicts against it", (*against, *imported), "No verdict contradicts it."),
            section("Findings in its place or against it", others, "There is none."),
        ),
    )


def _changing(graph: Graph, assigned: Mapping[str, str | None]) -> list[str]:
    first = f"knob:{next(iter(assigned))}"
    return into(graph, first, Relation.CHANGES, kind=NodeKind.HYPOTHESIS) if first in graph else []


def _about(graph: Graph, assigned: Mapping[str, str | None]) -> list[str]:
    """The findings about a change to these values, the newest first."""
    first = f"knob:{next(iter(assigned))}"
    found = into(graph, first, Relation.CHANGES, kind=NodeKind.FINDING) if first in graph else []
    return [each for each in reversed(found) if _sets(graph, each, assigned)]


def _sets(graph: Graph, node: str, assigned: Mapping[str, str | None]) -> bool:
    for name, value in assigned.items():
        change = change_of(graph, node, name)
        if change is None or value not in (None, change[1]):
            return False
    return True


def _alone(graph: Graph, hypothesis: str, assigned: Mapping[str, str | None]) -> bool:
    """Whether nothing else was set; what came or went with these does not count, nor the rest of a lever that
    was turned on with them: layers to remove are there with a method alone."""
    changed = changes_of(graph, hypothesis)
    turned = {_lever(name) for name in assigned if name in changed and not all(changed[name])}
    others = {name for name, ends in changed.items() if all(ends)} - set(assigned)
    return all(_lever(name) in turned & LEVERS_OF_WEIGHTS for name in others)


def _lever(knob: str) -> str:
    return knob.partition(".")[0]


def _parts(graph: Graph, assigned: Mapping[str, str | None], shown: set[str | None]) -> list[Row]:
    """What failed of the values one by one."""
    found = []
    for name, value in assigned.items():
        for each in _changing(graph, {name: value}):
            if _alone(graph, each, assigned) and each not in shown and _sets(graph, each, {name: value}):
                row = _hypothesis(graph, each)
                if row.state in AGAINST:
                    found.append(row)
    return list({each.id: each for each in found}.values())


def _hypothesis(graph: Graph, hypothesis: str) -> Row:
    told = listed(changes_words(changes_of(graph, hypothesis)))
    below = [down_to_samples(graph, each, "tested by") for each in tests_of(graph, hypothesis)]
    reason = graph.nodes[hypothesis].get("state_reason")
    because = f"{told}. {reason}" if reason and not below else told
    return row_of(graph, hypothesis, because=because, rows=below)


def _said(graph: Graph, tests: Sequence[str]) -> list[str]:
    """The findings that verdicts of these tests bear on."""
    said = OF_EVIDENCE.values()
    return list(dict.fromkeys(f for each in tests for f in to(graph, each, *said, kind=NodeKind.FINDING)))


def _findings(graph: Graph, findings: Sequence[str], imported: ImportedOf) -> Section:
    against = [each for each in findings if _speaks_against(graph.nodes[each])]
    return section_of(
        "Findings against it",
        against,
        lambda each: row_of(
            graph, each, because=graph.nodes[each].get("status_reason"), rows=imported(each)[:MOST_IMPORTED]
        ),
        "No finding speaks against it.",
    )


def _speaks_against(finding: Mapping[str, object]) -> bool:
    """By what it says, whichever rule it is of: what another verdict confirmed may be of either side."""
    says = finding.get("says")
    return finding.get("rule") in AGAINST_RULES if says is None else says != Saying.HELPS.value


def _confounded(graph: Graph, tests: Sequence[str]) -> Section:
    found = [each for each in tests if graph.nodes[each].get("outcome") == "confounded"]

    def row(test: str) -> Row:
        below = [row_of(graph, h, "taken apart by") for h in into(graph, test, Relation.FOLLOWS_UP)]
        return row_of(graph, test, because=graph.nodes[test].get("reason"), rows=below)

    return section_of(
        "Confounded tests",
        found,
        row,
        "No test of it was confounded.",
        "control and candidate differed by more than the change",
    )


def _failures(graph: Graph, failures: Sequence[Failure]) -> tuple[Section, ...]:
    """What failed elsewhere for what this sets; no section where nothing did."""
    found = {each.experiment: each for each in reversed(failures) if each.experiment in graph}
    if not found:
        return ()
    rows = [_failure(graph, each) for each in reversed(found.values())]
    title = "Failures put down to what it sets"
    return (section(title, rows, "", "in tests of something else, by the engine's own words"),)


def _failure(graph: Graph, failure: Failure) -> Row:
    relation = "did not run with other versions" if failure.moved else "did not run"
    row = down_to_samples(graph, failure.experiment, relation)
    because = f"{row.because or ''}{failure.ran_with}".strip() or None
    return row.model_copy(update={"because": because})


def _but(graph: Graph, failures: Sequence[Failure]) -> str:
    """What a reader of one sentence has to know of them: of those with the versions of here, else of the
    others."""
    known = [each for each in failures if each.experiment in graph]
    told = [each for each in known if not each.moved] or known
    if not told:
        return ""
    values = listed(list(dict.fromkeys(each.values for each in told)))
    labels = some(list(dict.fromkeys(each.experiment for each in told)), MOST_NAMED)
    did_not = f"he candidate of {labels} did not run, which was put down to {values}"
    if not told[0].moved:
        return f" T{did_not}."
    moved = listed(list(dict.fromkeys(str(each) for failure in told for each in failure.moved))[:MOST_NAMED])
    return f" With other versions than run here ({moved}) t{did_not}; that rules nothing out here."


def _legal(objections: Sequence[Objection]) -> Section:
    rows = [Row(id=each.id, state=each.mark.value, text=each.text) for each in objections]
    return section("Model, engine and target", rows, "They allow it.", "checked before anything is run")


def _steered(objections: Sequence[Objection]) -> Section:
    rows = [Row(id=each.id, text=each.text) for each in objections]
    return section("Your steering", rows, "You ruled nothing of it out.")
