"""What the baseline experiment measured, under the configurations as the campaign knows them now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlalchemy.orm import Session

from agent.campaign.facts import Facts
from agent.campaign.learn import Baseline, read_baseline


def read_measured(session: Session, facts: Facts) -> Baseline:
    """The baseline of a campaign that has one; see `settling` for why digests may have changed."""
    assert facts.baseline_experiment_id is not None
    measured = read_baseline(session, facts.baseline_experiment_id)
    return replace(
        measured,
        tpot_ms=_now(measured.tpot_ms, facts.stored_digests),
        ttft_ms=_now(measured.ttft_ms, facts.stored_digests),
    )


def _now(by_digest: Mapping[str, float], stored: Mapping[str, str]) -> dict[str, float]:
    return {**by_digest, **{now: by_digest[then] for now, then in stored.items() if then in by_digest}}
