"""Findings kept up to date: the thin edge between `knowledge.findings.rules` and the database.

Call `update_findings` in the transaction that writes the verdict, so that no verdict is ever without what it
says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from db import events
from db.clock import now
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import (
    Configuration,
    Experiment,
    Finding,
    FindingEvidence,
    ImportedEvidence,
    ImportedVerdict,
    Verdict,
)
from db.states import FindingStatus
from knowledge.findings.facts import facts_of_pair, imported_fact, imported_facts, pair_of
from knowledge.findings.news import news_of
from knowledge.findings.rules import FindingDraft, derive
from knowledge.findings.staleness import Ran, closed_at, follow_versions, is_closed
from knowledge.findings.superseding import supersede
from knowledge.findings.telling import tell_disputes
from knowledge.findings.verdict_fact import Source, VerdictFact
from knowledge.stored import configuration_of

_GENERATION_MARK = "~"
"""Between a key and the number of its generation: a stale finding keeps its key, what comes after it gets the
next."""


@dataclass(frozen=True, slots=True)
class FindingChange:
    """What a verdict did to the findings: the finding's id, and whether it is new."""

    finding_id: int
    added: bool


def update_findings(session: Session, verdict_id: int, *, follow: bool = True) -> tuple[FindingChange, ...]:
    """Derive again the finding that the verdict bears on; return what changed, empty when nothing did.

    Works on all verdicts of the same change, metric and scope, the imported too, so calling it twice changes
    nothing more. Where the finding was marked stale by a note, its verdicts stay with it, imported ones from
    before the note join them, and later ones make a new finding that supersedes it. Of findings of the same
    statement on other versions the newer supersedes the older (`superseding`); what else was found with
    other versions becomes stale, unless `follow` is false. Appends the events last.
    """
    facts = facts_of_pair(session, *pair_of(session, verdict_id))
    fact = next((each for each in facts if each.verdict_id == verdict_id), None)
    if fact is None:
        return ()
    same = [each for each in facts if each.key == fact.key]
    changes = _keep(session, fact, [*same, *imported_facts(session, fact.key)], is_now=follow)
    experiment_id = session.get_one(Verdict, verdict_id).experiment_id
    ran = Ran(fact.scope.target, fact.scope.engine, dict(fact.scope.versions))
    label = format_label(Noun.EXPERIMENT, experiment_id)
    followed = follow_versions(session, ran, label) if follow else ()
    tell_disputes(session, [change.finding_id for change in changes])
    known = {change.finding_id for change in changes}
    return (*changes, *(FindingChange(each, added=False) for each in followed if each not in known))


def update_from_imported(session: Session, row: ImportedVerdict) -> tuple[FindingChange, ...]:
    """Derive again the finding that an imported verdict bears on, as `update_findings` of one of here."""
    fact = imported_fact(row)
    told = [row.told["control"], row.told["candidate"]]
    digests = [configuration_of(knobs).digest for knobs in told]
    ids = dict(
        session.execute(
            select(Configuration.digest, Configuration.id).where(Configuration.digest.in_(digests))
        ).all()
    )
    here = facts_of_pair(session, *(ids[each] for each in digests)) if len(ids) == len(set(digests)) else []
    same = [each for each in here if each.key == fact.key]
    changes = _keep(session, fact, [*same, *imported_facts(session, fact.key)], is_now=False)
    tell_disputes(session, [change.finding_id for change in changes])
    return changes


def _keep(
    session: Session, fact: VerdictFact, facts: Sequence[VerdictFact], *, is_now: bool
) -> tuple[FindingChange, ...]:
    """Derive the finding that `fact` bears on from all `facts` of its statement; `is_now`: its target has its
    versions now."""
    before = _closed_since(session, fact)
    if before is not None:
        return _bear_on_closed(session, before, fact, facts)
    latest, generation = _latest(session, fact.key)
    settled = _settled(session, fact.key, latest)
    draft = derive([each for each in facts if each.source not in settled])
    if draft is None:
        return ()
    if latest is not None and not is_closed(latest):
        return _change(session, latest, draft, is_now=is_now)
    key = fact.key if latest is None else f"{fact.key}{_GENERATION_MARK}{generation + 1}"
    return (_add(session, key, draft, latest, is_now=is_now),)


def _generations(session: Session, key: str) -> Sequence[Finding]:
    query = (
        select(Finding)
        .where((Finding.key == key) | Finding.key.startswith(key + _GENERATION_MARK, autoescape=True))
        .order_by(Finding.id)
    )
    return session.scalars(query).all()


def _latest(session: Session, key: str) -> tuple[Finding | None, int]:
    found = _generations(session, key)
    return (found[-1] if found else None), len(found)


def _closed_since(session: Session, fact: VerdictFact) -> Finding | None:
    """The first finding of its statement that was closed after an imported verdict was reached, wherever that
    was: what was closed then speaks of that one too. None where it came after all of them."""
    if not fact.imported or fact.measured_at is None:
        return None
    for finding in _generations(session, fact.key):
        closed = closed_at(session, finding)
        if closed is not None and fact.measured_at <= closed:
            return finding
    return None


