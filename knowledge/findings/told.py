"""Findings that the user writes down: what they know from elsewhere, marked as theirs, and taken back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from configs.authors import author_words
from configs.catalog import Kind, packaged_names
from configs.errors import UsageError
from configs.quantities import HIGHER_IS_BETTER, ExpectedEffect, parse_effect
from configs.reasons import reason_given
from db import events
from db.clock import now
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Campaign, Finding
from db.models.base import JsonObject
from db.states import FindingStatus
from experiments.space.configuration import KnobValue
from experiments.space.loading import load_space
from experiments.space.space import Space
from knowledge.findings.rules import Rule
from knowledge.findings.telling import tell_disputes
from knowledge.findings.verdict_fact import SAYING, Saying
from knowledge.stored import LEVER_JOINT, TOLD_BY, engine_of

STRENGTH = "told"

_Z = 1.959964
_LONGEST = 2_000
"""Characters of a claim, at most."""


@dataclass(frozen=True)
class Telling:
    """What the user wrote, as text: the claim, `KNOB=VALUE` assignments, and where it holds; None where not
    given. `effect` is such as `tpot=-5%±2%`. `by` is who wrote it where it was not the user."""

    claim: str
    assignments: Sequence[str] = ()
    says: Saying = Saying.HELPS
    effect: str | None = None
    model: str | None = None
    target: str | None = None
    engine: str | None = None
    versions: Sequence[str] = ()
    by: str | None = None

    @property
    def meaning(self) -> str:
        """What it is taken to say of its change, as a sentence, for whoever meant another; empty without a
        change."""
        if not self.assignments:
            return ""
        return f"Of {', '.join(self.assignments)} it says that it {self.says.value}."


def tell(session: Session, telling: Telling, campaign_id: int | None) -> Finding:
    """Write down a finding of the user's own; works in the caller's write transaction.

    Where it holds is said, or taken from the campaign. Raises `UsageError` for an empty claim, one that was
    written down before in the same scope, a knob or value that no space has, an effect that is none, a
    version without its package, and for a claim of which nothing says where it holds.
    """
    claim = " ".join(telling.claim.split())
    if not claim:
        raise UsageError("The finding is empty.", 'Write it as: autoinfer finding add "what is so"')
    if len(claim) > _LONGEST:
        raise UsageError(
            f"The claim has {len(claim)} characters, and {_LONGEST} are the most.", "Say it in a sentence."
        )
    scope = _scope(session, telling, campaign_id)
    key = f"told: {_digest([claim, scope])}"
    earlier = session.scalars(
        select(Finding).where(Finding.key.startswith(key), Finding.status != FindingStatus.WITHDRAWN)
    ).first()
    if earlier is not None:
        raise UsageError(
            f"{_label(earlier)} says that already.", f"See it with: autoinfer show {_label(earlier)}"
        )
    before = len(session.scalars(select(Finding.id).where(Finding.key.startswith(key))).all())
    effect = None if telling.effect is None else _effect(telling)
    finding = Finding(
        campaign_id=campaign_id,
        key=key if not before else f"{key}~{before + 1}",
        claim=claim if claim[-1] in ".!?" else f"{claim}.",
        scope={
            **scope,
            **({} if effect is None else {"metric": effect.metric}),
            **({} if telling.by is None else {TOLD_BY: telling.by}),
        },
        rule=Rule.TOLD.value,
        strength=STRENGTH,
        status=FindingStatus.HOLDS,
    )
    if effect is not None:
        # Stored effects are negative where it is better, whatever the metric.
        sign = -1.0 if effect.metric in HIGHER_IS_BETTER.values() else 1.0
        finding.effect_log = sign * effect.log_ratio
        if effect.log_ratio_sd is not None:
            finding.interval_low_log = finding.effect_log - _Z * effect.log_ratio_sd
            finding.interval_high_log = finding.effect_log + _Z * effect.log_ratio_sd
    session.add(finding)
    session.flush()
    who = "the user" if telling.by is None else author_words(telling.by)
    _announce(
        session, EventKind.FINDING_ADDED, finding, f"{who[:1].upper()}{who[1:]} wrote down: {finding.claim}"
    )
    tell_disputes(session, [finding.id])
    return finding


def parse_saying(text: str) -> Saying:
    """What a finding says, such as `helps` or `does-not-help`; raises `UsageError` for anything else."""
    for saying in Saying:
        if text.strip().lower().replace("-", " ") == saying.value:
            return saying
    known = ", ".join(each.value.replace(" ", "-") for each in Saying)
    raise UsageError(f"{text[:40]!r} is nothing that a finding says.", f"It can say {known}.")


def take_back(session: Session, finding_id: int, why: str | None) -> Finding:
    """Withdraw a finding of the user's own, and keep that they did and why; works in the caller's write
    transaction.

    Raises `UsageError` for one that was measured, which only verdicts change, for one that was withdrawn, and
    for a reason that is none (`reason_given`).
    """
    finding = session.get_one(Finding, finding_id)
    label = _label(finding)
    if finding.rule != Rule.TOLD:
        raise UsageError(
            f"{label} was measured, and only what you wrote down yourself can be withdrawn.",
            f'If something changed since, say so with: autoinfer note "what changed" --stale {label}',
        )
    if finding.status is FindingStatus.WITHDRAWN:
        raise UsageError(f"{label} is withdrawn already.", f"See it with: autoinfer show {label}")
    said = "by the user" if why is None else f"by the user: {reason_given(why)}"
    finding.status = FindingStatus.WITHDRAWN
    finding.status_reason = f"Withdrawn {said}."
    finding.updated_at = now()
    session.flush()
    _announce(session, EventKind.FINDING_CHANGED, finding, f"{label} is withdrawn {said}.")
    return finding


def _announce(session: Session, kind: EventKind, finding: Finding, said: str) -> None:
    data: JsonObject = {
        "rule": Rule.TOLD.value,
        "strength": STRENGTH,
        "status": finding.status.value,
        "supersedes": [],
    }
    events.append(session, kind, said, _label(finding), finding.campaign_id, data)


def _scope(session: Session, telling: Telling, campaign_id: int | None) -> JsonObject:
    for name, given in (("model", telling.model), ("target", telling.target), ("engine", telling.engine)):
        if given is not None and not given.strip():
            raise UsageError(f"The {name} is empty.", "Leave it out for the campaign's, or name one.")
    campaign = None if campaign_id is None else session.get_one(Campaign, campaign_id)
    model = telling.model or (campaign.model if campaign else None)
    target = telling.target or (campaign.target if campaign else None)
    if model is None or target is None:
        missing = "--model and --target" if model is target else "--model" if model is None else "--target"
        raise UsageError(
            "Nothing says where the finding holds: there is no campaign yet.", f"Give {missing} with it."
        )
    engine = telling.engine or (engine_of(campaign.spec) if campaign else None)
    same_model = campaign is not None and campaign.model == model
    changes, lever = _changes(telling.assignments)
    return {
        "model": model,
        "model_fingerprint": campaign.model_fingerprint if campaign is not None and same_model else "",
        "target": target,
        **({} if engine is None else {"engine": engine}),
        "versions": dict(_version(text) for text in telling.versions),
        "workload": {},
        "control": {},
        "lever": lever,
        "knobs": [name for name, _ in changes],
        "change": [{"knob": name, "before": None, "after": value} for name, value in changes],
        SAYING: telling.says.value,
    }


def _changes(assignments: Sequence[str]) -> tuple[list[tuple[str, KnobValue]], str]:
    """The knobs with their values, and their lever, by the first packaged space that has them all."""
    if not assignments:
        return [], ""
    refused: UsageError | None = None
    for space in _spaces():
        try:
            found = space.parse_assignments(assignments)
        except UsageError as error:
            refused = refused or error
            continue
        levers = sorted({space.knob(name).lever for name in found})
        return sorted(found.items()), LEVER_JOINT.join(levers)
    assert refused is not None
    raise refused


def _spaces() -> Iterable[Space]:
    return (load_space(name) for name in packaged_names(Kind.SPACES))


def _effect(telling: Telling) -> ExpectedEffect:
    assert telling.effect is not None
    if telling.says is not Saying.HELPS:
        raise UsageError(
            f"An effect of {telling.effect} is a gain, and the finding says {telling.says.value!r}.",
            "Leave --effect out, or say what it does by --says helps.",
        )
    return parse_effect(telling.effect)


def _version(text: str) -> tuple[str, str]:
    name, equals, value = (part.strip() for part in text.partition("="))
    if not (name and equals and value):
        raise UsageError(
            f"{text!r} is no version of a package.", "Write PACKAGE=VERSION, such as torch=2.13.0."
        )
    return name, value


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _label(finding: Finding) -> str:
    return format_label(Noun.FINDING, finding.id)
