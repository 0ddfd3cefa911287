"""What a sweep before trial 0 could not run, such as an engine's own default: a finding of its own.

The campaign goes round such a configuration, and no verdict is ever reached on it. So it stands as a finding
with its cause, once for each model, target and engine in its versions, and is stale, like any other, once its
target has other versions. A sweep there in which the very configuration was timed contradicts it. Only what
the engine says that it does not do here is one: a crash or a limit of time may have been that launch, and a
want of memory comes of what was up beside it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from db import events
from db.clock import now
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Campaign, Experiment, Finding
from db.models.base import JsonObject
from db.states import FindingStatus
from experiments.job.baseline import FAILED
from experiments.measurement.evidence import Stage
from experiments.recording import load_stages
from experiments.space.configuration import Configuration
from knowledge.figures import clause
from knowledge.findings.facts import versions_of_experiments
from knowledge.findings.rules import Strength
from knowledge.findings.verdict_fact import VERSIONS_MARK
from knowledge.findings.wording import change_in_place
from knowledge.latency_only import latency_only
from knowledge.scope import Scope
from knowledge.stored import configuration_of, engine_of, metric_of

RULE = "R8-sweep"
"""What derived such a finding."""

SWEEP = "sweep"
"""Where the scope of such a finding holds the label of the experiment whose sweep it is of."""

_NOT_DONE_HERE = ("unsupported", "illegal")
"""Kinds of failures (`experiments.engines.port.Infeasible`) that would come again with the same versions."""

_KEY_DIGITS = 16


def update_sweep_failures(
    session: Session,
    experiment_id: int,
    chosen: Configuration,
    timed: Collection[str],
    lever_of: Callable[[Configuration], str],
) -> tuple[int, ...]:
    """Make findings of what the sweep of a baseline could not run, beside what it has `chosen`; returns those
    that are new. `timed` are the digests of the configurations that lasted through it, which contradict what
    was found of them; `lever_of` names the levers by which one differs from the chosen.

    Calling it twice changes nothing more. Appends an event for each finding that is new or changed.
    """
    experiment = session.get_one(Experiment, experiment_id)
    campaign = session.get_one(Campaign, experiment.campaign_id)
    scope = Scope.of(
        model=campaign.model,
        model_fingerprint=campaign.model_fingerprint,
        target=experiment.target,
        engine=engine_of(campaign.spec),
        versions=versions_of_experiments(session, [experiment])[experiment_id],
        workload={},
        control=chosen,
        latency_only=latency_only(campaign.spec),
    )
    for digest in sorted(timed):
        _contradict(session, _key(scope, digest), experiment)
    added = []
    for failed, cause in _failed(session, experiment_id):
        key = _key(scope, failed.digest)
        if session.scalars(select(Finding.id).where(Finding.key == key)).first() is None:
            added.append(_add(session, key, scope, failed, lever_of(failed), cause, experiment))
    return tuple(added)


def _failed(session: Session, experiment_id: int) -> list[tuple[Configuration, str]]:
    """The configurations of the sweep that the engine does not do here, with why."""
    found = []
    for stage in load_stages(session, experiment_id):
        told = stage.detail.get(FAILED) if stage.stage is Stage.SWEEP else None
        for each in told if isinstance(told, Sequence) and not isinstance(told, str) else ():
            if isinstance(each, Mapping) and each.get("kind") in _NOT_DONE_HERE:
                knobs = each.get("configuration")
                if isinstance(knobs, dict):
                    found.append((configuration_of(knobs), str(each.get("cause"))))
    return found


def _add(
    session: Session,
    key: str,
    scope: Scope,
    failed: Configuration,
    lever: str,
    cause: str,
    experiment: Experiment,
) -> int:
    changes = scope.control.changes_to(failed)
    words = f"{change_in_place(changes, scope.control)} does not run: {clause(cause)}"
    label = format_label(Noun.EXPERIMENT, experiment.id)
    objective = session.get_one(Campaign, experiment.campaign_id).objective
    finding = Finding(
        campaign_id=experiment.campaign_id,
        key=key,
        claim=f"{words}; {scope.sentence()}, in the sweep of {label}.",
        scope={**scope.as_json(changes, lever, 0.0), "metric": metric_of(objective), SWEEP: label},
        strength=Strength.SINGLE.value,
        status=FindingStatus.HOLDS,
        rule=RULE,
    )
    session.add(finding)
    session.flush()
    _tell(session, finding, EventKind.FINDING_ADDED, f"{words}.")
    return finding.id


def _contradict(session: Session, key: str, experiment: Experiment) -> None:
    finding = session.scalars(
        select(Finding).where(Finding.key == key, Finding.status == FindingStatus.HOLDS)
    ).first()
    if finding is None:
        return
    finding.status = FindingStatus.CONTRADICTED
    finding.status_reason = f"It ran in {format_label(Noun.EXPERIMENT, experiment.id)}."
    finding.updated_at = now()
    label = format_label(Noun.FINDING, finding.id)
    _tell(session, finding, EventKind.FINDING_CHANGED, f"{label} is contradicted: {finding.status_reason}")


def _tell(session: Session, finding: Finding, kind: EventKind, text: str) -> None:
    data: JsonObject = {
        "rule": RULE,
        "strength": finding.strength,
        "status": finding.status.value,
        "supersedes": [],
    }
    label = format_label(Noun.FINDING, finding.id)
    events.append(session, kind, text, label, finding.campaign_id, data)


def _key(scope: Scope, digest: str) -> str:
    """The same whatever the sweep has chosen, and with whatever it was compared."""
    text = "\n".join([scope.model_fingerprint, scope.target, scope.engine, digest])
    statement = hashlib.sha256(text.encode()).hexdigest()[:_KEY_DIGITS]
    return f"sweep: {statement}{VERSIONS_MARK}{scope.versions_digest[:_KEY_DIGITS]}"
