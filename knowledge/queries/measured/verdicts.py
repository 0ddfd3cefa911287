"""Verdicts as they are shown."""

from __future__ import annotations

from datetime import datetime

from db.models import Verdict
from db.models.base import JsonObject
from db.states import VerdictOutcome
from knowledge.queries.view import EffectView, View, verdict_effect


class VerdictView(View):
    """The judge's decision: `launches` and `samples` are the n behind the interval."""

    outcome: VerdictOutcome
    effect: EffectView | None
    reason: str
    launches: int
    samples: int
    quality: JsonObject | None
    judge: JsonObject
    preregistration_digest: str | None
    at: datetime


def verdict_view(verdict: Verdict) -> VerdictView:
    """Return the view of a stored verdict."""
    return VerdictView(
        outcome=verdict.outcome,
        effect=verdict_effect(verdict),
        reason=verdict.reason,
        launches=verdict.launches,
        samples=verdict.samples,
        quality=verdict.quality,
        judge=verdict.judge,
        preregistration_digest=verdict.preregistration_digest,
        at=verdict.created_at,
    )
