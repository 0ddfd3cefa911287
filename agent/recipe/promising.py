"""What the configuration of a recipe promises and which tests it rests on, read from the database."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.campaign.rerun.reproduce import PUT_BACK
from agent.recipe.recipe import Promise
from configs.errors import UsageError
from db.event_kinds import EventKind
from db.events import of_kind
from db.labels import Noun, format_label, parse_label_of
from db.models import Campaign, Configuration, Event, Experiment, Verdict
from db.models.base import JsonObject
from experiments.sealing import altered
from experiments.space.configuration import Configuration as Point
from knowledge.figures import listed
from knowledge.queries.found.fresh_runs import differing
from knowledge.queries.found.in_doubt import in_doubt
from knowledge.queries.pareto import judged_ratios
from knowledge.queries.pareto_ratios import each_over_baseline
from knowledge.queries.present.now_best import bests_told
from knowledge.samples_digest import samples_digest
from knowledge.stored import metric_of, verdict_metric


def baseline_of(campaign: Campaign) -> int:
    """The id of the campaign's baseline; raises `UsageError` where it has none."""
    if campaign.baseline_configuration_id is None:
        label = format_label(Noun.CAMPAIGN, campaign.id)
        raise UsageError(
            f"{label} has no baseline, so nothing says what its best gains.",
            f"Measure it: let the campaign go on with autoinfer run --resume {label}",
        )
    return campaign.baseline_configuration_id


def denied(session: Session, campaign_id: int, rests_on: Sequence[str]) -> tuple[str, ...]:
    """Return what the newest fresh runs say against the tests that a recipe rests on, and what became of
    their findings since, a sentence each."""
    found, doubts = differing(session, campaign_id), in_doubt(session, campaign_id)
    said = []
    for each in rests_on:
        if each in found:
            fresh = found[each]
            said.append(
                f"A fresh run of {each}, {fresh.experiment}, does not agree: {fresh.why.rstrip('.')}."
            )
        elif each in doubts:
            said.append(f"{each} is in doubt: {listed(list(doubts[each]))}.")
    return tuple(said)


def promise_of(session: Session, experiment: Experiment) -> Promise:
    """The candidate of a judged test over the campaign's baseline: of the test itself where that compared the
    two, else of the chain to it.

    Later tests of the campaign change nothing of it. Raises `UsageError` where there is no baseline, where it
    or a test that it rests on has a broken seal, and for a gain without an interval that lies beyond none.
    """
    _check_seals(session, experiment)
    campaign = session.get_one(Campaign, experiment.campaign_id)
    baseline = baseline_of(campaign)
    verdict = session.scalars(select(Verdict).where(Verdict.experiment_id == experiment.id)).first()
    ratios = judged_ratios(session, campaign.id, metric_of(campaign.objective))
    found = each_over_baseline(ratios, baseline).get(experiment.id)
    if (
        verdict is None
        or found is None
        or found.low_log is None
        or found.high_log is None
        or found.high_log >= 0
    ):
        label = format_label(Noun.EXPERIMENT, experiment.id)
        raise UsageError(
            f"The gain of {label} over the baseline has no interval that lies beyond none, so a recipe "
            "could promise nothing.",
            "Test it against the baseline itself: let the campaign go on with autoinfer run --resume",
        )
    quality = verdict.quality or {}
    return Promise(
        metric=verdict_metric(verdict),
        effect_log=found.log_ratio,
        low_log=found.low_log,
        high_log=found.high_log,
        chained=experiment.control_configuration_id != baseline,
        pairs=verdict.launches // 2,
        samples_digest=samples_digest(session, experiment.id),
        bits_per_byte=_object(quality.get("bits_per_byte_relative")),
        task_points_lost=_object(quality.get("task_points_lost")),
    )


def _check_seals(session: Session, experiment: Experiment) -> None:
    own = format_label(Noun.EXPERIMENT, experiment.id)
    for label in dict.fromkeys((own, *rests_on(session, experiment))):
        broken = altered(session, session.get_one(Experiment, parse_label_of(Noun.EXPERIMENT, label)))
        if broken is not None:
            raise UsageError(f"{broken} A recipe can't promise what it found.", PUT_BACK)


def rests_on(session: Session, experiment: Experiment) -> tuple[str, ...]:
    """The tests that made a best until `experiment` did, and whose change is still a part of its candidate,
    in their order: what it is was found by them. What another best took back again is not deployed, and no
    check speaks of it."""
    made = session.scalars(
        select(Event).where(of_kind(EventKind.CAMPAIGN_BEST, experiment.campaign_id)).order_by(Event.id)
    )
    best = Point.of(session.get_one(Configuration, experiment.candidate_configuration_id).knobs)
    labels = list(dict.fromkeys(each.experiment for each in bests_told(list(made))))
    own = format_label(Noun.EXPERIMENT, experiment.id)
    until = labels[: labels.index(own) + 1] if own in labels else labels
    return tuple(each for each in until if each.startswith("E-") and _is_part(session, each, best))


def _is_part(session: Session, label: str, best: Point) -> bool:
    experiment = session.get_one(Experiment, parse_label_of(Noun.EXPERIMENT, label))
    control, candidate = (
        Point.of(session.get_one(Configuration, each).knobs)
        for each in (experiment.control_configuration_id, experiment.candidate_configuration_id)
    )
    return all(best.get(each.knob) == each.after for each in control.changes_to(candidate))


def _object(value: object) -> JsonObject | None:
    return value if isinstance(value, dict) else None
