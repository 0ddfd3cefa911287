"""Whether something is ruled out, in one sentence: by its verdicts, by what can't run, by the user. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from knowledge.asking.answer import some
from knowledge.asking.objections import MOST_NAMED, Objection
from knowledge.asking.walking import WAITING, tests_of
from knowledge.figures import listed
from knowledge.graph.typed_graph import Graph

REFUSED = ("refuted", "infeasible")
"""Outcomes that rule a change out."""


def _blocks(objections: Sequence[Objection]) -> str | None:
    return next((each.text for each in objections if each.absolute), None)


def verdict_on_hypothesis(
    hypothesis: str,
    data: Mapping[str, str],
    tests: Sequence[str],
    legality: Sequence[Objection],
    steering: Sequence[Objection],
    graph: Graph,
) -> str:
    """Return what became of a hypothesis, by the newest of its `tests` that is decided, or that it waits."""
    state, reason = data.get("state", ""), data.get("state_reason")
    last = next((each for each in reversed(tests) if graph.nodes[each].get("outcome")), None)
    if state in ("refuted", "infeasible", "confounded", "inconclusive") and last is not None:
        said = graph.nodes[last].get("reason") or reason or "no reason is known"
        ruled = "ruled out" if state in REFUSED else "not settled"
        return f"{hypothesis} is {ruled}: {last} found it {state}. {said}"
    if state == "withdrawn":
        why = f" {reason.rstrip('.')}." if reason else ""
        return f"{hypothesis} is ruled out: it was withdrawn.{why}"
    if state == "supported":
        return f"{hypothesis} is not ruled out: it is supported{f' by {last}' if last else ''}."
    blocked = _blocks(steering) or _blocks(legality)
    if blocked is not None:
        return f"{hypothesis} can't be tested as things are: {blocked}"
    return f"{hypothesis} is not ruled out: it is {state}."


def verdict_on_values(
    graph: Graph,
    words: str,
    exact: Sequence[str],
    hypotheses: Sequence[str],
    legality: Sequence[Objection],
    steering: Sequence[Objection],
) -> str:
    """Return what became of values, named by `words`: of all `hypotheses` that set them, the oldest first,
    `exact` set nothing else."""
    blocked = _blocks(legality)
    if blocked is not None:
        return f"{words} is ruled out before anything is run: {blocked}"
    blocked = _blocks(steering)
    if blocked is not None:
        return f"{words} is ruled out by you: {blocked}"
    alone = {each: str(graph.nodes[each].get("state")) for each in exact}
    joint = {each: str(graph.nodes[each].get("state")) for each in hypotheses if each not in alone}
    supported, against = _in(alone, "supported"), _in(alone, *REFUSED)
    together = f"together with others {_decided(joint)}" if _decided(joint) else ""
    differs = bool(_in(joint, "supported") if against else _in(joint, *REFUSED))
    beside = f" {together[0].upper()}{together[1:]}." if differs and not (against and supported) else ""
    if against and supported:
        return (
            f"{words} is not ruled out everywhere: against it {some(against, MOST_NAMED)}, for it "
            f"{some(supported, MOST_NAMED)}."
        )
    if against and _in(alone, *WAITING):
        return (
            f"{words} is not ruled out everywhere: against it {some(against, MOST_NAMED)}, and "
            f"{_waits(alone)}.{beside}"
        )
    if against:
        more = f" and {len(against) - 1} more" if len(against) > 1 else ""
        return f"{words} is ruled out by {against[0]}{more}: {_why(graph, against[0])}{beside}"
    if supported:
        verb = "supports" if len(supported) == 1 else "support"
        return f"{words} is not ruled out: {some(supported, MOST_NAMED)} {verb} it.{beside}"
    if alone and together:
        return f"{words} is not ruled out: alone no test is decided ({_open(alone)}); {together}."
    if together:
        return f"{words} is not ruled out by itself: it was never tested alone; {together}."
    if alone or joint:
        never = "" if alone else " It was never tested alone."
        return f"{words} is not ruled out: no test of it is decided yet ({_open(alone or joint)}).{never}"
    return f"{words} is not ruled out: it was never tried, and nothing known here forbids it."


def _in(states: Mapping[str, str], *wanted: str) -> list[str]:
    """The hypotheses in one of these states, the newest first."""
    return [each for each in reversed(list(states)) if states[each] in wanted]


def _came_out(states: Mapping[str, str], wanted: Iterable[str]) -> list[str]:
    """The hypotheses in each of these states: `H-015 was refuted`."""
    found = [(each, _in(states, each)) for each in wanted]
    return [
        f"{some(labels, MOST_NAMED)} {'was' if len(labels) == 1 else 'were'} {state}"
        for state, labels in found
        if labels
    ]


def _decided(states: Mapping[str, str]) -> str:
    return listed(_came_out(states, ("supported", *REFUSED)))


def _waits(states: Mapping[str, str]) -> str:
    waiting = _in(states, *WAITING)
    verb = "waits for its test" if len(waiting) == 1 else "wait for their tests"
    return f"{some(waiting, MOST_NAMED)} {verb}"


def _open(states: Mapping[str, str]) -> str:
    """Those that no verdict decided, and why."""
    waits = [_waits(states)] if _in(states, *WAITING) else []
    return listed([*waits, *_came_out(states, ("inconclusive", "confounded", "withdrawn"))])


def _why(graph: Graph, hypothesis: str) -> str:
    judged = [each for each in tests_of(graph, hypothesis) if graph.nodes[each].get("reason")]
    if judged:
        return str(graph.nodes[judged[-1]]["reason"])
    return str(graph.nodes[hypothesis].get("state_reason") or "no reason is known")
