"""Failures that the engine's own words put down to what something sets, in tests of something else. Reads."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.campaign.known.ruled_out import versions_here
from db.labels import Noun, format_label
from db.models import Campaign, Experiment, Verdict
from db.models import Configuration as ConfigurationRow
from db.states import ExperimentKind, VerdictOutcome
from experiments.job.blame import blames_of
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.knob import same_value
from knowledge.asking.objections import Failure, Moved
from knowledge.findings.facts import versions_of_experiments
from knowledge.findings.staleness import of_other_versions
from knowledge.stored import engine_of

MOST = 5
"""Failures that are told, the newest."""


def failures_put_down(
    session: Session, campaign_id: int, sets: Mapping[str, KnobValue], but: int | None = None
) -> tuple[Failure, ...]:
    """The newest candidates that did not run on the campaign's model, engine and target, where all that the
    failure was put down to has the value that `sets` gives it; without tests of the hypothesis `but`.

    Those first that ran with the versions of here, as the scope of a finding has them: what ran with others
    says nothing of these.
    """
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
    blamed_by: dict[int, str] = {}
    found = []
    for experiment, judge, knobs in session.execute(query):
        if but is not None and experiment.hypothesis_id == but:
            continue
        blamed = {knob: knobs[knob] for knob in blames_of(judge) if knob in knobs}
        if blamed and all(knob in sets and same_value(sets[knob], value) for knob, value in blamed.items()):
            found.append(experiment)
            blamed_by[experiment.id] = str(Configuration.of(blamed))
    if not found:
        return ()
    engine, here = engine_of(campaign.spec), versions_here(session, campaign)
    ran = versions_of_experiments(session, found)
    failures = [
        Failure(
            format_label(Noun.EXPERIMENT, each.id),
            blamed_by[each.id],
            _of_the_engine(engine, ran[each.id]),
            tuple(
                Moved(name, str(ran[each.id][name]), str(here[name]))
                for name in of_other_versions(ran[each.id], here)
            ),
        )
        for each in found
    ]
    return tuple(sorted(failures, key=lambda each: bool(each.moved))[:MOST])


def _of_the_engine(engine: str, versions: Mapping[str, object]) -> str:
    """The version of an engine among those of its packages, in words; that of PyTorch for an engine that is
    no package of its own. Empty where it is not known."""
    names = (engine, f"{engine}-cpu", "torch")
    return next((f"{name} {versions[name]}" for name in names if versions.get(name)), "")
