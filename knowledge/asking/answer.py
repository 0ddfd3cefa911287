"""What every question of the graph is answered with: a sentence, and sections of rows that lead on."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar

from configs.authors import author_words
from knowledge.claim_scope import claim_and_scope
from knowledge.figures import DEFAULT_METRIC, listed, metric_word
from knowledge.graph.typed_graph import Graph, NodeKind, Relation
from knowledge.latency_only import LATENCY_ONLY
from knowledge.machines import machine
from knowledge.queries.view import EffectView, View

MOST_ROWS = 12
"""Rows of a section that are shown; how many more there are is told."""

Thing = TypeVar("Thing")

ImportedOf: TypeAlias = Callable[[str], "Sequence[Row]"]
"""Returns rows on the verdicts of another database that say something of a finding, by its label."""


class Question(StrEnum):
    """What can be asked."""

    KNOWN = "known"
    WHY_NOT = "why-not"
    LED_TO = "led-to"
    IF_FELL = "if-fell"
    UNTESTED = "untested"


class Row(View):
    """A line of an answer: `id` is a label or a node's name, `relation` how it hangs on the row above it,
    `state` an outcome, a state or what an objection comes to, `because` the reason in words, `command` one
    that shows it; `effect` what was measured, or with `expected` what is believed before a test; `scope`
    where alone a finding holds, and `doubt` what speaks against it beside its own verdicts, as a clause;
    `latency_only`: a hypothesis or an experiment of made-up weights; `rows` what it rests on or led to."""

    text: str
    id: str | None = None
    relation: str | None = None
    state: str | None = None
    scope: str | None = None
    doubt: str | None = None
    because: str | None = None
    command: str | None = None
    effect: EffectView | None = None
    expected: bool = False
    latency_only: bool = False
    rows: tuple[Row, ...] = ()

    @property
    def tells_effect(self) -> bool:
        """Whether the text has the figure of the effect already, as a finding's claim does."""
        if self.effect is None:
            return False
        figure = re.escape(f"{abs(100 * self.effect.relative):.1f}")
        return re.search(rf"(?<![\d.]){figure}\s?%", self.text) is not None


class Section(View):
    """A part of an answer; `none` is what is said where it has no rows, `left_out` counts those not shown."""

    title: str
    about: str
    rows: tuple[Row, ...]
    none: str
    left_out: int = 0


class Answer(View):
    """An answer: what was asked in words, the answer in a sentence, and what it rests on."""

    question: Question
    asked: str
    sentence: str
    sections: tuple[Section, ...]


def section(title: str, rows: Iterable[Row], none: str, about: str = "", most: int = MOST_ROWS) -> Section:
    """Return a section of the first `most` rows."""
    return section_of(title, tuple(rows), lambda row: row, none, about, most)


def section_of(
    title: str,
    things: Sequence[Thing],
    row: Callable[[Thing], Row],
    none: str,
    about: str = "",
    most: int = MOST_ROWS,
) -> Section:
    """Return a section of the rows of the first `most` things; of the others none is made."""
    return Section(
        title=title,
        about=about,
        rows=tuple(row(each) for each in things[:most]),
        none=none,
        left_out=max(0, len(things) - most),
    )


_LABEL = re.compile(r"\b[HE]-[0-9]{1,15}\b", re.ASCII)
"""A hypothesis or an experiment, as a sentence names it."""


def findings_in(answer: Answer) -> set[str]:
    """Return the labels of the findings that an answer tells of."""
    return {each for each in _ids(answer) if each.startswith("F-")}


def tests_in(answer: Answer) -> set[str]:
    """Return the labels of the hypotheses and the experiments that an answer's rows and sentence name."""
    return {each for each in _ids(answer) if _LABEL.fullmatch(each)} | set(_LABEL.findall(answer.sentence))


def _ids(answer: Answer) -> set[str]:
    rows = [row for each in answer.sections for row in each.rows]
    found = set()
    while rows:
        row = rows.pop()
        rows += row.rows
        if row.id is not None:
            found.add(row.id)
    return found


def with_latency_only(answer: Answer, made_up: Collection[str]) -> Answer:
    """Return the answer with those of its hypotheses and experiments marked that are of made-up weights, by
    their labels; its sentence says so of those that it names."""
    if not made_up:
        return answer

    def told(rows: Sequence[Row]) -> tuple[Row, ...]:
        return tuple(
            each.model_copy(update={"latency_only": each.id in made_up, "rows": told(each.rows)})
            for each in rows
        )

    said = [each for each in dict.fromkeys(_LABEL.findall(answer.sentence)) if each in made_up]
    more = f" {listed(said)} {'is' if len(said) == 1 else 'are'} {LATENCY_ONLY}." if said else ""
    sections = [each.model_copy(update={"rows": told(each.rows)}) for each in answer.sections]
    return answer.model_copy(update={"sections": tuple(sections), "sentence": f"{answer.sentence}{more}"})


