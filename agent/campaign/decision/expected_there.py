"""What a confirmation on another target is believed to gain there and to cost. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from agent.campaign.known.facts import Facts, Queued
from agent.campaign.known.incumbent import Incumbent, find_incumbent
from agent.campaign.known.measured import Baseline
from agent.campaign.known.other_targets import OtherTarget
from agent.plan.duration import pair_seconds_of
from agent.plan.load_and_request import Request
from agent.ranking.values import Candidate, There
from agent.surrogate.beliefs import Belief
from agent.surrogate.cost import CostBelief, build_keys
from configs.hardware import profile_of_device
from experiments.measurement.judging import Outcome
from experiments.space.configuration import Configuration
from experiments.space.space import Space

TRANSFER_SD = 0.1
"""How far an effect is believed to be from what it was on the first target, standard deviation, natural log:
10 %. A judgement; another kernel alone made 20 % on one GPU (docs/results/h200-levers-once.md)."""

RAN_THERE, DID_NOT = 9.0, 1.0
"""The prior that what ran here runs there: as if nine of ten had."""


@dataclass(frozen=True)
class Here:
    """What is known on the campaign's own target: the facts, the space that is legal, what trial 0 measured,
    and what things cost."""

    facts: Facts
    space: Space
    baseline: Baseline
    cost: CostBelief


def best_there(facts: Facts, target: OtherTarget) -> Incumbent:
    """The best configuration that was confirmed on a target, by its own verdicts alone; the baseline at
    first."""
    assert facts.baseline is not None
    return find_incumbent(facts.baseline, target.ran, facts.objective)


def target_of(facts: Facts, device: str) -> OtherTarget:
    """What is known of a target; nothing of one that the campaign does not confirm on any more."""
    return next((each for each in facts.targets if each.device == device), OtherTarget(device))


def candidate_there(here: Here, queued: Queued, belief: Belief) -> Candidate:
    """A queued confirmation as the ranking sees it; `belief` is of its candidate over the best there."""
    target = target_of(here.facts, queued.target)
    prediction = belief.prediction
    speed, basis = _speed(here, target)
    built_s = _missing_s(here, target, (queued.control, queued.candidate))
    measured_s = _measured_s(here, queued, belief.p_quality) / speed
    cost_s = measured_s + built_s
    per_s = target.terms.usd_per_s
    failed = sum(each.outcome is Outcome.INFEASIBLE for each in target.ran)
    runs = (RAN_THERE + len(target.ran) - failed) / (RAN_THERE + DID_NOT + len(target.ran))
    return Candidate(
        hypothesis_id=queued.id,
        levers=here.space.levers_between(queued.control, queued.candidate),
        log_ratio_mean=prediction.log_ratio_mean,
        log_ratio_sd=math.hypot(prediction.log_ratio_sd, TRANSFER_SD),
        p_quality=belief.p_quality,
        p_feasible=belief.p_feasible * runs,
        cost_s=cost_s,
        pinned=queued.pinned,
        judges_quality=not here.facts.spec.latency_only,
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


def _speed(here: Here, target: OtherTarget) -> tuple[float, str]:
    """How many times as fast as here a test is expected to run there, and by what.

    By the tests that ran on both; else by the bandwidths of both memories, which the timed part of a test
    goes by, and its loads do not; else as fast as here.
    """
    if target.pace:
        return median(target.pace), f"by {len(target.pace)} that ran on both"
    bandwidth, there = _bandwidth(here), target.terms.bandwidth_bytes_per_s
    if bandwidth is None or there is None:
        return 1.0, "nothing is known of its pace yet"
    loads = _share_of_loads(here)
    return 1.0 / (loads + (1.0 - loads) * bandwidth / there), "by the bandwidth of both"


def _bandwidth(here: Here) -> float | None:
    gpu = here.facts.gpu_name
    listed = None if gpu is None else profile_of_device(gpu, here.facts.gpu_memory_bytes)
    return here.baseline.bandwidth_bytes_per_s if listed is None else listed.bandwidth_bytes_per_s


def _share_of_loads(here: Here) -> float:
    """Which part of a launch pair is its loads; all of it where nothing is known of them."""
    assert here.facts.baseline is not None
    digest, load_s = here.facts.baseline.digest, here.baseline.load_s
    ttft_ms = here.baseline.ttft_ms.get(digest)
    if load_s is None or ttft_ms is None:
        return 1.0
    request = Request(ttft_ms, here.baseline.tpot_ms[digest], "the baseline's")
    plan = here.facts.spec.plan
    pair_s = pair_seconds_of(plan, plan.full_blocks, load_s, request, in_turn=here.facts.in_turn)
    timed_s = pair_seconds_of(plan, plan.full_blocks, 0.0, request, in_turn=here.facts.in_turn)
    return (pair_s - timed_s) / pair_s


def _measured_s(here: Here, queued: Queued, p_quality: float) -> float:
    """What its test is expected to take on the campaign's own target, where all that it needs is built."""
    cost = here.cost
    everything = replace(
        cost, built=cost.built | frozenset(build_keys(cost.view, queued.candidate, cost.priors))
    )
    return everything.expected_s([queued.candidate], [p_quality])[0]


def _missing_s(here: Here, target: OtherTarget, arms: Sequence[Configuration]) -> float:
    """Seconds to build what both arms need and the target does not have."""
    cost = here.cost
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
