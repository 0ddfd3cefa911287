"""Whether a recipe still holds: its baseline against its configuration, once more in fresh processes.

The check is a test whose smallest effect worth having is what the recipe promised (`Promise.least_effect`),
so the campaign's own judge decides it, with the same intervals and the same guard of quality: supported means
that the gain is there, refuted that it is not or the quality is worse, infeasible that it does not run.
Anything else leaves it open, and so does the end of the time that a check has: then nothing is marked. What
it promised and which tests it rests on is read from the database, never believed from its file; how it is
planned is `agent.recipe.planning`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from sqlalchemy import update
from sqlalchemy.orm import Session

from agent.campaign.known.facts import Facts
from agent.campaign.known.reading_facts import read_facts
from agent.campaign.learning.verdicts import NOT_THE_CANDIDATES_FAULT, judge_experiment, settle, unsealed
from agent.campaign.queue.dispatch import enqueue_test
from agent.campaign.rerun.elsewhere import check_arms, find_elsewhere
from agent.campaign.rerun.ended import until_ended
from agent.campaign.resources.devices import device_of
from agent.recipe.planning import CHECK_S, ShortPlan, short_plan
from agent.recipe.promising import baseline_of, promise_of, rests_on
from agent.recipe.recipe import Promise, Recipe
from configs.errors import AutoinferError, UsageError
from configs.quantities import format_duration
from configs.targets import is_rented
from db import events
from db.event_kinds import EventKind
from db.labels import Noun, format_label, parse_label_of
from db.models import Campaign, Experiment, Job, Verdict
from db.models import Configuration as Stored
from db.session import Database
from db.states import ExperimentKind, ExperimentState, VerdictOutcome
from experiments.job.limits import time_is_up
from experiments.recording import load_test_spec
from experiments.space.configuration import Configuration
from knowledge.asking.answer import some
from knowledge.figures import effect
from knowledge.findings.checked import confirm_after_check, holding, stale_after_check
from knowledge.findings.keeping import update_findings
from knowledge.stored import verdict_metric

MOST_NAMED = 4
"""Tests that a sentence names; how many more there are is told."""

FIRST = -1.0
"""Priority of a check's job: somebody waits for it, so it goes before what a campaign left in the queue."""


class Holding(StrEnum):
    """What a check says of a recipe."""

    HOLDS = "holds"
    FAILS = "fails"
    OPEN = "open"
    UNSETTLED = "unsettled"
    """Its time was up before the judge could tell."""


_SAYS = {
    VerdictOutcome.SUPPORTED: Holding.HOLDS,
    VerdictOutcome.REFUTED: Holding.FAILS,
    VerdictOutcome.INFEASIBLE: Holding.FAILS,
}


@dataclass(frozen=True)
class Checked:
    """What a check came to: the experiment that was run, `holding`, the findings that it confirmed or marked
    stale, and all of it in a sentence; `within_s` is the time that it had, `otherwise` what the file said
    else than the database."""

    experiment: str
    recipe: str
    holding: Holding
    outcome: VerdictOutcome
    expected_s: float
    within_s: float
    confirmed: tuple[str, ...]
    stale: tuple[str, ...]
    reason: str
    otherwise: str | None = None


@dataclass(frozen=True)
class Begun:
    """A check that was queued: its experiment, the device, how it is planned, the recipe as the database has
    it, and in a clause what the file said otherwise, None where nothing."""

    experiment_id: int
    device: str
    short: ShortPlan
    recipe: Recipe
    otherwise: str | None

    @property
    def label(self) -> str:
        """`E-0012`."""
        return format_label(Noun.EXPERIMENT, self.experiment_id)


