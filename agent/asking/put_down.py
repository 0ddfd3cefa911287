"""Failures that the engine's own words put down to what something sets, in tests of something else. Reads."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.labels import Noun, format_label
from db.models import Campaign, Experiment, Verdict
from db.models import Configuration as ConfigurationRow
from db.states import ExperimentKind, VerdictOutcome
from experiments.job.blame import blames_of
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.knob import same_value
from knowledge.asking.why_not import Failure

MOST = 5
"""Failures that are told, the newest."""


def failures_put_down(
    session: Session, campaign_id: int, sets: Mapping[str, KnobValue], but: int | None = None
) -> tuple[Failure, ...]:
    """The newest candidates that did not run on the campaign's model, engine and target, where all that the
    failure was put down to has the value that `sets` gives it; without tests of the hypothesis `but`."""
    campaign = session.get_one(Campaign, campaign_id)
    query = (
        select(Experiment, Verdict.judge, ConfigurationRow.knobs)
        .join(Verdict, Verdict.experiment_id == Experiment.id)
        .join(Campaign, Campaign.id == Experiment.campaign_id)
        .join(ConfigurationRow, ConfigurationRow.id == Experiment.candidate_configuration_id)
        .where(
            Verdict.outcome == VerdictOutcome.INFEASIBLE,
            Experiment.kind == ExperimentKind.TEST,
            Experiment.target == campaign.target,
            Campaign.model_fingerprint == campaign.model_fingerprint,
            Campaign.spec["engine"].as_string() == campaign.spec.get("engine"),
        )
        .order_by(Verdict.id.desc())
    )
    found = []
    for experiment, judge, knobs in session.execute(query):
        if but is not None and experiment.hypothesis_id == but:
            continue
        blamed = {knob: knobs[knob] for knob in blames_of(judge) if knob in knobs}
        if blamed and all(knob in sets and same_value(sets[knob], value) for knob, value in blamed.items()):
            label = format_label(Noun.EXPERIMENT, experiment.id)
            found.append(Failure(label, str(Configuration.of(blamed))))
    return tuple(found[:MOST])
