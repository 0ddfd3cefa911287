"""What is to be confirmed on other targets: what it is believed to gain there, to cost, and what goes next.
Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from agent.campaign.facts import Facts, Incumbent, Queued, find_incumbent, is_on
from agent.campaign.other_targets import OtherTarget
from agent.plan.duration import Request, pair_seconds_of
from agent.proposers.draft import refuted_if
from agent.proposers.port import Draft, Trial
from agent.ranking.stopping import is_worth_it
from agent.ranking.values import Candidate, Place, There
from agent.surrogate.cost import build_keys
from configs.hardware import profile_of_device
from db.labels import Noun, format_label
from experiments.measurement.judging import Outcome
from experiments.measurement.plan import Prediction
from experiments.space.configuration import Configuration
from knowledge.figures import effect

if TYPE_CHECKING:
    from agent.campaign.desk import Desk
    from agent.surrogate.beliefs import Belief

PROPOSER = "promotion"
"""Who puts a test for another target into the queue."""

TRANSFER_SD = 0.1
"""How far an effect is believed to be from what it was on the first target, standard deviation, natural log:
10 %. A judgement; another kernel alone made 20 % on one GPU (docs/results/h200-levers-once.md)."""

RAN_THERE, DID_NOT = 9.0, 1.0
"""The prior that what ran here runs there: as if nine of ten had."""


def drafts(facts: Facts) -> list[tuple[Draft, Trial, str]]:
    """What is to be put into the queue: what was supported on the objective, for each target that it was not
    put there for; with its test and the target."""
    known = set(facts.confirmed)
    arms = {(each.target, each.control.digest, each.candidate.digest) for each in facts.queue if each.target}
    found = []
    for target in facts.targets:
        for trial in facts.trials:
            key = (target.device, trial.control.digest, trial.candidate.digest)
            if (
                trial.outcome is not Outcome.SUPPORTED
                or trial.effect_log is None
                or not is_on(trial, facts.objective)
                or (trial.experiment_id, target.device) in known
                or key in arms
            ):
                continue
            arms.add(key)
            found.append((_draft(facts, trial, target.device), trial, target.device))
    return found


def _draft(facts: Facts, trial: Trial, target: str) -> Draft:
    assert trial.effect_log is not None
    sd = math.hypot(trial.effect_se_log or 0.0, TRANSFER_SD)
    here = format_label(Noun.EXPERIMENT, trial.experiment_id)
    share = effect(trial.effect_log, None, None, facts.objective.value)
    hypothesis = format_label(Noun.HYPOTHESIS, trial.hypothesis_id)
    changes = ", ".join(map(str, trial.control.changes_to(trial.candidate)))
    return Draft(
        claim=f"{hypothesis} holds on {target} too: {changes}.",
        control=trial.control,
        candidate=trial.candidate,
        lever=trial.lever,
        prediction=Prediction(log_ratio_mean=trial.effect_log, log_ratio_sd=sd),
        min_effect=facts.spec.plan.min_effect,
        refuted_if=refuted_if(facts.spec.plan.min_effect),
        rationale=(
            f"{here} supported it on {facts.target_key} ({share}). The same arms are tested under the same "
            f"plan on {target}, where it is to be used; each target keeps a finding of its own."
        ),
        proposer=PROPOSER,
        parents=(trial.hypothesis_id,),
    )


def best_there(facts: Facts, target: OtherTarget) -> Incumbent:
    """The best configuration that was confirmed on a target, by its own verdicts alone; the baseline at
    first."""
    assert facts.baseline is not None
    return find_incumbent(facts.baseline, target.ran, facts.objective)


def target_of(facts: Facts, device: str) -> OtherTarget:
    """What is known of a target; nothing of one that the campaign does not confirm on any more."""
    return next((each for each in facts.targets if each.device == device), OtherTarget(device))


def candidate_there(desk: Desk, queued: Queued, belief: Belief) -> Candidate:
    """A queued confirmation as the ranking sees it; `belief` is of its candidate over the best there."""
    target = target_of(desk.facts, queued.target)
    prediction = belief.prediction
    speed, basis = _speed(desk, target)
    built_s = _missing_s(desk, target, (queued.control, queued.candidate))
    measured_s = _measured_s(desk, queued, belief.p_quality) / speed
    cost_s = measured_s + built_s
    per_s = target.terms.usd_per_s
    failed = sum(each.outcome is Outcome.INFEASIBLE for each in target.ran)
    runs = (RAN_THERE + len(target.ran) - failed) / (RAN_THERE + DID_NOT + len(target.ran))
    return Candidate(
        hypothesis_id=queued.id,
        levers=desk.space.levers_between(queued.control, queued.candidate),
        log_ratio_mean=prediction.log_ratio_mean,
        log_ratio_sd=math.hypot(prediction.log_ratio_sd, TRANSFER_SD),
        p_quality=belief.p_quality,
        p_feasible=belief.p_feasible * runs,
        cost_s=cost_s,
        pinned=queued.pinned,
        judges_quality=not desk.facts.spec.latency_only,
        usd=None if per_s is None else per_s * cost_s,
        there=There(
            target.device,
            wait_s=target.wait_s,
            is_wait_known=target.is_wait_known,
            build_s=built_s,
            speed=speed,
            basis=basis,
            held=target.held,
        ),
    )


def choose_there(desk: Desk, device: str, left_s: float) -> Place | None:
    """The first of the queue that may run on a target: within the time that is left and the budgets, and
    worth its test. A wait that is a guess keeps nothing from being sent."""
    target = target_of(desk.facts, device)
    if target.held is not None:
        return None
    return next(
        (
            each
            for each in desk.ranking.places
            if each.target == device
            and each.may_run
            and is_worth_it(each)
            and _needs_s(each, target) <= left_s
        ),
        None,
    )


def _needs_s(place: Place, target: OtherTarget) -> float:
    return place.cost_s + (place.wait_s if target.is_wait_known else 0.0)


def left_over(places: Sequence[Place], facts: Facts, left_s: float) -> str:
    """What was worth confirming and was not, as the end of a reason to stop; empty for nothing."""
    left = [each for each in places if each.target and not each.paused and is_worth_it(each)]
    if not left:
        return ""
    held = next((found for each in left if (found := target_of(facts, each.target).held)), None)
    named = format_label(Noun.HYPOTHESIS, left[0].hypothesis_id)
    more = f" and {len(left) - 1} more" if len(left) > 1 else ""
    why = f" ({held.rstrip('.')})" if held else ""
    if left[0].awaits_approval:
        why = f" (it waits for approval: autoinfer approve {named})"
    elif held is None and (needs_s := _needs_s(left[0], target_of(facts, left[0].target))) > left_s:
        why = f" (it needs {needs_s:.0f} s and {max(0.0, left_s):.0f} s are left)"
    return f"; not confirmed on {left[0].target}: {named}{more}{why}"


def _speed(desk: Desk, target: OtherTarget) -> tuple[float, str]:
    """How many times as fast as here a test is expected to run there, and by what.

    By the tests that ran on both; else by the bandwidths of both memories, which the timed part of a test
    goes by, and its loads do not; else as fast as here.
    """
    if target.pace:
        return median(target.pace), f"by {len(target.pace)} that ran on both"
    here, there = _bandwidth(desk), target.terms.bandwidth_bytes_per_s
    if here is None or there is None:
        return 1.0, "nothing is known of its pace yet"
    loads = _share_of_loads(desk)
    return 1.0 / (loads + (1.0 - loads) * here / there), "by the bandwidth of both"


def _bandwidth(desk: Desk) -> float | None:
    listed = None if desk.facts.gpu_name is None else profile_of_device(desk.facts.gpu_name)
    return desk.baseline.bandwidth_bytes_per_s if listed is None else listed.bandwidth_bytes_per_s


def _share_of_loads(desk: Desk) -> float:
    """Which part of a launch pair is its loads; all of it where nothing is known of them."""
    digest, load_s = desk.baseline_configuration.digest, desk.baseline.load_s
    ttft_ms = desk.baseline.ttft_ms.get(digest)
    if load_s is None or ttft_ms is None:
        return 1.0
    request = Request(ttft_ms, desk.baseline.tpot_ms[digest], "the baseline's")
    plan = desk.facts.spec.plan
    pair_s = pair_seconds_of(plan, plan.full_blocks, load_s, request, in_turn=desk.facts.in_turn)
    timed_s = pair_seconds_of(plan, plan.full_blocks, 0.0, request, in_turn=desk.facts.in_turn)
    return (pair_s - timed_s) / pair_s


def _measured_s(desk: Desk, queued: Queued, p_quality: float) -> float:
    """What its test is expected to take on the campaign's own target, where all that it needs is built."""
    cost = desk.beliefs.cost
    everything = replace(
        cost, built=cost.built | frozenset(build_keys(cost.view, queued.candidate, cost.priors))
    )
    return everything.expected_s([queued.candidate], [p_quality])[0]


def _missing_s(desk: Desk, target: OtherTarget, arms: Sequence[Configuration]) -> float:
    """Seconds to build what both arms need and the target does not have."""
    cost = desk.beliefs.cost
    if target.is_here:
        there = set(cost.built)
    else:
        there = set(build_keys(cost.view, cost.view.baseline))
        for trial in target.built:
            for arm in (trial.control, trial.candidate):
                there |= set(build_keys(cost.view, arm, cost.priors))
    needed: dict[str, float] = {}
    for arm in arms:
        needed |= build_keys(cost.view, arm, cost.priors)
    return math.fsum(seconds for key, seconds in needed.items() if key not in there)