def begin_check(
    session: Session, recipe: Recipe, target: str | None = None, within_s: float = CHECK_S
) -> Begun:
    """Write the experiment and its job, which ends after `within_s` seconds. `target` is another device of
    this machine than the recipe's own.

    Raises `UsageError` where this database does not hold what the recipe rests on, or something else, and for
    a target that is none, is rented, or can't serve one of the arms.
    """
    original = _original(session, recipe)
    recipe, otherwise = _as_recorded(session, recipe, original)
    known = read_facts(session, original.campaign_id)
    control, candidate = Configuration.of(recipe.baseline), Configuration.of(recipe.configuration)
    own = device_of(session, original.id) or known.spec.devices[0]
    # Another Python cuts other texts: both arms get those of the machine as it is now.
    facts = replace(known, baseline=control, baseline_experiment_id=None)
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
    else:  # as its test was sealed, side by side or in turn
        facts = replace(facts, at_once=load_test_spec(session, original.id).at_once)
    ran = replace(known, target_key=facts.target_key, at_once=facts.at_once)
    short = short_plan(session, ran, original, recipe.promise, within_s)
    campaign = session.get_one(Campaign, original.campaign_id)
    direct = original.control_configuration_id == campaign.baseline_configuration_id
    experiment_id = enqueue_test(
        session,
        facts,
        control,
        candidate,
        short.plan,
        kind=kind,
        hypothesis_id=original.hypothesis_id if direct else None,
        reproduces_experiment_id=original.id,
        device=device,
        within_s=within_s,
    )
    session.execute(update(Job).where(Job.experiment_id == experiment_id).values(priority=FIRST))
    return Begun(experiment_id, device, short, recipe, otherwise)


def _original(session: Session, recipe: Recipe) -> Experiment:
    found = session.get(Experiment, parse_label_of(Noun.EXPERIMENT, recipe.experiment))
    if found is None or found.preregistration_digest != recipe.seal:
        raise UsageError(
            f"This database does not hold what the recipe rests on: {recipe.experiment} of "
            f"{recipe.campaign}, sealed as {recipe.seal[:12]}, and a file's own word for what was measured "
            "is not taken.",
            "Name the database of the campaign: --data-dir DIR, or --db URL.",
        )
    _check_unchanged(session, recipe, found)
    return found


def _check_unchanged(session: Session, recipe: Recipe, original: Experiment) -> None:
    """Raise `UsageError` for a file that would run, or blame, something else than what was measured."""
    baseline = baseline_of(session.get_one(Campaign, original.campaign_id))
    arms = ((baseline, recipe.baseline), (original.candidate_configuration_id, recipe.configuration))
    same = all(
        Configuration.of(session.get_one(Stored, number).knobs) == Configuration.of(knobs)
        for number, knobs in arms
    )
    if not same:
        raise UsageError(
            f"The recipe was changed after it was written: it is not what {recipe.experiment} measured.",
            f"Write it anew with: autoinfer export {format_label(Noun.CAMPAIGN, original.campaign_id)} "
            "--recipe",
        )


def _as_recorded(session: Session, recipe: Recipe, original: Experiment) -> tuple[Recipe, str | None]:
    """The recipe with what the database says that it promises and rests on, and what its file says else."""
    promise, rests = promise_of(session, original), rests_on(session, original)
    said = []
    if recipe.promise != promise:
        words = [_gain(each, promise.metric) for each in (recipe.promise, promise)]
        told = f"{words[0]}, and the database {words[1]}" if len(set(words)) > 1 else "other figures of it"
        said.append(f"promises {told}")
    if recipe.rests_on != rests:
        file = some(recipe.rests_on, MOST_NAMED) or "nothing"
        said.append(f"rests on {file}, and by the database on {some(rests, MOST_NAMED)}")
    recorded = recipe.model_copy(update={"promise": promise, "rests_on": rests})
    return recorded, f"the file {'; it '.join(said)}: the database's word is taken" if said else None


def _gain(promise: Promise, metric: str) -> str:
    return effect(promise.effect_log, promise.low_log, promise.high_log, metric)


def _there(facts: Facts, target: str, arms: dict[str, Configuration]) -> tuple[Facts, str]:
    there = find_elsewhere(target)
    at_once = check_arms(facts, there, {"control": arms["baseline"], "candidate": arms["recipe"]})
    return replace(facts, target_key=there.key, at_once=at_once), there.device


