"""Answers to what is asked of the graph that need a campaign's ground: the pure core of `knowledge.asking`,
with what only the ground can tell added to it. Reads, writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.asking.assumed import parse_assumed
from agent.asking.fallen import MOST_RELEARNT, best_without, learnt_from, without
from agent.asking.imported import imported_rows
from agent.asking.preview import Ground
from agent.asking.rows import (
    believed_row,
    best_section,
    consequence_section,
    reordered_section,
    withheld_row,
)
from agent.asking.scopes import scoped
from agent.asking.untested import untested
from agent.asking.what_if import what_if
from agent.campaign.known.reading_facts import read_facts
from agent.ground.drafter import space_of
from configs.errors import AutoinferError, UsageError
from db.labels import Noun, format_label, parse_label_of
from db.models import Campaign, Experiment, Hypothesis, Verdict
from db.models import Configuration as ConfigurationRow
from db.states import AGREEING, CampaignState, ExperimentState
from experiments.measurement.judging import Outcome
from experiments.space.legality import with_stored_kernels
from knowledge.asking.answer import Answer, Question, Section, section, some
from knowledge.asking.if_fell import fall, if_fell
from knowledge.asking.walking import EVIDENT, campaign_of_node, label_in, number_of
from knowledge.figures import counted
from knowledge.graph.typed_graph import Graph
from knowledge.queries.lookup import campaign_of

GroundOf = Callable[[Session, int], Ground]
"""Reads what a campaign decides on, or has it; raises `AutoinferError` where its model is not there."""

MODEL_GONE = (
    "The campaign's model tells what is legal: put it back in its place, or ask on the machine that has it."
)
"""What to do where a campaign's ground can't be read."""

UNTOLD = "Where it would go can't be told here: {why} " + MODEL_GONE

UNCHANGED = "It would not change: the campaign does not go by these verdicts."

MOST_NEIGHBOURS = 40

MOST_QUEUES = 3
"""Campaigns of which it is told where the queue would go, so that an answer stays quick: each is read."""

MOST_NAMED = 4
"""Campaigns that a sentence names; how many more there are is told."""


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
    return scoped(session, if_fell(graph, label, found, more, told))


def _if_refuted(session: Session, label: str, ground_of: GroundOf) -> list[Section]:
    """Where the queue would go if what waits in it were refuted; nothing of what does not wait."""
    number = parse_label_of(Noun.HYPOTHESIS, label)
    row = session.get_one(Hypothesis, number)
    title = f"The queue, if {label} is refuted"
    try:
        desk = ground_of(session, row.campaign_id).desk
    except AutoinferError as error:
        return [section(title, (), UNTOLD.format(why=error.message))]
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
    full = with_stored_kernels(space_of(desk.facts.spec), desk.legal.packing)
    full = full.that_has(desk.baseline_configuration)
    waiting = {
        each.candidate.digest: format_label(Noun.HYPOTHESIS, each.id) for each in reversed(desk.facts.queue)
    }
    found = untested(desk, full, _covered(session, campaign_id), waiting)
    legal = [believed_row(each, desk.facts.objective.value) for each in found.legal]
    best = desk.incumbent.hypothesis_id
    named = "the baseline" if best is None else format_label(Noun.HYPOTHESIS, best)
    answer = Answer(
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
    return scoped(session, answer)


def orders_without(
    session: Session, graph: Graph, fallen: Mapping[str, Sequence[int]], ground_of: GroundOf
) -> list[Section]:
    """Where the queues of the campaigns whose verdicts fall would go, by the ids of the experiments: of those
    that have not ended first, then of the newest, `MOST_QUEUES` in all; the others are named. Where a
    campaign's model is not there to rank its queue by, who would be best then is told all the same."""
    ended = CampaignState.STOPPED.value
    first = sorted(fallen, key=lambda each: (graph.nodes[each].get("state") == ended, -number_of(each)))
    found, left = [], MOST_RELEARNT
    for campaign in first[:MOST_QUEUES]:
        title, number = f"The queue of {campaign}", parse_label_of(Noun.CAMPAIGN, campaign)
        try:
            desk = ground_of(session, number).desk
        except AutoinferError as error:
            why = UNTOLD.format(why=error.message)
            found.append(_best_alone(session, number, set(fallen[campaign]), title, why))
            continue
        order = None if desk is None else without(desk, set(fallen[campaign]), most_relearnt=left)
        if desk is None or order is None:
            found.append(section(title, (), UNCHANGED))
            continue
        left -= learnt_from(desk) if order.relearnt else 0
        found.append(reordered_section(title, desk, order))
    if others := first[MOST_QUEUES:]:
        said = f"Of {some(others, MOST_NAMED)} it is not told here; ask of a verdict of theirs."
        found.append(section("The queues of other campaigns", (), said))
    return found


def _best_alone(session: Session, campaign_id: int, fallen: set[int], title: str, why: str) -> Section:
    """Who would be best then, by the verdicts that are left, where the queue can't be ranked for `why`."""
    facts = read_facts(session, campaign_id)
    now, then = facts.incumbent, best_without(facts, fallen)
    if now is None or then is None:
        return section(title, (), UNCHANGED)
    return best_section(title, then, then.configuration != now.configuration, why)


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
