"""What a place in the queue rests on of what other campaigns found, and how far that is believed now."""

from __future__ import annotations

import math

from sqlalchemy.orm import Session

from agent.campaign.decision.desk import Desk
from agent.campaign.known.facts import Queued
from agent.campaign.known.stale_findings import why_again
from db import events
from db.event_kinds import EventKind
from knowledge.figures import counted, signed
from knowledge.queries.order.carried import carried_view

LEAST_MOVED_LOG = 0.005
"""What moves an expectation by less is not named."""

LEAST_SHARE = 0.2
"""Nor what moves it by less than this share of what moves it most."""

MOST_NAMED = 3
"""Findings that are named."""

TOLD_STEP = 0.1
"""By how much the weight of what was carried has to move to be told again."""

MOST_EXPLAINED = 20
"""Places at the head of the queue whose expectation is explained."""


def rests_on(desk: Desk, queued: Queued) -> str:
    """Which findings of other campaigns an expectation rests on and why a change is tested of which a finding
    speaks already, as sentences; empty where nothing was carried over."""
    facts = desk.facts
    said = why_again(facts, queued.control, queued.candidate, desk.trust)
    sentences = [f"{said}."] if said else []
    moved = {
        label: log
        for label, log in desk.beliefs.latency.rests_on(queued.control, queued.candidate).items()
        if abs(log) >= LEAST_MOVED_LOG
    }
    if moved and queued.metric == facts.objective:
        most = max(map(abs, moved.values()))
        named = [(label, log) for label, log in moved.items() if abs(log) >= LEAST_SHARE * most][:MOST_NAMED]
        told = ", ".join(f"{label} ({signed(100 * math.expm1(log))} %)" for label, log in named)
        more = len(moved) - len(named)
        sentences.append(
            f"What is expected rests on {told}{f' and {more} more' if more else ''}, "
            f"carried over at a weight of {100 * desk.trust:.0f} %."
        )
    return " ".join(sentences)


def tell_carried(session: Session, desk: Desk) -> None:
    """Tell in the log how far what was carried over is believed, where it was not told yet, has moved, or an
    outcome here has tried it for the first time."""
    belief, facts = desk.beliefs.latency.belief, desk.facts
    if not facts.carried:
        return
    weight, before = belief.carried_weight, carried_view(session, facts.id)
    judged = sum(each.effect_log is not None for each in facts.trials)
    if before is not None and abs(before.weight - weight) < TOLD_STEP and (before.judged or not judged):
        return
    scopes = list(dict.fromkeys(each.scope for each in facts.carried))
    findings = list(dict.fromkeys(each.finding for each in facts.carried if each.finding))
    by_scope = {scope: belief.weight_of(scope) for scope in scopes}
    what = f"{counted(len(facts.carried), 'outcome')} of {counted(len(scopes), 'other campaign')}"
    since = (
        "before anything was measured here"
        if not judged
        else f"after {counted(judged, 'outcome')} here, {_moved(before.weight, weight)}"
        if before is not None
        else f"after {counted(judged, 'outcome')} here"
    )
    events.append(
        session,
        EventKind.CAMPAIGN_CARRIED,
        f"{what} carried over count {100 * weight:.0f} % {since}",
        campaign_id=facts.id,
        data={
            "weight": weight,
            "outcomes": len(facts.carried),
            "campaigns": by_scope,
            "findings": findings,
            "judged": judged,
        },
    )


def _moved(before: float, now: float) -> str:
    if f"{100 * now:.0f}" == f"{100 * before:.0f}":
        return "which they foretold as well as physics and this campaign alone did"
    how = "which they foretold better" if now > before else "which they foretold worse"
    return f"{how} than physics and this campaign alone did ({100 * before:.0f} % before)"
