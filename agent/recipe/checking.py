"""Whether a recipe still holds: its baseline against its configuration, once more in fresh processes.

The check is a test whose smallest effect worth having is what the recipe promised (`Promise.least_effect`),
so the campaign's own judge decides it, with the same intervals and the same guard of quality: supported means
that the gain is there, refuted that it is not or the quality is worse, infeasible that it does not run.
Anything else leaves it open. The plan is cut to about `CHECK_S` by what the first test took.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from math import floor

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from agent.campaign.devices import device_of
from agent.campaign.dispatch import enqueue_test
from agent.campaign.elsewhere import check_arms, find_elsewhere
from agent.campaign.ended import until_ended
from agent.campaign.facts import Facts
from agent.campaign.learn import NOT_THE_CANDIDATES_FAULT, judge_experiment, settle, unsealed
from agent.campaign.reading_facts import read_facts
from agent.recipe.recipe import Recipe
from configs.errors import AutoinferError, UsageError
from configs.targets import is_rented
from db import events
from db.event_kinds import EventKind
from db.labels import Noun, format_label, parse_label_of
from db.models import Campaign, Experiment, Job, Verdict
from db.models import Configuration as Stored
from db.session import Database
from db.states import ExperimentKind, ExperimentState, VerdictOutcome
from experiments.measurement.plan import Prediction, StoppingPlan
from experiments.space.configuration import Configuration
from knowledge.figures import effect
from knowledge.findings.checked import confirm_after_check, stale_after_check
from knowledge.findings.keeping import update_findings
from knowledge.stored import number, verdict_metric

CHECK_S = 300.0
"""Seconds that a check aims at; on a large model a pair of launches may take longer by itself."""

FIRST = -1.0
"""Priority of a check's job: somebody waits for it, so it goes before what a campaign left in the queue."""

_Z = 1.959964
"""Half-width of an interval of 95 % in standard deviations."""


class Holding(StrEnum):
    """What a check says of a recipe."""

    HOLDS = "holds"
    FAILS = "fails"
    OPEN = "open"


_SAYS = {
    VerdictOutcome.SUPPORTED: Holding.HOLDS,
    VerdictOutcome.REFUTED: Holding.FAILS,
    VerdictOutcome.INFEASIBLE: Holding.FAILS,
}


@dataclass(frozen=True)
class Checked:
    """What a check came to: the experiment that was run, `holding`, the findings that it confirmed or marked
    stale, and all of it in a sentence."""

    experiment: str
    recipe: str
    holding: Holding
    outcome: VerdictOutcome
    expected_s: float
    confirmed: tuple[str, ...]
    stale: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Begun:
    """A check that was queued: its experiment, the device, and about how long it takes."""

    experiment_id: int
    device: str
    expected_s: float

    @property
    def label(self) -> str:
        """`E-0012`."""
        return format_label(Noun.EXPERIMENT, self.experiment_id)


def begin_check(session: Session, recipe: Recipe, target: str | None = None) -> Begun:
    """Write the experiment and its job. `target` is another device of this machine than the recipe's own.

    Raises `UsageError` where this database does not hold what the recipe rests on, or something else, and for
    a target that is none, is rented, or can't serve one of the arms.
    """
    original = _original(session, recipe)
    facts = read_facts(session, original.campaign_id)
    control, candidate = Configuration.of(recipe.baseline), Configuration.of(recipe.configuration)
    own = device_of(session, original.id) or facts.spec.devices[0]
    # Another Python cuts other texts: both arms get those of the machine as it is now.
    facts = replace(facts, baseline=control, baseline_experiment_id=None)
    device, kind = own, ExperimentKind.REPRODUCE
    if is_rented(target or own):
        raise UsageError(
            f"{target or own} is a rented machine, and a check runs on this one.",
            f"Confirm it there, quoted first, with: autoinfer promote {recipe.experiment} --target "
            f"{target or own}",
        )
    if target is not None and target != own:
        facts, device = _there(facts, target, {"baseline": control, "recipe": candidate})
        kind = ExperimentKind.PROMOTE
    plan, expected_s = short_plan(session, original, recipe)
    campaign = session.get_one(Campaign, original.campaign_id)
    direct = original.control_configuration_id == campaign.baseline_configuration_id
    experiment_id = enqueue_test(
        session,
        facts,
        control,
        candidate,
        plan,
        kind=kind,
        hypothesis_id=original.hypothesis_id if direct else None,
        reproduces_experiment_id=original.id,
        device=device,
    )
    session.execute(update(Job).where(Job.experiment_id == experiment_id).values(priority=FIRST))
    return Begun(experiment_id, device, expected_s)


