"""What tests of a campaign are expected to cost before one has run, and what they may take at most: by the
baseline's own launches and evaluation, and by the builds of this model that were measured here. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from agent.campaign.known.facts import Facts
from agent.campaign.known.measured import Baseline
from agent.campaign.known.room import room_of
from agent.plan.at_once import IN_TURN
from agent.plan.duration import further_seconds, loaded_together, pair_seconds_of, test_seconds, waits
from agent.plan.further import further_of
from agent.plan.load_and_request import Request
from agent.surrogate.cost import CostBelief
from agent.surrogate.cost_priors import PAIRS_PRIOR, CostPriors, nothing_more
from agent.surrogate.timed_kernels import TimedKernels
from configs.campaign_plan import PlanSpec
from configs.models import ModelProfile
from experiments.space.configuration import Configuration

BILLION = 1e9


def cost_priors(
    plan: PlanSpec,
    baseline: Baseline,
    digest: str,
    profile: ModelProfile | None,
    built_s: Mapping[str, float],
    *,
    in_turn: bool = False,
    at_once: int | None = None,
    cores: int | None = None,
    made_up: bool = False,
    timed: TimedKernels | None = None,
    room: Callable[[Configuration], int | None] | None = None,
) -> CostPriors:
    """The priors of a campaign whose baseline is measured under `digest`; what it does not tell is that of
    the packaged model. `made_up`: weights are (docs/shapes.md). `at_once` launches have room on
    so many `cores`, None where that is not known.

    A test that is timed takes `PAIRS_PRIOR` pairs, the first of them the quick one, and an evaluation in a
    launch that is up; a look at changed weights takes a load and an evaluation. Loads are counted as the
    baseline's, those of its first launch too, which may have compiled what the others found; what the first
    calls of a candidate's kernels took when they were `timed` alone comes to each of its own. Pairs that load
    together are waited for once. Where a candidate has `room` for fewer launches beside its control, its
    pairs wait for each other, and where for one only, each of them for two loads.
    """
    billions = 0.0 if profile is None else profile.text_parameters / BILLION

    compiled_s = nothing_more if timed is None else timed.compiles_s
    packaged = CostPriors(built_s=built_s, billions=billions, made_up=made_up, compiled_s=compiled_s)
    load_s, ttft_ms = baseline.load_s, baseline.ttft_ms.get(digest)
    if load_s is None or ttft_ms is None:
        return packaged
    request = Request(ttft_ms, baseline.tpot_ms[digest], "the baseline's")
    quick_s = pair_seconds_of(plan, plan.quick_blocks, load_s, request, in_turn=in_turn)
    full_s = pair_seconds_of(plan, plan.full_blocks, load_s, request, in_turn=in_turn)
    evaluation_s = baseline.evaluation_s or 0.0
    loads = waits(PAIRS_PRIOR, loaded_together(plan, at_once, cores, latency_only=made_up))

    def apart_s(candidate: Configuration) -> float:
        up = at_once if room is None else room(candidate)
        if up == at_once:
            return 0.0
        own = waits(PAIRS_PRIOR, loaded_together(plan, up, cores, latency_only=made_up))
        alone = PAIRS_PRIOR if up == IN_TURN else 0
        return (own + alone - loads) * load_s + (own - loads) * compiled_s(candidate)

    return replace(
        packaged,
        measure_s=quick_s + (PAIRS_PRIOR - 1) * full_s - (PAIRS_PRIOR - loads) * load_s + evaluation_s,
        loads=loads,
        screen_s=load_s + evaluation_s,
        apart_s=apart_s,
    )


def most_seconds(
    facts: Facts,
    baseline: Baseline,
    cost: CostBelief,
    tests: Sequence[tuple[Configuration, Configuration]],
) -> Sequence[float | None]:
    """The seconds of tests of these controls and candidates if all of their plan is measured; None where
    nothing is known of loads."""
    assert facts.baseline is not None
    digest, load_s = facts.baseline.digest, baseline.load_s
    ttft_ms = baseline.ttft_ms.get(digest)
    if load_s is None or ttft_ms is None:
        return [None] * len(tests)
    spec, room = facts.spec, room_of(facts)
    request = Request(ttft_ms, baseline.tpot_ms[digest], "the baseline's", spec.plan.workload.concurrency)
    candidates = [candidate for _, candidate in tests]
    asked = [(cost.priors.compiled_s(candidate), room(control, candidate)) for control, candidate in tests]
    plan_s = {
        (compiles_s, at_once): test_seconds(
            spec.plan,
            spec.budget.wall_s,
            load_s,
            request,
            in_turn=at_once == IN_TURN,
            compiles_s=compiles_s,
            further_s=further_seconds(further_of(spec), spec.plan.workload, request),
            scored=not spec.latency_only,
            together=loaded_together(spec.plan, at_once, facts.cores, latency_only=spec.latency_only),
        )[1]
        for compiles_s, at_once in set(asked)
    }
    return cost.whole_s(candidates, [plan_s[each] for each in asked])
