"""Questions of the graph: what is known, why not, what led to it, what if it is wrong, what is untested."""

from __future__ import annotations

from shlex import quote
from typing import Any
from urllib.parse import urlencode

from pydantic import Field
from sqlalchemy.orm import Session

from agent.asking import answers, of_the_graph
from agent.asking.why_not import what_rules_out
from configs.errors import AutoinferError
from dashboard.grounds import ground_of, legal_of
from dashboard.live_graph import graph_of
from dashboard.page import MOMENT_S, Filters, Ground, Page, Request
from db.labels import Noun, format_label
from knowledge.asking.answer import Answer, Question, section
from knowledge.graph.typed_graph import Graph, NodeKind
from knowledge.queries.lookup import campaign_of, newest_campaign
from knowledge.queries.view import View

ABOUT: dict[Question, str] = {
    Question.KNOWN: "A knob, such as serving.threads",
    Question.WHY_NOT: "H-002, a knob, or KNOB=VALUE",
    Question.LED_TO: "H-002, E-0003 or F-001",
    Question.IF_FELL: "F-001, E-0003 or H-002",
    Question.UNTESTED: "",
}
"""What each question is about, as the field says; nothing for one that asks of the campaign's best."""

WORDS: dict[Question, str] = {
    Question.KNOWN: "What is known?",
    Question.WHY_NOT: "Why not?",
    Question.LED_TO: "What led to it?",
    Question.IF_FELL: "What if it is wrong?",
    Question.UNTESTED: "What is untested?",
}
MOST_SUGGESTED = 200
MOST_CHOICES = 24


class AskFilters(Filters):
    """The question, what it is about, and where."""

    question: Question = Field(default=Question.KNOWN, description="Which question.")
    about: str | None = Field(default=None, max_length=400, description="A label, a knob or KNOB=VALUE.")
    on: str | None = Field(default=None, max_length=200, description="Part of the hardware's name.")
    campaign: str | None = Field(default=None, max_length=32)

    @property
    def questions(self) -> tuple[tuple[Question, str], ...]:
        """All questions, with their words."""
        return tuple(WORDS.items())

    def to(self, question: Question) -> str:
        """The address of another question, about the same thing where it can be."""
        of_labels = {Question.WHY_NOT, Question.LED_TO, Question.IF_FELL}
        keeps = {question, self.question} <= of_labels
        return self.href(question=question, about=self.about if keeps else None, on=None)

    def href(self, **changes: object) -> str:
        """The address of this view with something changed."""
        given: dict[str, Any] = self.model_copy(update=changes).model_dump(mode="json", exclude_defaults=True)
        given = {name: value for name, value in given.items() if value is not None}
        return f"/knowledge/ask?{urlencode(given)}" if given else "/knowledge/ask"


class ChoiceView(View):
    """Something that a question may be about: `title` and `state` of what has a label of its own."""

    name: str
    title: str | None = None
    state: str | None = None


class AskView(View):
    """An answer, or None before something was named; `suggested` are names that the question may be about,
    and `choices` the first of them with what they say, where nothing was named."""

    answer: Answer | None
    wants: str
    suggested: tuple[str, ...]
    choices: tuple[ChoiceView, ...] = ()
    hardware: tuple[str, ...]


def read(session: Session, request: Request[AskFilters], ground: Ground) -> AskView:
    """Answer the question; raises `UsageError` as the command does."""
    asked = request.filters
    with graph_of(session) as graph:
        answer, suggested = _answer(session, graph, asked), _suggested(graph, asked.question)
        return AskView(
            answer=answer,
            wants=ABOUT[asked.question],
            suggested=suggested,
            choices=() if answer else tuple(_choice(graph, each) for each in suggested[:MOST_CHOICES]),
            hardware=tuple(
                data["target"] for _, data in graph.nodes(data=True) if data["kind"] == NodeKind.HARDWARE
            ),
        )


def _answer(session: Session, graph: Graph, asked: AskFilters) -> Answer | None:
    if asked.question is Question.UNTESTED:
        if asked.campaign is None and newest_campaign(session) is None:
            return None
        return _untested(session, asked.campaign)
    if asked.about is None or not asked.about.strip():
        return None
    about = asked.about.strip()
    match asked.question:
        case Question.KNOWN:
            return of_the_graph.what_is_known(session, graph, about, asked.on)
        case Question.WHY_NOT:
            return what_rules_out(session, graph, [about], asked.campaign, legal_of)
        case Question.LED_TO:
            return of_the_graph.what_led_to(session, graph, about)
        case _:
            return answers.what_if_fell(session, graph, about, ground_of)


def _choice(graph: Graph, name: str) -> ChoiceView:
    if name not in graph:
        return ChoiceView(name=name)
    found = graph.nodes[name]
    return ChoiceView(name=name, title=found["title"], state=found.get("state"))


def _untested(session: Session, campaign: str | None) -> Answer:
    """What is untested, or why that can't be told here and what to do; raises `UsageError` for a campaign
    that there is not."""
    label = format_label(Noun.CAMPAIGN, campaign_of(session, campaign))
    try:
        return answers.what_is_untested(session, label, ground_of)
    except AutoinferError as error:  # no baseline yet, or no model to tell what is legal
        return Answer(
            question=Question.UNTESTED,
            asked=f"What is untested next to the best of {label}?",
            sentence=f"That can't be told here: {error.message}",
            sections=(section("What to do", (), error.hint or "Ask again where the campaign ran."),),
        )


def _titles(graph: Graph, kind: NodeKind) -> tuple[str, ...]:
    return tuple(sorted(data["title"] for _, data in graph.nodes(data=True) if data["kind"] == kind))


def _suggested(graph: Graph, question: Question) -> tuple[str, ...]:
    """Names to choose from, the newest first; knobs in order."""
    knobs = list(_titles(graph, NodeKind.KNOB))
    if question is Question.KNOWN:
        return tuple(knobs)
    if question is Question.UNTESTED:
        return ()
    wanted = (NodeKind.FINDING, NodeKind.HYPOTHESIS)
    labels = [
        node for kind in wanted for node, found in reversed(list(graph.nodes(data="kind"))) if found == kind
    ]
    return tuple(labels[:MOST_SUGGESTED] + (knobs if question is Question.WHY_NOT else []))


def command(request: Request[AskFilters]) -> str:
    """The same on the command line."""
    asked = request.filters
    line = f"autoinfer graph {asked.question.value}"
    if asked.question is not Question.UNTESTED:
        about = (asked.about or "").split() or [{Question.KNOWN: "KNOB"}.get(asked.question, "LABEL")]
        line += "".join(f" {quote(word)}" for word in about)
    if asked.question is Question.KNOWN and asked.on:
        line += f" --on {quote(asked.on)}"
    if asked.campaign and asked.question in (Question.WHY_NOT, Question.UNTESTED):
        line += f" --campaign {quote(asked.campaign)}"
    return line


PAGE = Page(
    name="ask",
    title="Ask",
    path="/knowledge/ask",
    filters=AskFilters,
    shows=AskView,
    read=read,
    command=command,
    lasts_s=MOMENT_S,
)
