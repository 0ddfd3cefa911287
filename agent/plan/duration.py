"""How long a campaign takes to its first verdict, told before it begins, each figure with its basis. Pure.

From the most certain to the least: what whole experiments took here, on this model, target and engine; and
what loads and requests take (`load_and_request.py`), put together by the plan. Which it was is told with the
figure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from agent.plan.building import Build
from agent.plan.length import ARMS, MS_PER_S, affordable_pairs
from agent.plan.load_and_request import Request, Stored, known_load, known_request
from agent.surrogate.timed_kernels import TimedKernels
from configs.campaign_plan import PlanSpec, WorkloadSpec
from configs.quality_tasks import ANSWER_TOKENS, asked_tasks
from configs.quantities import format_duration
from experiments.job.named import times_kernels
from experiments.measurement.plan import FurtherWorkload

S_PER_H = 3600

WORTH_TESTS = 6
"""Tests that a campaign should be able to carry to their end; the packaged ones stop no sooner."""

UNASKED_MOST_S = 24 * 3600.0
"""The longest budget, in seconds, that a campaign takes by its plan where nobody said how long it may take: a
night and a day, which is what is lost at most by who starts it and walks away."""

ITEM_TOKENS = 64
"""Tokens of an instruction item that is graded, about."""


@dataclass(frozen=True)
class Duration:
    """Seconds to the first verdict, at least and at most, of what they consist, and what each rests on."""

    baseline_s: float
    least_test_s: float
    most_test_s: float
    basis: tuple[str, ...]
    baseline_more_s: float = 0.0
    """By how much the baseline may take longer, where its loads are as long as the longest that are known."""

    @property
    def least_s(self) -> float:
        """The first verdict where the first look decides."""
        return self.baseline_s + self.least_test_s

    @property
    def most_s(self) -> float:
        """The first verdict where everything that the plan allows is measured."""
        return self.baseline_s + self.baseline_more_s + self.most_test_s


def duration(
    plan: PlanSpec,
    sweep: int,
    sweep_blocks: int,
    noise: tuple[int, int],
    budget_s: float,
    load: tuple[float, str],
    request: Request,
    stored: Stored,
    *,
    in_turn: bool = False,
    together: bool = False,
    first_load_more_s: float = 0.0,
    changed_load_more_s: float = 0.0,
    longest_load_more_s: float = 0.0,
    kernels_s: float = 0.0,
    compiles_s: float = 0.0,
    further: Iterable[FurtherWorkload] = (),
    scored: bool = True,
    pairs_together: int = 1,
    build: Build | None = None,
) -> Duration:
    """Time to the first verdict: the baseline of `sweep` configurations and `noise` (launches, blocks), and a
    test under `plan` that ends with its first look, or goes to its end.

    `in_turn`: one launch is up at a time. `together`: as many load at once as are asked for, so that the
    launches of a sweep, or for noise, take the time of one load; else loads are added up, which is the most.
    Where no load was measured here, the first of all takes `first_load_more_s` more and the first of another
    configuration `changed_load_more_s`: in a test one wait for loads, in a sweep all but the first, which
    those that load with it are as one; at most each wait takes `longest_load_more_s` more. `kernels_s` are
    those of timing kernels alone before the loads, at most, `compiles_s` as in `test_seconds`. `further`
    workloads are measured in every launch of the test. `scored`: quality is, which that of made-up weights is
    not; `pairs_together` as `together` in `test_seconds`.
    `build` comes before the first load; baselines that were measured have it.
    """
    load_s, load_basis = known_load(load, stored)
    told = known_request(request, stored)
    known = stored.load_s is not None
    first_s, changed_s, longest_s = (
        (0.0, 0.0, 0.0) if known else (first_load_more_s, changed_load_more_s, longest_load_more_s)
    )
    further_s = further_seconds(further, plan.workload, told)

    def baseline_of(load_s: float) -> float:
        return baseline_seconds(
            plan.workload, sweep, sweep_blocks, noise, load_s, told, together=together, scored=scored
        )

    def test_of(load_s: float) -> tuple[float, float]:
        return test_seconds(
            plan,
            budget_s,
            load_s,
            told,
            in_turn=in_turn,
            compiles_s=compiles_s,
            further_s=further_s,
            scored=scored,
            together=pairs_together,
        )

    baseline_s = baseline_of(load_s)
    baseline_more_s = baseline_of(load_s + longest_s) - baseline_s
    others = min(1, sweep - 1) if together else sweep - 1
    baseline_s += first_s + others * changed_s + kernels_s + (0.0 if build is None else build.seconds)
    quick_s, most_s = test_of(load_s)
    most_s = max(most_s, test_of(load_s + longest_s)[1])
    quick_s, most_s = quick_s + changed_s, most_s + changed_s
    each_s = told.seconds(plan.workload.new_tokens)
    basis = [
        f"a load of {format_duration(round(load_s))} ({load_basis})",
        f"a request of {format_duration(each_s)} ({told.basis})",
    ]
    if first_s:
        basis.insert(
            1, f"{format_duration(round(first_s))} more for the first load, which builds what later ones find"
        )
    if changed_s:
        basis.insert(
            2, f"{format_duration(round(changed_s))} more for the first load of another configuration"
        )
    if longest_s:
        basis.insert(3, f"{format_duration(round(longest_s))} more at most at each wait for loads")
    if kernels_s:
        basis.append(f"{format_duration(round(kernels_s))} at most for timing kernels alone")
    if compiles_s:
        basis.append(
            f"{format_duration(round(compiles_s))} more at each wait for loads, for what kernels compile, "
            "as they did when timed alone here"
        )
    if further_s:
        basis.append(
            f"{format_duration(round(further_s))} more in each launch of a test for further workloads"
        )
    if stored.baseline_s is not None:
        baseline_s, baseline_more_s = stored.baseline_s + kernels_s, 0.0
        basis.append(
            f"a baseline of {format_duration(round(stored.baseline_s))} ({stored.baselines} measured here)"
        )
    elif build is not None:
        basis.append(
            f"{format_duration(round(build.seconds))} for {build.words} what it begins from, which comes "
            f"first ({build.basis})"
        )
    if stored.test_s is not None:
        test_s = stored.test_s + ARMS * further_s  # of one pair at least
        quick_s = min(quick_s, test_s)
        most_s = max(most_s, test_s)
        basis.append(f"a test of {format_duration(round(stored.test_s))} ({stored.tests} measured here)")
    return Duration(baseline_s, quick_s, most_s, tuple(basis), baseline_more_s)


KERNELS_S = 105.0
"""Seconds that timing kernels alone takes on the shape of 9B: 105 on an H100's host, 26 of them vLLM's
imports, where the limit of the rest was reached because one kernel is compiled for long
(docs/results/h100-campaign.md)."""


def kernels_seconds(
    engine: str, asked: bool, rows: int, timed: TimedKernels | None = None, *, on_gpu: bool
) -> float:
    """Seconds of timing kernels alone with so many rows before a baseline's loads, at most; 0 where that is
    not done, or was `timed` here and left nothing."""
    known = timed is not None and timed.timings.rows == rows and not timed.timings.is_unfinished
    return KERNELS_S if asked and on_gpu and times_kernels(engine) and not known else 0.0


def baseline_seconds(
    workload: WorkloadSpec,
    sweep: int,
    sweep_blocks: int,
    noise: tuple[int, int],
    load_s: float,
    request: Request,
    *,
    together: bool,
    scored: bool,
) -> float:
    """Seconds of a baseline of `sweep` configurations and `noise` (launches, blocks); `together` and `scored`
    as in `duration`."""
    block_s, warm_s = block_seconds(workload, request), warm_seconds(workload, request)
    launches, blocks = noise
    loads = 2 if together else sweep + launches  # the last one is scored and profiled too
    timed_s = sweep * (warm_s + sweep_blocks * block_s) + launches * (warm_s + blocks * block_s)
    return loads * load_s + timed_s + (_scoring_s(workload, request) if scored else 0.0)


def test_seconds(
    plan: PlanSpec,
    budget_s: float,
    load_s: float,
    request: Request,
    *,
    in_turn: bool,
    compiles_s: float,
    further_s: float,
    scored: bool,
    together: int,
) -> tuple[float, float]:
    """Seconds of a test that ends with its first look, and of one of which all that is planned is measured,
    without builds; `in_turn`: one launch is up at a time; `scored`: quality is, in a launch of its own.

    `compiles_s` are those by which the loads of a pair take longer than `load_s`, which is the baseline's,
    because kernels are compiled in them, `further_s` those of further workloads in a launch; how many pairs
    the budget pays for goes by the baseline's loads and the plan's own blocks, as it does when a test is
    sealed. So many pairs load `together`, and are waited for once.
    """
    quick_s = pair_seconds_of(plan, plan.quick_blocks, load_s, request, in_turn=in_turn)
    pair_s = pair_seconds_of(plan, plan.full_blocks, load_s, request, in_turn=in_turn)
    each_s = block_seconds(plan.workload, request)
    pairs = affordable_pairs(plan.full_pairs, budget_s, ARMS * (load_s + plan.full_blocks * each_s))
    scoring_s = load_s + _scoring_s(plan.workload, request) + compiles_s if scored else 0.0
    more = pairs + plan.validation_pairs
    besides_s = compiles_s + ARMS * further_s
    quick_s += besides_s
    spared_s = (1 + more - waits(1 + more, together)) * (load_s + compiles_s)
    return quick_s, quick_s + more * (pair_s + besides_s) - spared_s + scoring_s


def loaded_together(plan: PlanSpec, at_once: int | None, cores: int | None, *, latency_only: bool) -> int:
    """Pairs of a test that load at the same time (`experiments/job/pairs_ahead.py`): where no quality needs
    the room, one and those of the validation, as far as `at_once` launches and `cores` have room."""
    if not latency_only or at_once is None:
        return 1
    room = at_once if cores is None else min(at_once, cores)
    return max(1, min(1 + plan.validation_pairs, room // ARMS))


def waits(pairs: int, together: int) -> int:
    """How often so many pairs wait for loads, of which so many load `together`."""
    return math.ceil(pairs / together)


def pair_seconds_of(
    plan: PlanSpec, blocks: int, load_s: float, request: Request, *, in_turn: bool = False
) -> float:
    """Seconds on the clock of a launch pair of `blocks` blocks an arm: both load at the same time, or, with
    `in_turn`, one after the other."""
    loads = ARMS if in_turn else 1
    warm_s, block_s = warm_seconds(plan.workload, request), block_seconds(plan.workload, request)
    return loads * load_s + ARMS * (warm_s + blocks * block_s)


def block_seconds(workload: WorkloadSpec, request: Request) -> float:
    """Seconds of a block: as many requests at once as the workload asks for."""
    return _rounds(workload.prompts_per_block, workload) * request.seconds(workload.new_tokens)


def warm_seconds(workload: WorkloadSpec, request: Request) -> float:
    """Seconds of the warm-up of a launch."""
    return _rounds(workload.warmup_requests, workload) * request.seconds(workload.new_tokens)


def further_seconds(further: Iterable[FurtherWorkload], workload: WorkloadSpec, request: Request) -> float:
    """Seconds of further workloads in a launch, by the times of a request of the campaign's own: a prompt
    takes as long as it is longer, prompts are read one after the other, and requests that are under way at
    once share every step. The campaign's own warm-up comes last, once more."""
    seconds = 0.0
    for each in further:
        prompt_ms = request.prompt_ms * each.prompt_tokens / workload.prompt_tokens
        asked = each.workload
        for requests, times in ((asked.requests_before, 1), (asked.requests_per_block, each.blocks)):
            rounds = math.ceil(requests / each.concurrency)
            steps_ms = rounds * request.tpot_ms * (each.new_tokens - 1)
            seconds += times * (requests * prompt_ms + steps_ms) / MS_PER_S
    return seconds + warm_seconds(workload, request) if seconds else 0.0


