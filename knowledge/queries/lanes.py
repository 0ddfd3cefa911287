"""The whole graph lever by lever: what was tried of each, what came of it, and how much was not tried yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.labels import Noun, format_label
from db.models import Experiment, FindingEvidence, Hypothesis, Verdict
from db.states import HypothesisState
from knowledge.queries.view import View
from knowledge.stored import LEVER_JOINT

MOST_TOGETHER = 3
"""Levers changed together that have a lane of their own; more of them share one, for random search joins a
dozen, hardly ever the same ones."""

MOST_LINES, MOST_LINES_OF_ONE = 4, 50
"""Hypotheses of a lane that are shown one by one: among other lanes, and where one lever was asked for."""

_SHOWN_FIRST = tuple(HypothesisState(word) for word in ("supported", "testing", "refuted", "infeasible"))


class LaneTest(View):
    """An experiment of a hypothesis; `outcome` is its verdict's, or its own state before there is one."""

    id: str
    outcome: str


_Tests = dict[int | None, list[LaneTest]]
"""By the number of the hypothesis."""


class LaneLine(View):
    """A hypothesis that was tested: its tests, oldest first, and the findings to which their verdicts led."""

    id: str
    claim: str
    state: HypothesisState
    tests: tuple[LaneTest, ...]
    findings: tuple[str, ...]


class Lane(View):
    """A lever, or several changed together: `states` counts all its hypotheses, `more` are tested ones that
    are not among the `lines`. `lever` is None for the lane of all that join more than `MOST_TOGETHER`."""

    lever: str | None
    states: dict[HypothesisState, int]
    lines: tuple[LaneLine, ...]
    more: int


class Lanes(View):
    """Lanes of which something was tested, in the order in which each was proposed first; and, folded to a
    number each, those that only wait."""

    lanes: tuple[Lane, ...]
    untested: tuple[Lane, ...]


def list_lanes(session: Session, lever: str | None = None) -> Lanes:
    """Return the lanes of all campaigns, or those in which this lever is changed."""
    columns = (Hypothesis.id, Hypothesis.lever, Hypothesis.state)
    found: dict[str | None, list[tuple[int, HypothesisState]]] = {}
    for number, joined, state in session.execute(select(*columns).order_by(Hypothesis.id)):
        names = joined.split(LEVER_JOINT)
        if lever is None or lever == joined or lever in names:
            lane = joined if len(names) <= MOST_TOGETHER else None
            found.setdefault(lane, []).append((number, state))
    tests = _tests(session)
    most = MOST_LINES if lever is None else MOST_LINES_OF_ONE
    chosen = {name: _chosen(rows, tests) for name, rows in found.items()}
    lines = _lines(session, [each for tested in chosen.values() for each in tested[:most]], tests)
    lanes = [
        Lane(
            lever=name,
            states=_counted(rows),
            lines=tuple(lines[each] for each in chosen[name][:most]),
            more=max(0, len(chosen[name]) - most),
        )
        for name, rows in found.items()
    ]
    return Lanes(
        lanes=tuple(each for each in lanes if each.lines),
        untested=tuple(each for each in lanes if not each.lines),
    )


def _counted(rows: Iterable[tuple[int, HypothesisState]]) -> dict[HypothesisState, int]:
    """How many have each state; what was found first, then what is going on, then what waits."""
    found = Counter(state for _, state in rows)
    order = (*_SHOWN_FIRST, *reversed(HypothesisState))
    return {state: found[state] for state in dict.fromkeys(order) if state in found}


def _chosen(rows: Iterable[tuple[int, HypothesisState]], tests: _Tests) -> list[int]:
    """The tested ones: first what was found, then what is being found, then the rest; each newest first."""
    order = {state: place for place, state in enumerate(_SHOWN_FIRST)}
    tested = [(order.get(state, len(order)), -number) for number, state in rows if number in tests]
    return [-number for _, number in sorted(tested)]


def _tests(session: Session) -> _Tests:
    found: _Tests = {}
    query = (
        select(Experiment.id, Experiment.hypothesis_id, Experiment.state, Verdict.outcome)
        .outerjoin(Verdict, Verdict.experiment_id == Experiment.id)
        .where(Experiment.hypothesis_id.is_not(None))
        .order_by(Experiment.id)
    )
    for number, hypothesis, state, outcome in session.execute(query):
        label = format_label(Noun.EXPERIMENT, number)
        found.setdefault(hypothesis, []).append(LaneTest(id=label, outcome=outcome or state))
    return found


def _lines(session: Session, numbers: list[int], tests: _Tests) -> dict[int, LaneLine]:
    rows = select(Hypothesis.id, Hypothesis.claim, Hypothesis.state).where(Hypothesis.id.in_(numbers))
    led = (
        select(Experiment.hypothesis_id, FindingEvidence.finding_id)
        .join(Verdict, Verdict.experiment_id == Experiment.id)
        .join(FindingEvidence, FindingEvidence.verdict_id == Verdict.id)
        .where(Experiment.hypothesis_id.in_(numbers))
        .order_by(FindingEvidence.finding_id)
    )
    findings: dict[int | None, dict[str, None]] = {}
    for hypothesis, finding in session.execute(led):
        findings.setdefault(hypothesis, {})[format_label(Noun.FINDING, finding)] = None
    return {
        number: LaneLine(
            id=format_label(Noun.HYPOTHESIS, number),
            claim=claim,
            state=state,
            tests=tuple(tests[number]),
            findings=tuple(findings.get(number, ())),
        )
        for number, claim, state in session.execute(rows)
    }
