"""Why something is ruled out: the pure core of `knowledge.asking.why_not`, with what model, engine and target
allow and what the user banned added to it. It imports nothing of what that takes to tell, and of what the
loop learns with, since both take longer than such an answer. Reads, writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.asking.imported import imported_of, imported_rows
from agent.asking.put_down import failures_put_down
from agent.asking.scopes import scoped
from agent.campaign.known.settling import settled
from configs.errors import AutoinferError, UsageError
from db.labels import Noun, format_label, parse_label_of
from db.models import Campaign, Directive, Finding, Hypothesis
from db.models import Configuration as ConfigurationRow
from db.states import DirectiveKind, EvidenceRelation
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.knob import written
from experiments.space.loading import load_space
from experiments.space.space import Space
from knowledge.asking.answer import Answer
from knowledge.asking.objections import Mark, Objection
from knowledge.asking.walking import hypothesis_of, label_in
from knowledge.asking.why_not import why_not_finding, why_not_hypothesis, why_not_values
from knowledge.findings.telling import disputes
from knowledge.graph.typed_graph import Graph
from knowledge.queries.found.fresh_runs import differing_on
from knowledge.queries.lookup import campaign_of
from knowledge.stored import LEVER_JOINT

if TYPE_CHECKING:
    from agent.ground.legal import Legal

LegalOf: TypeAlias = "Callable[[Session, int], Legal]"
"""Reads what a campaign may ask for, or has it; raises `AutoinferError` where its model is not there."""

AGAINST = (EvidenceRelation.CONTRADICTS,)
"""What an imported verdict says against a finding."""


def what_rules_out(
    session: Session, graph: Graph, subject: Sequence[str], campaign: str | None, legal_of: LegalOf
) -> Answer:
    """Why a hypothesis, an experiment's, a finding, a knob or a configuration is ruled out.

    `subject` is one label, or one or more of `KNOB=VALUE` and `KNOB`. Raises `UsageError` for what is
    neither, and what there is not.
    """
    return scoped(session, _why_not(session, graph, subject, campaign, legal_of))


def _why_not(
    session: Session, graph: Graph, subject: Sequence[str], campaign: str | None, legal_of: LegalOf
) -> Answer:
    words = [word for each in subject for word in each.replace(",", " ").split()]
    if not words:
        raise UsageError("Nothing was named.", "Name a label such as H-002, a knob, or KNOB=VALUE.")
    if len(words) == 1 and "=" not in words[0] and "." not in words[0]:
        return _why_not_label(session, graph, words[0], legal_of)
    campaign_id = campaign_of(session, campaign)
    space = space_of_campaign(session, campaign_id)
    assigned = _assigned(space, words)
    legality = _legality(session, campaign_id, legal_of, lambda legal: _of_values(legal, assigned))
    levers = {space.knob(name).lever for name in assigned}
    texts = {name: None if value is None else written(value) for name, value in assigned.items()}
    bans = _bans(session, campaign_id, levers)
    given = {name: value for name, value in assigned.items() if value is not None}
    failures = failures_put_down(session, campaign_id, given)
    return why_not_values(graph, texts, legality, bans, imported_of(session), failures)


def _disputed(session: Session, label: str) -> dict[str, str]:
    """The findings that disagree with one, each with what is to be asked of both."""
    found = disputes(session, session.get_one(Finding, parse_label_of(Noun.FINDING, label)))
    return {
        each.label: dispute.question() for dispute in found for each in dispute.sides if each.label != label
    }


def _why_not_label(session: Session, graph: Graph, word: str, legal_of: LegalOf) -> Answer:
    label = label_in(graph, word, Noun.HYPOTHESIS, Noun.EXPERIMENT, Noun.FINDING)
    if label.startswith("F-"):
        number = parse_label_of(Noun.FINDING, label)
        differing = differing_on(session, [number]).get(number, ())
        return why_not_finding(
            graph,
            label,
            imported_rows(session, label, AGAINST),
            _disputed(session, label),
            {each.experiment: each.why for each in differing},
        )
    if label.startswith("E-"):
        tested = hypothesis_of(graph, label)
        if tested is None:
            raise UsageError(
                f"{label} tests no hypothesis, so there is nothing to rule out.", "Name another."
            )
        label = tested
    row = session.get_one(Hypothesis, parse_label_of(Noun.HYPOTHESIS, label))
    knobs = session.get_one(ConfigurationRow, row.candidate_configuration_id).knobs
    changed = {
        each["knob"]: each["after"] for each in row.change.get("changes", []) if each.get("after") is not None
    }

    space = str(session.get_one(Campaign, row.campaign_id).spec.get("space", "reference"))

    def against(legal: Legal) -> list[Objection]:
        today = settled(Configuration.of(knobs), space)
        why = legal.why_never(changed) or legal.why_not_admitted(today) or legal.refused(today)
        return [] if why is None else [Objection(why)]

    legality = _legality(session, row.campaign_id, legal_of, against)
    steering = _bans(session, row.campaign_id, set(row.lever.split(LEVER_JOINT)))
    failures = failures_put_down(session, row.campaign_id, knobs, but=row.id)
    return why_not_hypothesis(graph, label, legality, steering, imported_of(session), failures)


def space_of_campaign(session: Session, campaign_id: int) -> Space:
    """Return the space that a campaign was started with, before anything was taken out of it."""
    return load_space(str(session.get_one(Campaign, campaign_id).spec.get("space", "reference")))


def _assigned(space: Space, words: Sequence[str]) -> dict[str, KnobValue | None]:
    found: dict[str, KnobValue | None] = {}
    for word in words:
        name, value = space.parse_assignment(word) if "=" in word else (space.knob(word).name, None)
        if name in found:
            raise UsageError(f"{name} is set twice.", "Name each knob once.")
        found[name] = value
    return found


def _of_values(legal: Legal, assigned: Mapping[str, KnobValue | None]) -> list[Objection]:
    """What model, engine and target have against these values, each once; of a knob without a value, against
    each of its values."""
    whole = all(value is not None for value in assigned.values())
    found = [
        Objection(
            f"{each.knob}={written(each.value)}: {each.why}",
            absolute=whole and not each.when_given,
            mark=Mark.INCOMPLETE if each.when_given else Mark.INFEASIBLE,
        )
        for each in legal.withheld
        if each.knob in assigned and assigned[each.knob] in (None, each.value)
    ]
    if not found and whole:
        given = {name: value for name, value in assigned.items() if value is not None}
        try:
            why = legal.refused(legal.space.configuration(given))
        except UsageError as error:  # a knob without what it depends on
            return [Objection(str(error), absolute=False, mark=Mark.INCOMPLETE)]
        if why is not None:
            found.append(Objection(why, absolute=False))
    return found


def _legality(
    session: Session,
    campaign_id: int,
    legal_of: LegalOf,
    against: Callable[[Legal], list[Objection]],
) -> list[Objection]:
    try:
        return against(legal_of(session, campaign_id))
    except AutoinferError as error:
        said = f"What is legal can't be told here: {error.message}"
        return [Objection(said, absolute=False, mark=Mark.UNKNOWN)]


def _bans(session: Session, campaign_id: int, levers: set[str]) -> list[Objection]:
    query = select(Directive).where(
        Directive.campaign_id == campaign_id, Directive.active, Directive.kind == DirectiveKind.BAN
    )
    return [
        Objection(each.text, format_label(Noun.DIRECTIVE, each.id))
        for each in session.scalars(query.order_by(Directive.id))
        if each.lever in levers
    ]