def _bear_on_closed(
    session: Session, finding: Finding, fact: VerdictFact, facts: Sequence[VerdictFact]
) -> tuple[FindingChange, ...]:
    """Derive a closed finding again with one verdict more; it stays closed."""
    rests_on = {_source(each) for each in _evidence(session, finding)} | {fact.source}
    draft = derive([each for each in facts if each.source in rests_on])
    assert draft is not None  # it was derived without this one
    held, reason = finding.status, finding.status_reason
    before = (finding.claim, finding.rule, finding.strength)
    _write(finding, draft)
    finding.status, finding.status_reason = held, reason
    news = _write_evidence(session, finding, draft)
    if not news and before == (finding.claim, finding.rule, finding.strength):
        return ()
    finding.updated_at = now()  # an SQL expression: the database's clock
    session.flush()
    _announce(session, EventKind.FINDING_CHANGED, finding, finding.campaign_id, [])
    return (FindingChange(finding.id, added=False),)


def _settled(session: Session, key: str, latest: Finding | None) -> frozenset[Source]:
    """Return the verdicts that stay with stale generations of this finding."""
    if latest is None:
        return frozenset()
    closed = [
        finding.id for finding in _generations(session, key) if finding is not latest or is_closed(finding)
    ]
    if not closed:
        return frozenset()
    query = select(FindingEvidence.verdict_id).where(FindingEvidence.finding_id.in_(closed))
    imported = select(ImportedEvidence.imported_verdict_id).where(ImportedEvidence.finding_id.in_(closed))
    return frozenset(
        [
            *((False, each) for each in session.scalars(query)),
            *((True, each) for each in session.scalars(imported)),
        ]
    )


def _add(
    session: Session, key: str, draft: FindingDraft, closed: Finding | None, *, is_now: bool
) -> FindingChange:
    imported, first = draft.evidence[0][0]
    campaign_id = session.scalars(
        select(Experiment.campaign_id)
        .join(Verdict, Verdict.experiment_id == Experiment.id)
        .where(Verdict.id == (None if imported else first))
    ).one_or_none()
    finding = Finding(campaign_id=campaign_id, key=key, scope=draft.scope, rule="", claim="", strength="")
    _write(finding, draft)
    session.add(finding)
    session.flush()
    _write_evidence(session, finding, draft)
    superseded = list(supersede(session, finding, is_now=is_now))
    if closed is not None and closed not in superseded:
        closed.superseded_by_id = finding.id
        superseded.append(closed)
    session.flush()
    _announce(session, EventKind.FINDING_ADDED, finding, campaign_id, [_label(each) for each in superseded])
    return FindingChange(finding.id, added=True)


def _change(
    session: Session, finding: Finding, draft: FindingDraft, *, is_now: bool
) -> tuple[FindingChange, ...]:
    before = (finding.claim, finding.rule, finding.strength, finding.status)
    held, reason = finding.status, finding.status_reason
    _write(finding, draft)
    if held is FindingStatus.STALE:
        finding.status, finding.status_reason = held, reason
    same_evidence = not _write_evidence(session, finding, draft)
    superseded = supersede(session, finding, is_now=is_now)
    after = (finding.claim, finding.rule, finding.strength, finding.status)
    if same_evidence and not superseded and before == after:
        return ()
    finding.updated_at = now()  # an SQL expression: the database's clock
    session.flush()
    labels = [_label(each) for each in superseded]
    _announce(session, EventKind.FINDING_CHANGED, finding, finding.campaign_id, labels)
    return (FindingChange(finding.id, added=False),)


def _write(finding: Finding, draft: FindingDraft) -> None:
    finding.claim = draft.claim
    finding.rule = draft.rule.value
    finding.strength = draft.strength.value
    finding.status = draft.status
    finding.status_reason = draft.status_reason
    finding.scope = draft.scope
    estimate = draft.estimate
    finding.effect_log = estimate.effect_log if estimate else None
    finding.interval_low_log = estimate.low_log if estimate else None
    finding.interval_high_log = estimate.high_log if estimate else None


def _write_evidence(session: Session, finding: Finding, draft: FindingDraft) -> bool:
    """Write what each verdict says about the finding; return whether that is news."""
    wanted = dict(draft.evidence)
    news = False
    for row in _evidence(session, finding):
        # evidence is never taken back: `derive` sees every verdict again
        relation = wanted.pop(_source(row))
        news = news or row.relation is not relation
        row.relation = relation
    for (imported, number), relation in wanted.items():
        session.add(
            ImportedEvidence(finding_id=finding.id, imported_verdict_id=number, relation=relation)
            if imported
            else FindingEvidence(finding_id=finding.id, verdict_id=number, relation=relation)
        )
    session.flush()
    return news or bool(wanted)


def _evidence(session: Session, finding: Finding) -> list[FindingEvidence | ImportedEvidence]:
    return [
        *session.scalars(select(FindingEvidence).where(FindingEvidence.finding_id == finding.id)),
        *session.scalars(select(ImportedEvidence).where(ImportedEvidence.finding_id == finding.id)),
    ]


def _source(row: FindingEvidence | ImportedEvidence) -> Source:
    if isinstance(row, ImportedEvidence):
        return True, row.imported_verdict_id
    return False, row.verdict_id


def _announce(
    session: Session, kind: EventKind, finding: Finding, campaign_id: int | None, supersedes: list[str]
) -> None:
    data = {
        "rule": finding.rule,
        "strength": finding.strength,
        "status": finding.status.value,
        "supersedes": supersedes,
    }
    said = news_of(session, finding)
    if finding.status is FindingStatus.SUPERSEDED:
        said = f"{said} {finding.status_reason}"
    if is_closed(finding):
        said = f"{said} It stays stale. {finding.status_reason}"
    events.append(session, kind, said, _label(finding), campaign_id, data)


def _label(finding: Finding) -> str:
    return format_label(Noun.FINDING, finding.id)