def _original(session: Session, recipe: Recipe) -> Experiment:
    found = session.get(Experiment, parse_label_of(Noun.EXPERIMENT, recipe.experiment))
    if found is None or found.preregistration_digest != recipe.seal:
        raise UsageError(
            f"This database does not hold what the recipe rests on: {recipe.experiment} of "
            f"{recipe.campaign}, sealed as "
            f"{recipe.seal[:12]}.",
            "Name the database of the campaign: --data-dir DIR, or --db URL.",
        )
    _check_unchanged(session, recipe, found)
    return found


def _check_unchanged(session: Session, recipe: Recipe, original: Experiment) -> None:
    """Raise `UsageError` for a file that would run, or blame, something else than what was measured."""
    baseline = session.get_one(Campaign, original.campaign_id).baseline_configuration_id
    arms = ((baseline, recipe.baseline), (original.candidate_configuration_id, recipe.configuration))
    same = all(
        Configuration.of(session.get_one(Stored, number).knobs) == Configuration.of(knobs)
        for number, knobs in arms
    )
    named = {parse_label_of(Noun.EXPERIMENT, each) for each in recipe.rests_on}
    own = select(Experiment.id).where(
        Experiment.id.in_(named), Experiment.campaign_id == original.campaign_id
    )
    if not same or set(session.scalars(own)) != named:
        raise UsageError(
            f"The recipe was changed after it was written: it is not what {recipe.experiment} measured.",
            f"Write it anew with: autoinfer export {format_label(Noun.CAMPAIGN, original.campaign_id)} "
            "--recipe",
        )


def _there(facts: Facts, target: str, arms: dict[str, Configuration]) -> tuple[Facts, str]:
    there = find_elsewhere(target)
    at_once = check_arms(facts, there, {"control": arms["baseline"], "candidate": arms["recipe"]})
    return replace(facts, target_key=there.key, at_once=at_once), there.device


