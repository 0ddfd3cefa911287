"""Which hypotheses and experiments are of made-up weights, by their labels."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import select
from sqlalchemy.orm import Session

from configs.campaign import DUMMY
from db.labels import Noun, format_label, parse_label_of
from db.models import Campaign, Experiment, Hypothesis


def latency_only_among(session: Session, labels: Collection[str]) -> frozenset[str]:
    """Return those of these labels whose weights are made up: of a hypothesis its campaign's, of an
    experiment those of its plan. A statement for each noun that is among them."""
    hypotheses = _numbers(labels, Noun.HYPOTHESIS)
    experiments = _numbers(labels, Noun.EXPERIMENT)
    found: set[str] = set()
    if hypotheses:
        proposed = (
            select(Hypothesis.id)
            .join(Campaign, Campaign.id == Hypothesis.campaign_id)
            .where(Hypothesis.id.in_(hypotheses), Campaign.spec["weights"].as_string() == DUMMY)
        )
        found |= {format_label(Noun.HYPOTHESIS, each) for each in session.scalars(proposed)}
    if experiments:
        run = select(Experiment.id).where(
            Experiment.id.in_(experiments), Experiment.plan["latency_only"].as_boolean()
        )
        found |= {format_label(Noun.EXPERIMENT, each) for each in session.scalars(run)}
    return frozenset(found)


def _numbers(labels: Collection[str], noun: Noun) -> list[int]:
    start = format_label(noun, 0)[:2]
    return [parse_label_of(noun, each) for each in labels if each.startswith(start)]