def is_too_long_unasked(wall_s: float) -> bool:
    """Whether a budget is longer than a campaign takes where nobody said how long it may take."""
    return wall_s > UNASKED_MOST_S


def reaching_s(found: Duration, budget_s: float) -> float:
    """A budget that reaches the first verdict: this one where it does, else whole hours that pay for
    `WORTH_TESTS` tests to their end."""
    if budget_s >= found.most_s:
        return budget_s
    return S_PER_H * math.ceil((found.baseline_s + WORTH_TESTS * found.most_test_s) / S_PER_H)


def advice(found: Duration, budget_s: float, *, raised: bool = False) -> str | None:
    """What to say of a budget that may not reach the first verdict; None of one that does. `raised`: a
    campaign that begins without another takes one that does, as long as it is not too long unasked."""
    wanted_s = reaching_s(found, budget_s)
    if wanted_s == budget_s:
        return None
    wanted, typed = format_duration(wanted_s), f"{wanted_s / S_PER_H:.0f}h"
    short = "may not reach" if budget_s >= found.least_s else "does not reach"
    if raised and is_too_long_unasked(wanted_s):
        return (
            f"{format_duration(budget_s)} {short} a first verdict here, and the {wanted} that pay for "
            f"{WORTH_TESTS} tests to their end are more than the {format_duration(UNASKED_MOST_S)} that a "
            f"campaign takes unasked: --budget {typed} asks for them."
        )
    if raised:
        return (
            f"{format_duration(budget_s)} {short} a first verdict here, so a campaign takes {wanted}, which "
            f"pays for {WORTH_TESTS} tests to their end; --budget TIME says otherwise."
        )
    return f"It {short} a first verdict; --budget {typed} pays for {WORTH_TESTS} tests to their end."


def _rounds(requests: int, workload: WorkloadSpec) -> int:
    """How often one request after the other is waited for, where so many are under way at once."""
    return math.ceil(requests / workload.concurrency)


def _scoring_s(workload: WorkloadSpec, request: Request) -> float:
    """Seconds to score documents and items, which are prefills, at the rate at which prompts are read, and
    to answer quality tasks."""
    tokens = workload.evaluation_documents * workload.evaluation_tokens_per_document
    tokens += workload.evaluation_items * ITEM_TOKENS
    answers = sum(task.items for task in asked_tasks(workload.evaluation_tasks or ()))
    answer_s = request.seconds(workload.evaluation_answer_tokens or ANSWER_TOKENS)
    prefills_s = tokens * request.prompt_ms / MS_PER_S / max(1, workload.prompt_tokens)
    return prefills_s + _rounds(answers, workload) * answer_s
