"""Answers to what is asked of the graph that need a campaign's ground: the pure core of `knowledge.asking`,
with what only the ground can tell added to it. Reads, writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.asking.assumed import parse_assumed
from agent.asking.fallen import MOST_RELEARNT, learnt_from, without
from agent.asking.imported import imported_of, imported_rows
from agent.asking.of_the_graph import EVIDENT
from agent.asking.preview import Ground
from agent.asking.rows import believed_row, consequence_section, reordered_section, withheld_row
from agent.asking.scopes import scoped
from agent.asking.untested import untested
from agent.asking.what_if import what_if
from agent.ground.drafter import space_of
from agent.ground.legal import Legal
from configs.errors import AutoinferError, UsageError
from db.labels import Noun, format_label, parse_label_of
from db.models import Campaign, Directive, Experiment, Hypothesis, Verdict
from db.models import Configuration as ConfigurationRow
from db.states import AGREEING, CampaignState, DirectiveKind, EvidenceRelation, ExperimentState
from experiments.measurement.judging import Outcome
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.knob import written
from experiments.space.loading import load_space
from experiments.space.space import Space
from knowledge.asking.answer import Answer, Question, Section, section, some
from knowledge.asking.if_fell import fall, if_fell
from knowledge.asking.walking import campaign_of_node, hypothesis_of, label_in, number_of
from knowledge.asking.why_not import Mark, Objection, why_not_finding, why_not_hypothesis, why_not_values
from knowledge.figures import counted
from knowledge.graph import Graph
from knowledge.queries.lookup import campaign_of
from knowledge.stored import LEVER_JOINT

GroundOf = Callable[[Session, int], Ground]
"""Reads what a campaign decides on, or has it; raises `AutoinferError` where its model is not there."""

AGAINST = (EvidenceRelation.CONTRADICTS,)
"""What an imported verdict says against a finding."""

MODEL_GONE = (
    "The campaign's model tells what is legal: put it back in its place, or ask on the machine that has it."
)
"""What to do where a campaign's ground can't be read."""

MOST_NEIGHBOURS = 40

MOST_QUEUES = 3
"""Campaigns of which it is told where the queue would go, so that an answer stays quick: each is read."""

MOST_NAMED = 4
"""Campaigns that a sentence names; how many more there are is told."""


def why_not(
    session: Session, graph: Graph, subject: Sequence[str], campaign: str | None, ground_of: GroundOf
) -> Answer:
    """Why a hypothesis, an experiment's, a finding, a knob or a configuration is ruled out.

    `subject` is one label, or one or more of `KNOB=VALUE` and `KNOB`. Raises `UsageError` for what is
    neither, and what there is not.
    """
    return scoped(session, _why_not(session, graph, subject, campaign, ground_of))


def _why_not(
    session: Session, graph: Graph, subject: Sequence[str], campaign: str | None, ground_of: GroundOf
) -> Answer:
    words = [word for each in subject for word in each.replace(",", " ").split()]
    if not words:
        raise UsageError("Nothing was named.", "Name a label such as H-002, a knob, or KNOB=VALUE.")
    if len(words) == 1 and "=" not in words[0] and "." not in words[0]:
        return _why_not_label(session, graph, words[0], ground_of)
    campaign_id = campaign_of(session, campaign)
    space = space_of_campaign(session, campaign_id)
    assigned = _assigned(space, words)
    legality = _legality(session, campaign_id, ground_of, lambda legal: _of_values(legal, assigned))
    levers = {space.knob(name).lever for name in assigned}
    texts = {name: None if value is None else written(value) for name, value in assigned.items()}
    bans = _bans(session, campaign_id, levers)
    return why_not_values(graph, texts, legality, bans, imported_of(session))


def _why_not_label(session: Session, graph: Graph, word: str, ground_of: GroundOf) -> Answer:
    label = label_in(graph, word, Noun.HYPOTHESIS, Noun.EXPERIMENT, Noun.FINDING)
    if label.startswith("F-"):
        return why_not_finding(graph, label, imported_rows(session, label, AGAINST))
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

    def against(legal: Legal) -> list[Objection]:
        why = legal.why_never(changed) or legal.refused(Configuration.of(knobs))
        return [] if why is None else [Objection(why)]

    legality = _legality(session, row.campaign_id, ground_of, against)
    steering = _bans(session, row.campaign_id, set(row.lever.split(LEVER_JOINT)))
    return why_not_hypothesis(graph, label, legality, steering, imported_of(session))


def what_if_fell(session: Session, graph: Graph, subject: str, ground_of: GroundOf) -> Answer:
    """What would change if a finding or a verdict fell, with where the queues would go."""
    label = label_in(graph, subject, *EVIDENT)
    found = fall(graph, label)
    by_campaign: dict[str, list[int]] = {}
    for each in found.experiments:
        campaign = campaign_of_node(graph, each)
        if campaign is not None:
            by_campaign.setdefault(campaign, []).append(parse_label_of(Noun.EXPERIMENT, each))
    more = orders_without(session, graph, by_campaign, ground_of)
    if label.startswith("H-") and not found.experiments:
        more += _if_refuted(session, label, ground_of)
    told = imported_rows(session, label, AGREEING) if label.startswith("F-") else ()
    return scoped(session, if_fell(graph, label, more, told))


def _if_refuted(session: Session, label: str, ground_of: GroundOf) -> list[Section]:
    """Where the queue would go if what waits in it were refuted; nothing of what does not wait."""
    number = parse_label_of(Noun.HYPOTHESIS, label)
    row = session.get_one(Hypothesis, number)
    title = f"The queue, if {label} is refuted"
    try:
        desk = ground_of(session, row.campaign_id).desk
    except AutoinferError as error:
        return [section(title, (), f"Where it would go can't be told here: {error.message}")]
    found = () if desk is None else what_if(desk, number, (parse_assumed(Outcome.REFUTED.value),))
    return [consequence_section(title, desk, each) for each in found if desk is not None]


def what_is_untested(session: Session, campaign: str | None, ground_of: GroundOf) -> Answer:
    """What no experiment covered next to the best of a campaign, the newest if none is named.

    Raises `UsageError` where there is no campaign, and before its baseline is measured; `AutoinferError`
    where its model is not there to tell what is legal.
    """
    campaign_id = campaign_of(session, campaign)
    label = format_label(Noun.CAMPAIGN, campaign_id)
    try:
        desk = ground_of(session, campaign_id).desk
    except AutoinferError as error:
        raise AutoinferError(error.message, MODEL_GONE) from None
    if desk is None:
        raise UsageError(f"{label} has no best before its baseline is measured.", "See: autoinfer queue")
    full = space_of(desk.facts.spec)
    waiting = {
        each.candidate.digest: format_label(Noun.HYPOTHESIS, each.id) for each in reversed(desk.facts.queue)
    }
    found = untested(desk, full, _covered(session, campaign_id), waiting)
    legal = [believed_row(each) for each in found.legal]
    best = desk.incumbent.hypothesis_id
    named = "the baseline" if best is None else format_label(Noun.HYPOTHESIS, best)
    return Answer(
        question=Question.UNTESTED,
        asked=f"What is untested next to the best of {label}?",
        sentence=(
            f"{counted(len(legal), 'configuration')} one knob away from the best, {named}, can run here and "
            f"{'was' if len(legal) == 1 else 'were'} never tested; {found.covered} "
            f"{'was tested or is' if found.covered == 1 else 'were tested or are'} under test, "
            f"{len(found.illegal)} can't run here."
        ),
        sections=(
            section(
                "Never tested",
                legal,
                "Every configuration one knob away that can run here was tested.",
                "with its expected effect against the best and the 80 % interval, the most promising first",
                most=MOST_NEIGHBOURS,
            ),
            section(
                "Can't run here",
                (withheld_row(each) for each in found.illegal),
                "Every one that the space has can run.",
                most=MOST_NEIGHBOURS,
            ),
        ),
    )


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
    ground_of: GroundOf,
    against: Callable[[Legal], list[Objection]],
) -> list[Objection]:
    try:
        return against(ground_of(session, campaign_id).legal)
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


def orders_without(
    session: Session, graph: Graph, fallen: Mapping[str, Sequence[int]], ground_of: GroundOf
) -> list[Section]:
    """Where the queues of the campaigns whose verdicts fall would go, by the ids of the experiments: of those
    that have not ended first, then of the newest, `MOST_QUEUES` in all; the others are named."""
    ended = CampaignState.STOPPED.value
    first = sorted(fallen, key=lambda each: (graph.nodes[each].get("state") == ended, -number_of(each)))
    found, left = [], MOST_RELEARNT
    for campaign in first[:MOST_QUEUES]:
        title = f"The queue of {campaign}"
        try:
            desk = ground_of(session, parse_label_of(Noun.CAMPAIGN, campaign)).desk
        except AutoinferError as error:
            found.append(section(title, (), f"Where it would go can't be told here: {error.message}"))
            continue
        order = None if desk is None else without(desk, set(fallen[campaign]), most_relearnt=left)
        if desk is None or order is None:
            found.append(
                section(title, (), "It would not change: the campaign does not go by these verdicts.")
            )
            continue
        left -= learnt_from(desk) if order.relearnt else 0
        found.append(reordered_section(title, desk, order))
    if others := first[MOST_QUEUES:]:
        said = f"Of {some(others, MOST_NAMED)} it is not told here; ask of a verdict of theirs."
        found.append(section("The queues of other campaigns", (), said))
    return found


def _covered(session: Session, campaign_id: int) -> frozenset[str]:
    """Digests of the configurations that an experiment of the same model and target measured or measures."""
    campaign = session.get_one(Campaign, campaign_id)
    query = (
        select(ConfigurationRow.digest)
        .join(
            Experiment,
            (Experiment.candidate_configuration_id == ConfigurationRow.id)
            | (Experiment.control_configuration_id == ConfigurationRow.id),
        )
        .join(Campaign, Campaign.id == Experiment.campaign_id)
        .outerjoin(Verdict, Verdict.experiment_id == Experiment.id)
        .where(
            Campaign.model_fingerprint == campaign.model_fingerprint,
            Campaign.target == campaign.target,
            Verdict.id.is_not(None)
            | Experiment.state.in_([ExperimentState.PLANNED, ExperimentState.RUNNING, ExperimentState.DONE]),
        )
        .distinct()
    )
    return frozenset(session.scalars(query))
