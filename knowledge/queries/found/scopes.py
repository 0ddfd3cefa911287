"""Where findings hold, in a line, and what tells those apart that would read alike: their controls."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from configs.asked_over import ASKED_OVER, HTTP
from db.models import Finding
from knowledge.change_words import shown
from knowledge.scope import TOKENS_A_STEP

MOST_NAMED = 3
"""Knobs of a control that are named, or as many as tell it from all the others."""

_CONTROL_MARK = " #"
"""What stands in a finding's key between metric and change, and the digest of the rest of its scope."""


def scope_words(scope: Mapping[str, Any]) -> str:
    """Return where a finding holds, without versions and control: `reference · Example CPU · reference · 128
    tokens in, 32 out`."""
    target = str(scope.get("target") or "")
    place = target.split(":")[1] if ":" in target else target
    load = scope.get("workload") or {}
    parts = [scope.get("model"), place, scope.get("engine")]
    if load.get("prompt_tokens"):
        out = f", {load['new_tokens']} out" if load.get("new_tokens") else ""
        parts.append(f"{load['prompt_tokens']} tokens in{out}")
    if load.get("concurrency", 1) > 1:
        parts.append(f"concurrency {load['concurrency']}")
    if load.get(TOKENS_A_STEP):
        parts.append(f"up to {load[TOKENS_A_STEP]:,} tokens a step")
    if load.get(ASKED_OVER) == HTTP:
        parts.append("over HTTP")
    return " · ".join(str(each) for each in parts if each)


def scope_lines(session: Session, findings: Sequence[Finding]) -> dict[int, str]:
    """Return where each of these findings holds, with what its control has that tells it from findings which
    would read alike."""
    beside = besides(session, findings)
    return {
        each.id: " · ".join(filter(None, (scope_words(each.scope), beside.get(each.id)))) for each in findings
    }


def besides(session: Session, findings: Sequence[Finding]) -> dict[int, str]:
    """Return what the controls of findings have, `beside serving.threads 2`, of those alone of which another
    says the same change of another control in the same place; one statement."""
    of_length: dict[int, set[str]] = defaultdict(set)
    for each in findings:
        if _CONTROL_MARK in each.key:
            begins = _change(each.key) + _CONTROL_MARK
            of_length[len(begins)].add(begins)
    if not of_length:
        return {}
    # one condition for each length, since one for each change would be too many
    same = [func.substr(Finding.key, 1, length).in_(begin) for length, begin in sorted(of_length.items())]
    alike: dict[tuple[str, str], dict[int, Mapping[str, Any]]] = defaultdict(dict)
    for number, key, scope in session.execute(
        select(Finding.id, Finding.key, Finding.scope).where(or_(*same))
    ):
        alike[_change(key), scope_words(scope)][number] = scope.get("control") or {}
    found = {}
    for each in findings:
        controls = alike.get((_change(each.key), scope_words(each.scope)), {})
        if each.id in controls and (words := beside(controls[each.id], list(controls.values()))):
            found[each.id] = words
    return found


def beside(control: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> str:
    """Return the knobs of a control in which others are not like it, those that tell it from most first;
    empty where they all are."""
    knobs = {knob for each in (control, *others) for knob in each}
    left = {knob for knob in knobs if any(each.get(knob) != control.get(knob) for each in others)}
    like, named = list(others), 0
    order: list[str] = []
    while left:
        best = min(left, key=lambda knob: (_left(knob, control, like), knob not in control, knob))
        if _left(best, control, like) < len(like):
            like = [each for each in like if each.get(best) == control.get(best)]
            named += 1
        order.append(best)
        left.remove(best)
    most = max(MOST_NAMED, named)
    has = [f"{knob} {shown(control[knob])}" for knob in order[:most] if knob in control]
    lacks = [knob for knob in order[:most] if knob not in control]
    told = [f"{word} {', '.join(each)}" for word, each in (("beside", has), ("without", lacks)) if each]
    more = f" and {len(order) - most} more" if len(order) > most else ""
    return f"{', '.join(told)}{more}" if told else ""


def _left(knob: str, control: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> int:
    """How many others a knob does not tell a control from."""
    return sum(each.get(knob) == control.get(knob) for each in others)


def _change(key: str) -> str:
    """Metric and change of a finding, from its key."""
    return key.partition(_CONTROL_MARK)[0]
