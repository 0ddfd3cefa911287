"""What of this machine's software differs from what a test ran with, told before it runs again.

Prompts and documents are cut from the standard library of the Python that measures, and a job refuses other
texts than those that were sealed: known beforehand, no worker is started for that. Versions of an engine that
differ keep nothing from running; they are one cause more of what may differ.
"""

from __future__ import annotations

import platform

from sqlalchemy import select
from sqlalchemy.orm import Session

from configs.campaign import CHECKPOINT, DUMMY
from db.models import Campaign, Environment, Experiment, Launch
from experiments.corpora.standard_library import fingerprint, held_out_modules
from experiments.job.versions_here import no_engine_here, versions_here
from experiments.recording import texts_of
from knowledge.figures import listed
from knowledge.findings.facts import versions_of_experiments
from knowledge.findings.staleness import of_other_versions
from knowledge.queries.measured.baseline_run import newest_baseline


def cannot_run_here(session: Session, experiment: Experiment, device: str) -> str | None:
    """Why a test can't run again on a device of this machine as its software is, and what to do, in a
    sentence or clause; None where it can."""
    campaign = session.get_one(Campaign, experiment.campaign_id)
    return no_engine_here(str(campaign.spec.get("engine")), device) or _other_texts(session, campaign)


def other_versions_here(session: Session, experiment: Experiment, device: str) -> str | None:
    """In which versions a test ran and in which it would run again on a device of this machine, where they
    differ, and what that means, as a clause; None where they are the same, as far as is known."""
    campaign = session.get_one(Campaign, experiment.campaign_id)
    then = versions_of_experiments(session, [experiment])[experiment.id]
    here = versions_here(str(campaign.spec.get("engine")), device, then)
    moved = of_other_versions(then, here)
    if not moved:
        return None
    return (
        f"it ran with {listed([f'{name} {then[name]}' for name in moved])} and runs again with "
        f"{listed([f'{name} {here[name]}' for name in moved])}, so a difference between the two may come "
        "from that; only where those of then are installed does none"
    )


def _other_texts(session: Session, campaign: Campaign) -> str | None:
    """Why the texts of a campaign's baseline, which its tests are sealed for, can't be cut here."""
    if str(campaign.spec.get("weights", CHECKPOINT)) == DUMMY:
        return None  # its prompts are random words
    baseline = newest_baseline(session, campaign.id)
    then = None if baseline is None else texts_of(session, baseline)
    if baseline is None or then is None or then == fingerprint(held_out_modules()):
        return None
    here = platform.python_version()
    return (
        "its prompts and documents are cut from the standard library of "
        f"{_python_of(session, baseline)}, and that of Python {here} here has other texts: install autoinfer "
        "in the Python of then, or leave it to a worker that has it."
    )


def _python_of(session: Session, experiment_id: int) -> str:
    """The version of Python that an experiment was measured by."""
    query = (
        select(Environment.data[("machine", "python")].as_string())
        .join(Launch, Launch.environment_digest == Environment.digest)
        .where(Launch.experiment_id == experiment_id)
        .order_by(Launch.id)
        .limit(1)
    )
    version = session.scalar(query)
    return "another Python" if version is None else f"Python {version}"
