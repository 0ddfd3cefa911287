"""What ran behind a finding: the resolved configuration of its candidate, key by key, as texts."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import select
from sqlalchemy.orm import Session

from configs.catalog import Kind, packaged_names
from db.models import Experiment, FindingEvidence, ImportedEvidence, ImportedVerdict, Launch, Verdict
from db.states import AGREEING, Arm
from experiments.space.loading import load_space
from knowledge.queries.measured.resolved import flat


def ran(session: Session, experiment_id: int) -> dict[str, str]:
    """Return what the last launch of an experiment's candidate told of itself; empty where none came up."""
    query = (
        select(Launch.resolved)
        .where(Launch.experiment_id == experiment_id, Launch.arm == Arm.CANDIDATE)
        .order_by(Launch.id.desc())
        .limit(1)
    )
    told = flat(session.scalars(query).first() or {})
    return {key: _text(value) for key, value in told.items() if isinstance(value, str | int | float)}


def pinned_of(told: Mapping[str, str]) -> dict[str, str]:
    """Return the part that a knob of some packaged space can fix: nothing else is of use elsewhere."""
    spaces = [load_space(name) for name in packaged_names(Kind.SPACES)]
    return {key: text for key, text in told.items() if any(space.pinning(key) for space in spaces)}


def ran_behind(session: Session, finding_id: int) -> Mapping[str, str]:
    """Return what ran in the newest experiment that says what a finding says, here or where it was told."""
    here = (
        select(Experiment.id)
        .join(Verdict, Verdict.experiment_id == Experiment.id)
        .join(FindingEvidence, FindingEvidence.verdict_id == Verdict.id)
        .where(FindingEvidence.finding_id == finding_id, FindingEvidence.relation.in_(AGREEING))
        .order_by(Verdict.id.desc())
    )
    for experiment_id in session.scalars(here):
        if told := ran(session, experiment_id):
            return told
    there = (
        select(ImportedVerdict.told)
        .join(ImportedEvidence, ImportedEvidence.imported_verdict_id == ImportedVerdict.id)
        .where(ImportedEvidence.finding_id == finding_id, ImportedEvidence.relation.in_(AGREEING))
        .order_by(ImportedVerdict.id.desc())
    )
    return next((each["ran"] for each in session.scalars(there) if each.get("ran")), {})


def _text(value: str | int | float) -> str:
    """As `Knob.pinning_value` reads it: 2.0 as the number 2."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