def with_scopes(answer: Answer, scopes: Mapping[str, str], doubts: Mapping[str, str]) -> Answer:
    """Return the answer with the scope of each finding by its label, and what speaks against it."""

    def told(rows: Sequence[Row]) -> tuple[Row, ...]:
        return tuple(
            each.model_copy(
                update={
                    "scope": scopes.get(each.id or ""),
                    "doubt": doubts.get(each.id or ""),
                    "rows": told(each.rows),
                }
            )
            for each in rows
        )

    sections = [each.model_copy(update={"rows": told(each.rows)}) for each in answer.sections]
    return answer.model_copy(update={"sections": tuple(sections)})


def none_imported(finding: str) -> Sequence[Row]:
    """As `ImportedOf`, where nothing was imported."""
    return ()


def effect_of(data: dict[str, Any]) -> EffectView | None:
    """Return the effect that a node of the graph carries."""
    value = data.get("effect")
    if value is None:
        return None
    return EffectView(
        relative=value,
        low=data.get("effect_low"),
        high=data.get("effect_high"),
        metric=data.get("metric", "tpot_ms"),
    )


def row_of(
    graph: Graph,
    node: str,
    relation: str | None = None,
    *,
    because: str | None = None,
    rows: Sequence[Row] = (),
) -> Row:
    """Return the row of a node: what it says, its state and its effect."""
    data = graph.nodes[node]
    kind = data["kind"]
    text = _experiment_words(graph, node) if kind == NodeKind.EXPERIMENT else said_by(data)
    if author := author_of(data):
        because = f"written down by {author}{f'; {because}' if because else ''}"
    return Row(
        id=node,
        relation=relation,
        state=data.get("outcome") or data.get("state"),
        text=text,
        because=because,
        effect=effect_of(data),
        rows=tuple(rows),
    )


def author_of(data: dict[str, Any]) -> str | None:
    """Return who wrote a finding down, in words; None of what was measured, and of anything else."""
    author = data.get("told_by")
    return None if author is None else author_words(str(author))


def said_by(data: dict[str, Any]) -> str:
    """Return what a node says: of a finding that was derived without the scope at the end of its claim, of
    everything else, what a person wrote above all, the whole."""
    title = str(data["title"])
    return claim_and_scope(title, data.get("rule"))[0] if data["kind"] == NodeKind.FINDING else title


def some(labels: Sequence[str], most: int) -> str:
    """Return the first `most` labels as in a sentence, and how many more there are."""
    left = len(labels) - most
    return listed([*labels[:most], *([f"{left} more"] if left > 0 else [])])


def named(graph: Graph, node: str) -> str:
    """Return a node by its label and what it says, in quotes."""
    title = said_by(graph.nodes[node]).rstrip(".")
    if graph.nodes[node]["kind"] == NodeKind.EXPERIMENT:
        return f"{node} ({_experiment_words(graph, node)})"
    return f"{node} (“{title}”)"


def down_to_samples(graph: Graph, experiment: str, relation: str | None = None) -> Row:
    """Return the row of an experiment with its verdict's reason, and below it its samples."""
    data = graph.nodes[experiment]
    samples, launches = data.get("samples"), data.get("launches")
    below = []
    if data.get("failure"):
        below.append(Row(relation="failed", text=str(data["failure"])))
    if samples:
        below.append(
            Row(
                relation="rests on",
                text=f"{samples:,} samples of {metric_word(data.get('metric') or DEFAULT_METRIC)} in the "
                f"{launches or 0} launches that the judge compares",
                command=f"autoinfer show {experiment} --samples",
            )
        )
    return row_of(graph, experiment, relation, because=data.get("reason"), rows=below)


def _experiment_words(graph: Graph, node: str) -> str:
    """What an experiment is, of what and where: `a test of H-026 on NVIDIA H200 (151 GB)`."""
    data = graph.nodes[node]
    purpose = {
        "test": "a test",
        "baseline": "the baseline",
        "reproduce": "a rerun in fresh processes",
        "promote": "a confirmation on another target",
        "noise": "launches for the noise",
    }.get(str(data.get("purpose")), "an experiment")
    tested = next((other for other, edges in graph.succ[node].items() if Relation.TESTS.value in edges), None)
    target = data.get("target")
    return purpose + (f" of {tested}" if tested else "") + (f" on {machine(target)}" if target else "")
