"""What measuring costs in seconds, by the evidence itself: a launch pair, an evaluation, the whole plan.
Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from agent.judge.once import once
from agent.judge.pairs import TIMED_STAGES
from configs.quality_tasks import ANSWER_TOKENS, asked_tasks
from experiments.measurement.evidence import Arm, Evidence, LaunchRecord, Metric, Stage
from experiments.measurement.plan import StoppingPlan
from experiments.measurement.timed import requests_s

TASK_ITEM_TOKENS = 64
"""Tokens scored for one instruction item, prompt and answer, for the estimate of cost alone."""

MS_PER_S = 1e3


@dataclass(frozen=True)
class PairCost:
    """Seconds of a timed launch pair: until both arms could be asked, `load_s` with each load counted and
    `waited_s` by the clock, where what loads side by side is waited for once; and of the requests of both,
    over `blocks` blocks an arm.

    Steps are chosen by the loads of both arms, as in all versions of the judge; what is told goes by the
    clock.
    """

    load_s: float
    waited_s: float
    requests_s: float
    blocks: int

    @property
    def total_s(self) -> float:
        """Seconds in all, each load counted."""
        return self.load_s + self.requests_s

    def by_clock_s(self, blocks: int | None = None) -> float:
        """Seconds on the clock, of such a pair with another number of blocks an arm where one is given."""
        share = blocks / self.blocks if blocks is not None and self.blocks else 1.0
        return self.waited_s + self.requests_s * share


@dataclass(frozen=True)
class Spending:
    """Seconds on the clock that measuring took by now, and that the whole plan would have taken at this cost
    a pair.

    What it took is what its stages took, where that is known. Else pairs are added up as they were loaded,
    and the candidate's evaluation counts with its expected cost once it is made, and a look at its weights
    before anything was timed as much: samples of quality carry no time. The plan counts an evaluation that
    was not made with that cost too; that of made-up weights, which have no quality, is never made.
    """

    spent_s: float
    planned_s: float


def pair_costs(evidence: Evidence) -> tuple[PairCost, ...]:
    """The cost of every timed pair, in order of index; a launch without its partner counts too."""
    load: defaultdict[int, float] = defaultdict(float)
    waited: defaultdict[int, dict[Arm, float]] = defaultdict(dict)
    requests: defaultdict[int, float] = defaultdict(float)
    blocks: defaultdict[int, set[int]] = defaultdict(set)
    for arm in Arm:
        for record in evidence.of(arm, *TIMED_STAGES):
            load[record.index] += record.load_s
            waited[record.index][arm] = record.load_s  # of one launch, however many records it has
            requests[record.index] += _request_s(record)
            blocks[record.index] |= _block_numbers(record)
    together = math.fsum if evidence.in_turn else max
    return tuple(
        PairCost(load[index], together(waited[index].values()), requests[index], len(blocks[index]))
        for index in sorted(load)
    )


_request_s = once(requests_s)


@once
def _block_numbers(record: LaunchRecord) -> frozenset[int]:
    return frozenset(sample.block for sample in record.samples)


def pair_cost_s(evidence: Evidence) -> float:
    """Seconds of the dearest timed pair so far: loading and requests of both arms."""
    return max((cost.total_s for cost in pair_costs(evidence)), default=0.0)


def warm_load_s(evidence: Evidence) -> float:
    """Seconds until both arms of a further pair can be asked: twice what the quickest launch took.

    The first launch of an arm may build what later ones find: compiled code, a drafter.
    """
    loads = [each.load_s for arm in Arm for each in evidence.of(arm, *TIMED_STAGES)]
    return len(Arm) * min(loads, default=0.0)


def evaluation_cost_s(plan: StoppingPlan, evidence: Evidence) -> float:
    """Expected seconds of evaluating the candidate: a launch, and its tokens at the speed of its prefill.

    The control's evaluation is an artifact that other experiments share, and counts nothing. Without a TTFT
    to tell the speed of prefill, the cost of a timed pair stands in.
    """
    launches = evidence.of(Arm.CANDIDATE, *TIMED_STAGES)
    ttft_ms = [value for record in launches for value in record.values(Metric.TTFT_MS)]
    if not ttft_ms:
        return pair_cost_s(evidence)
    work = plan.workload
    tokens = (
        work.evaluation_documents * work.evaluation_tokens_per_document
        + work.evaluation_items * TASK_ITEM_TOKENS
    )
    seconds_a_token = median(ttft_ms) / MS_PER_S / work.prompt_tokens
    scoring_s = tokens * seconds_a_token + _answers_s(plan, launches)
    return median(record.load_s for record in launches) + scoring_s


def _answers_s(plan: StoppingPlan, launches: Sequence[LaunchRecord]) -> float:
    """Expected seconds to answer the quality tasks, as many at once as are timed; 0 without any."""
    work = plan.workload
    tpot_ms = [value for record in launches for value in record.values(Metric.TPOT_MS)]
    if not work.evaluation_tasks or not tpot_ms:
        return 0.0
    items = sum(task.items for task in asked_tasks(work.evaluation_tasks))
    rounds = math.ceil(items / work.concurrency)
    return rounds * (work.evaluation_answer_tokens or ANSWER_TOKENS) * median(tpot_ms) / MS_PER_S


def most_pairs(plan: StoppingPlan) -> int:
    """The most launch pairs that a plan allows, validation included."""
    return plan.full_pairs + plan.validation_pairs


def spending(plan: StoppingPlan, evidence: Evidence) -> Spending | None:
    """What measuring a timed experiment took and its whole plan would have taken; None while nothing was
    timed."""
    costs = pair_costs(evidence)
    if not costs:
        return None
    evaluation = evaluation_cost_s(plan, evidence)
    evaluated = bool(evidence.of(Arm.CANDIDATE, Stage.EVALUATE))
    spent = evidence.measured_s
    if spent is None:
        looks = evaluated + bool(evidence.of(Arm.CANDIDATE, Stage.SCREEN))
        spent = math.fsum(cost.by_clock_s() for cost in costs) + evaluation * looks
    left = max(0, most_pairs(plan) - len(costs)) * median(cost.by_clock_s(plan.full_blocks) for cost in costs)
    unmade = 0.0 if evaluated or plan.latency_only else evaluation
    return Spending(spent, spent + left + unmade)
