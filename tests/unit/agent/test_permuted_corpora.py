"""Whichever calibration corpus keeps what the model knows, the agent finds it: labels of corpora are turned.

Times are those of parts of the step of 9B on an H200 (docs/results/h200-9b.md). That one corpus keeps the
tasks and the others lose them is planted: it is what turning the labels moves. The agent's proposers,
surrogate and ranking are the real ones, without noise and without a campaign around them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest

from agent.campaign.known.incumbent import find_incumbent
from agent.proposers.asking import ask
from agent.proposers.port import Trial
from agent.proposers.rules import RulesProposer
from agent.ranking.candidates import candidate_of
from agent.ranking.ranking import rank
from agent.surrogate.beliefs import Beliefs
from agent.surrogate.levers import joined
from experiments.measurement.judging import Outcome
from experiments.measurement.plan import Margins
from experiments.space.configuration import Configuration
from tests.unit.agent import campaigns
from tests.unit.agent.test_permuted_kernels import BASELINE, FP8_MS, PARTS, PHYSICS, SPACE, STORED_MS

METHOD, CORPUS = "quantization.method", "quantization.corpus"
CORPORA = SPACE.knob(CORPUS).values
PACKED_MS, EIGHT_BITS_MS, HEAD_SAVES_MS = 3.57, 4.29, 0.285
BITS_LOG = 0.004
"""What four bits lose of the bits of running text, on whatever corpus: less than the margin."""

KEPT_POINTS, LOST_POINTS = -0.5, -6.0
TRIALS, QUEUE = 16, 10
GOOD_ENOUGH = 1.03


class World:
    """What a step takes and what is left of the tasks, where one corpus keeps them."""

    def __init__(self, keeper: str) -> None:
        self.keeper = keeper

    @property
    def best_ms(self) -> float:
        return PACKED_MS - HEAD_SAVES_MS

    def step_ms(self, configuration: Mapping[str, object]) -> float:
        if configuration.get(METHOD, "none") == "none":
            return FP8_MS if configuration.get("serving.weight_dtype") == "fp8" else STORED_MS
        packed = PACKED_MS if configuration.get("quantization.bits") == 4 else EIGHT_BITS_MS
        return packed - HEAD_SAVES_MS * (configuration.get("quantization.lm_head") == "quantized")

    def points(self, configuration: Mapping[str, object]) -> float:
        if configuration.get("quantization.bits") != 4:
            return 0.0
        return KEPT_POINTS if configuration.get(CORPUS) == self.keeper else LOST_POINTS

    def judged(self, number: int, control: Configuration, candidate: Configuration) -> Trial:
        points, quantized = self.points(candidate), candidate.get("quantization.bits") == 4
        effect = math.log(self.step_ms(candidate) / self.step_ms(control))
        kept = points >= -Margins().task_points
        supported = kept and effect < math.log1p(-0.03)
        return replace(
            campaigns.trial(campaigns.COMPILED, Outcome.REFUTED, None, hypothesis_id=number),
            control=control,
            candidate=candidate,
            lever=joined(SPACE.levers_between(control, candidate)),
            outcome=Outcome.SUPPORTED if supported else Outcome.REFUTED,
            effect_log=effect if kept else None,
            effect_se_log=0.005 if kept else None,
            bits_ratio_log=BITS_LOG if quantized else 0.0,
            task_points=points,
        )


def trials_to_the_best(world: World) -> int | None:
    """How many trials the agent takes; None if it does not find it in `TRIALS`."""
    trials: list[Trial] = []
    for number in range(1, TRIALS + 1):
        incumbent = find_incumbent(BASELINE, trials).configuration
        beliefs = Beliefs.learn(SPACE, PHYSICS, trials, Margins())
        view = replace(
            campaigns.view(),
            space=SPACE,
            baseline=BASELINE,
            incumbent=incumbent,
            trials=tuple(trials),
            taken=frozenset(trial.candidate.digest for trial in trials),
            profile=PARTS,
            bandwidth_bytes_per_s=PHYSICS.bandwidth_bytes_per_s,
            serves_packed=True,
            predict=beliefs.predict,
            predict_on=beliefs.predict,
            banned_levers=frozenset({"drafting", "pruning"}),
        )
        drafts = ask(view, (RulesProposer(),), 4 * QUEUE, {}, lambda draft: draft.metric is None)
        about = beliefs.about([(incumbent, draft.candidate) for draft in drafts])
        candidates = [
            candidate_of(
                each,
                SPACE.levers_between(incumbent, draft.candidate),
                replace(belief, cost_s=100.0, builds_s={}),
            )
            for each, (draft, belief) in enumerate(zip(drafts, about, strict=True))
        ]
        candidate = drafts[rank(candidates).order[0]].candidate
        trials.append(world.judged(number, incumbent, candidate))
        best = find_incumbent(BASELINE, trials).configuration
        if world.step_ms(best) <= GOOD_ENOUGH * world.best_ms:
            return number
    return None


@pytest.mark.parametrize(
    "keeper",
    [
        *CORPORA[:2],
        *(pytest.param(each, marks=pytest.mark.bench_only) for each in CORPORA[2:]),
    ],
)
def test_the_corpus_that_keeps_the_tasks_is_found_whatever_it_is_called(keeper: str) -> None:
    found = trials_to_the_best(World(keeper))
    print(f"{keeper} keeps the tasks: {found} trials")
    assert found is not None


def test_before_anything_was_measured_no_corpus_is_believed_better() -> None:
    beliefs = Beliefs.learn(SPACE, PHYSICS, (), Margins())
    quantized = SPACE.with_change(BASELINE, {METHOD: "awq"})
    told = {beliefs.p_quality(SPACE.with_change(quantized, {CORPUS: each})) for each in CORPORA}
    assert len(told) == 1
