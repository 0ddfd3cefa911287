"""Verdicts written to a file, and read from another database's: the thin edge of `exchange`."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from configs.errors import UsageError
from db import events
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Configuration, Event, Experiment, ImportedVerdict, Verdict
from experiments.measurement.evidence import Metric
from experiments.space.configuration import Configuration as Point
from knowledge.figures import counted
from knowledge.findings.exchange import ToldVerdict, VerdictFile, readable
from knowledge.findings.facts import facts_of_pair
from knowledge.findings.keeping import FindingChange, update_from_imported
from knowledge.findings.running import pinned_of, ran
from knowledge.findings.verdict_fact import VerdictFact
from knowledge.samples_digest import samples_digest
from knowledge.stored import workload_of


@dataclass(frozen=True)
class Imported:
    """What a file did: verdicts that are new, that were there before, what became of the findings, and what
    is asked of those that disagree since."""

    new: int
    known: int
    findings: tuple[FindingChange, ...]
    disputes: tuple[str, ...] = ()


def export_verdicts(session: Session, origin: str, campaign_id: int | None = None) -> VerdictFile:
    """Return the verdicts of this database that compare two configurations, of one campaign or of all.

    What was imported is not told on: it is its origin's to tell. Nor is what failed because nothing here
    could make it, which says nothing of the change.
    """
    query = (
        select(Verdict.id, Experiment.control_configuration_id, Experiment.candidate_configuration_id)
        .join(Experiment, Experiment.id == Verdict.experiment_id)
        .where(Experiment.candidate_configuration_id.is_not(None))
        .order_by(Verdict.id)
    )
    if campaign_id is not None:
        query = query.where(Experiment.campaign_id == campaign_id)
    wanted = {verdict: (control, candidate) for verdict, control, candidate in session.execute(query)}
    facts = {
        fact.verdict_id: fact
        for pair in dict.fromkeys(wanted.values())
        for fact in facts_of_pair(session, *pair)
        if fact.changes and not fact.not_installed  # an A/A pair compares nothing
    }
    told = tuple(_told(session, facts[each]) for each in wanted if each in facts)
    return VerdictFile(origin=origin, verdicts=told)


def import_verdicts(session: Session, file: VerdictFile) -> Imported:
    """Take the verdicts of another database in, each once; works in the caller's write transaction.

    Verdicts that are this database's own are passed over. Raises `UsageError` for a file without verdicts.
    """
    if not file.verdicts:
        raise UsageError(f"The file from {file.origin} holds no verdict.", "There is nothing to import.")
    known = set(session.scalars(select(ImportedVerdict.digest))) | _own(session, file)
    changes: dict[int, FindingChange] = {}
    new, before = 0, events.last_id(session)
    for told in file.verdicts:
        if told.digest in known:
            continue
        known.add(told.digest)
        new += 1
        row = ImportedVerdict(
            digest=told.digest,
            origin=file.origin,
            key=told.fact(0, file.origin).key,
            told=told.model_dump(mode="json"),
        )
        session.add(row)
        session.flush()
        for change in update_from_imported(session, row):
            first = changes.get(change.finding_id)
            added = change.added or (first is not None and first.added)
            changes[change.finding_id] = FindingChange(change.finding_id, added)
    found = tuple(changes.values())
    if new:
        data = {
            "origin": file.origin,
            "verdicts": new,
            "findings": [format_label(Noun.FINDING, each.finding_id) for each in found],
        }
        said = f"{counted(new, 'verdict')} of {file.origin} imported; findings: {_words(found)}."
        events.append(session, EventKind.FINDING_IMPORTED, said, data=data)
    told_since = select(Event.text).where(Event.kind == EventKind.FINDING_DISPUTED.value, Event.id > before)
    disputes = tuple(session.scalars(told_since.order_by(Event.id)))
    return Imported(new, len(file.verdicts) - new, found, disputes)


def _words(changes: tuple[FindingChange, ...]) -> str:
    added = sum(change.added for change in changes)
    return f"{added} new, {len(changes) - added} changed"


def _own(session: Session, file: VerdictFile) -> set[str]:
    """The digests of this database's own verdicts on the configurations that the file compares."""
    pairs = {(Point.of(each.control).digest, Point.of(each.candidate).digest) for each in file.verdicts}
    digests = {digest for pair in pairs for digest in pair}
    query = select(Configuration.digest, Configuration.id).where(Configuration.digest.in_(digests))
    ids = {digest: number for digest, number in session.execute(query)}  # noqa: C416 - rows, not pairs
    found = set()
    for control, candidate in pairs:
        if control in ids and candidate in ids:
            for fact in facts_of_pair(session, ids[control], ids[candidate]):
                found.add(_told(session, fact).digest)
    return found


def _told(session: Session, fact: VerdictFact) -> ToldVerdict:
    verdict = session.get_one(Verdict, fact.verdict_id)
    experiment = session.get_one(Experiment, verdict.experiment_id)
    scope = fact.scope
    candidate = session.get_one(Configuration, experiment.candidate_configuration_id).knobs
    return ToldVerdict(
        campaign=fact.campaign,
        experiment=format_label(Noun.EXPERIMENT, experiment.id),
        at=verdict.created_at.isoformat(),
        model=scope.model,
        model_fingerprint=scope.model_fingerprint,
        target=scope.target,
        engine=scope.engine,
        versions=dict(scope.versions),
        workload=dict(workload_of(experiment.plan)),
        latency_only=scope.latency_only,
        control=dict(scope.control),
        candidate=candidate,
        ran=pinned_of(ran(session, experiment.id)),
        lever=fact.lever,
        metric=Metric(fact.metric),
        min_effect=fact.min_effect,
        outcome=fact.outcome,
        effect_log=fact.effect_log,
        low_log=fact.low_log,
        high_log=fact.high_log,
        quality=fact.quality_held,
        reason=readable(fact.cause),
        of_an_open_test=fact.of_an_open_test,
        launches=verdict.launches,
        samples=verdict.samples,
        samples_digest=samples_digest(session, experiment.id),
    )