def conclude_check(session: Session, begun: Begun) -> Checked:
    """Judge the run, tell the findings, and say whether the recipe holds; works in a write transaction.

    Where its time was up and the judge can't tell, nothing becomes stale, by other versions neither: that
    waits for a verdict that is no half one.

    Raises `AutoinferError` where the run broke, which says nothing about the recipe.
    """
    recipe = begun.recipe
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
    rests_on = [parse_label_of(Noun.EXPERIMENT, each) for each in recipe.rests_on]
    held = holding(session, rests_on)  # before other versions move any of them
    verdict = session.get_one(Verdict, verdict_id)
    found = _SAYS.get(verdict.outcome, Holding.UNSETTLED if _ran_out(fresh, begun) else Holding.OPEN)
    update_findings(session, verdict_id, follow=found is not Holding.UNSETTLED)
    said = _sentence(recipe, verdict, begun, found)
    elsewhere = fresh.kind is ExperimentKind.PROMOTE  # says nothing of the target that was measured first
    stale = () if elsewhere or found is not Holding.FAILS else stale_after_check(session, held, said)
    confirmed = (
        () if elsewhere or found is not Holding.HOLDS else confirm_after_check(session, [*rests_on, fresh.id])
    )
    events.append(
        session,
        EventKind.RECIPE_CHECKED,
        said,
        subject=begun.label,
        campaign_id=fresh.campaign_id,
        data={
            "recipe": recipe.experiment,
            "holding": found.value,
            "outcome": verdict.outcome.value,
            "promised_log": recipe.promise.effect_log,
            "bound_log": recipe.promise.bound_log,
            "effect_log": verdict.effect_log,
            "stale": list(stale),
            "confirmed": list(confirmed),
            "otherwise": begun.otherwise,
        },
    )
    return Checked(
        experiment=begun.label,
        recipe=recipe.experiment,
        holding=found,
        outcome=verdict.outcome,
        expected_s=begun.short.expected_s,
        within_s=begun.short.within_s,
        confirmed=confirmed,
        stale=stale,
        reason=said,
        otherwise=begun.otherwise,
    )


def check(
    database: Database,
    recipe: Recipe,
    wait: Callable[[], None],
    stop: Callable[[], None] = lambda: None,
    *,
    target: str | None = None,
    within_s: float = CHECK_S,
    told: Callable[[Begun], None] = lambda _: None,
) -> Checked:
    """Queue the check, wait until a worker has run it, and conclude; `wait` and `stop` as in `reproduce`.

    It measures for `within_s` seconds at most, from when its checkpoints are there; what it waits for the
    device, and what is built first, comes on top.
    """
    with database.write() as session:
        begun = begin_check(session, recipe, target, within_s)
    told(begun)
    until_ended(database, begun.experiment_id, wait, stop, "Whoever waited for the check went away.")
    with database.write() as session:
        return conclude_check(session, begun)


def _ran_out(fresh: Experiment, begun: Begun) -> bool:
    """Whether the run ended because its time was up."""
    stopped = (fresh.progress or {}).get("stop_reason")
    return stopped == time_is_up(begun.short.within_s)


def _sentence(recipe: Recipe, verdict: Verdict, begun: Begun, holding: Holding) -> str:
    metric, promise = verdict_metric(verdict), recipe.promise
    now = effect(verdict.effect_log, verdict.interval_low_log, verdict.interval_high_log, metric)
    then = effect(promise.effect_log, promise.low_log, promise.high_log, metric)
    asked = f"it must be wholly beyond {effect(promise.bound_log, None, None, metric)}"
    head = {
        Holding.HOLDS: f"The recipe of {recipe.experiment} holds",
        Holding.FAILS: f"The recipe of {recipe.experiment} does not hold any more",
        Holding.OPEN: f"Whether the recipe of {recipe.experiment} holds is left open",
        Holding.UNSETTLED: f"Whether the recipe of {recipe.experiment} holds was not settled in "
        f"{format_duration(begun.short.within_s)}",
    }[holding]
    measured = (
        f"{now} now, {then} when it was found" if verdict.effect_log is not None else "nothing was timed"
    )
    return f"{head}: {measured}; {asked} ({begun.label}). {verdict.reason}"