def short_plan(session: Session, original: Experiment, recipe: Recipe) -> tuple[StoppingPlan, float]:
    """The plan of the first test with what the recipe promised as the smallest effect worth having, cut to as
    many pairs as fit into `CHECK_S`, two at least; and about how many seconds it takes."""
    plan, promise = StoppingPlan.model_validate(original.plan), recipe.promise
    verdict = session.scalars(select(Verdict).where(Verdict.experiment_id == original.id)).one()
    told = verdict.judge.get("details")
    spent_s = number(told.get("spent_s")) if isinstance(told, dict) else None
    pairs = max(1, verdict.launches // 2)
    wall_s = original.wall_s or 0.0
    pair_s = (spent_s if spent_s else wall_s) / pairs
    beside_s = max(0.0, wall_s - pair_s * pairs)
    whole = plan.full_pairs + plan.validation_pairs
    most = whole if pair_s <= 0 else min(whole, max(2, floor((CHECK_S - beside_s) / pair_s)))
    validation = min(plan.validation_pairs, max(1, most - 2))
    short = plan.model_copy(
        update={
            "min_effect": round(promise.least_effect, 3),
            "prediction": Prediction(
                log_ratio_mean=promise.effect_log,
                log_ratio_sd=max((promise.high_log - promise.low_log) / (2 * _Z), 1e-3),
            ),
            "full_pairs": max(1, most - validation),
            "validation_pairs": validation,
            "support_alpha": None,
        }
    )
    return StoppingPlan.model_validate(short.model_dump()), beside_s + pair_s * most


def conclude_check(session: Session, recipe: Recipe, begun: Begun) -> Checked:
    """Judge the run, tell the findings, and say whether the recipe holds; works in a write transaction.

    Raises `AutoinferError` where the run broke, which says nothing about the recipe.
    """
    fresh = session.get_one(Experiment, begun.experiment_id)
    if fresh.state == ExperimentState.CANCELLED:
        raise AutoinferError(f"{begun.label} was cancelled.", "Start the check again.")
    settle(session, fresh)
    broken = unsealed(session, fresh)
    if broken is None and fresh.failure_kind in NOT_THE_CANDIDATES_FAULT:
        broken = f"{begun.label} broke, which says nothing about the recipe: {fresh.failure}"
    if broken is not None:
        raise AutoinferError(broken, "Start the check again.")
    verdict_id, _ = judge_experiment(session, fresh)
    update_findings(session, verdict_id)
    verdict = session.get_one(Verdict, verdict_id)
    holding = _SAYS.get(verdict.outcome, Holding.OPEN)
    said = _sentence(recipe, verdict, begun.label, holding)
    rests_on = [parse_label_of(Noun.EXPERIMENT, each) for each in recipe.rests_on]
    elsewhere = fresh.kind is ExperimentKind.PROMOTE  # says nothing of the target that was measured first
    stale = () if elsewhere or holding is not Holding.FAILS else stale_after_check(session, rests_on, said)
    confirmed = (
        ()
        if elsewhere or holding is not Holding.HOLDS
        else confirm_after_check(session, [*rests_on, fresh.id])
    )
    events.append(
        session,
        EventKind.RECIPE_CHECKED,
        said,
        subject=begun.label,
        campaign_id=fresh.campaign_id,
        data={
            "recipe": recipe.experiment,
            "holding": holding.value,
            "outcome": verdict.outcome.value,
            "promised_log": recipe.promise.effect_log,
            "bound_log": recipe.promise.bound_log,
            "effect_log": verdict.effect_log,
            "stale": list(stale),
            "confirmed": list(confirmed),
        },
    )
    return Checked(
        experiment=begun.label,
        recipe=recipe.experiment,
        holding=holding,
        outcome=verdict.outcome,
        expected_s=begun.expected_s,
        confirmed=confirmed,
        stale=stale,
        reason=said,
    )


def check(
    database: Database,
    recipe: Recipe,
    wait: Callable[[], None],
    stop: Callable[[], None] = lambda: None,
    *,
    target: str | None = None,
    told: Callable[[Begun], None] = lambda _: None,
) -> Checked:
    """Queue the check, wait until a worker has run it, and conclude; `wait` and `stop` as in `reproduce`."""
    with database.write() as session:
        begun = begin_check(session, recipe, target)
    told(begun)
    until_ended(database, begun.experiment_id, wait, stop, "Whoever waited for the check went away.")
    with database.write() as session:
        return conclude_check(session, recipe, begun)


def _sentence(recipe: Recipe, verdict: Verdict, label: str, holding: Holding) -> str:
    metric, promise = verdict_metric(verdict), recipe.promise
    now = effect(verdict.effect_log, verdict.interval_low_log, verdict.interval_high_log, metric)
    then = effect(promise.effect_log, promise.low_log, promise.high_log, metric)
    asked = f"it must be wholly beyond {effect(promise.bound_log, None, None, metric)}"
    head = {
        Holding.HOLDS: f"The recipe of {recipe.experiment} holds",
        Holding.FAILS: f"The recipe of {recipe.experiment} does not hold any more",
        Holding.OPEN: f"Whether the recipe of {recipe.experiment} holds is left open",
    }[holding]
    measured = (
        f"{now} now, {then} when it was found" if verdict.effect_log is not None else "nothing was timed"
    )
    return f"{head}: {measured}; {asked} ({label}). {verdict.reason}"
