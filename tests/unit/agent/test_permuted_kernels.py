"""Whichever kernel is the fast one, the agent finds it as soon: labels of kernels are turned round.

The world is made of what an H200 took for parts of the step of 9B (docs/results/h200-9b.md), added up; the
agent's proposer, surrogate and ranking are the real ones, without noise and without a campaign around them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest

from agent.proposers.port import CampaignView, Draft, Trial
from agent.proposers.rules import RulesProposer
from agent.ranking.candidates import candidate_of
from agent.ranking.ranking import rank
from agent.surrogate.beliefs import Beliefs
from agent.surrogate.levers import joined
from agent.surrogate.physics import Physics
from configs.models import load_model_profile
from experiments.measurement.judging import Outcome
from experiments.measurement.plan import Margins
from experiments.space.configuration import Configuration
from experiments.space.loading import load_space
from experiments.space.workload_rules import BATCH_TOKENS, same_at
from tests.recorded.vllm_kernels import PROFILED, recorded_parts
from tests.unit.agent import campaigns

VLLM = load_space("vllm")
SPACE = VLLM.passing_over({BATCH_TOKENS: same_at(VLLM, 1, 512).values()})
"""The space as a campaign has it that asks for one request at once of 512 tokens."""

BASELINE = SPACE.configuration({})
METHOD, KERNEL, HEAD = "quantization.method", "serving.linear_backend", "quantization.lm_head"
PARTS = tuple(recorded_parts("bf16"))
PHYSICS = Physics(
    baseline=BASELINE,
    tpot_ms=5.24,
    profile=PARTS,
    bandwidth_bytes_per_s=float(PROFILED["bf16"]["copy_bytes_per_s"]),
    shape=load_model_profile("qwen3.5-9b"),
    serves_packed=True,
)

STORED_MS, FP8_MS = 5.24, 3.75
PACKED_MS = (4.19, 3.57, 3.46)
"""A step with W4 in groups of 128 by three kernels that serve it; the engine's own choice is the slowest."""

SERVE = len(PACKED_MS)
HEAD_SAVES_MS, STATE_SAVES_MS, GRAPHS_TAKE_MS = 0.285, 0.033, 9.0
LABELS = tuple(
    value for knob in SPACE.knobs if knob.name == KERNEL for value in knob.values if value != "auto"
)
TRIALS = 12
GOOD_ENOUGH = 1.03
"""A step this much above the best that can be had counts as found: less is below the smallest effect."""


@dataclass(frozen=True)
class World:
    """What a step takes; `kernels` are the labels in the order of `PACKED_MS`, those beyond serve nothing."""

    kernels: tuple[str, ...]

    @property
    def best_ms(self) -> float:
        return min(PACKED_MS) - HEAD_SAVES_MS - STATE_SAVES_MS

    def step_ms(self, configuration: Mapping[str, object]) -> float | None:
        """None where it does not run."""
        packed = configuration.get(METHOD, "none") != "none"
        if packed:
            kernel = configuration.get(KERNEL)
            place = 0 if kernel == "auto" else self.kernels.index(str(kernel))
            if place >= SERVE or configuration.get("quantization.bits") != 4:
                return None
            step = PACKED_MS[place] - HEAD_SAVES_MS * (configuration.get(HEAD) == "quantized")
        else:
            step = FP8_MS if configuration.get("serving.weight_dtype") == "fp8" else STORED_MS
        step -= STATE_SAVES_MS * (configuration.get("serving.gdn_state_dtype") == "bfloat16")
        return step + GRAPHS_TAKE_MS * (configuration.get("serving.graph_mode") in ("none", "eager"))


def first_of(view: CampaignView, beliefs: Beliefs) -> Draft:
    """The draft that the ranking puts first; a shape takes none that drafts or prunes."""
    drafts = [
        draft
        for draft in RulesProposer().propose(view, 60)
        if all(draft.candidate.get(f"{lever}.method") == "none" for lever in ("drafting", "pruning"))
    ]
    about = beliefs.about([(view.incumbent, draft.candidate) for draft in drafts])
    candidates = [
        candidate_of(
            number,
            SPACE.levers_between(view.incumbent, draft.candidate),
            replace(belief, cost_s=100.0, builds_s={}),
        )
        for number, (draft, belief) in enumerate(zip(drafts, about, strict=True))
    ]
    return drafts[rank(candidates).order[0]]


def trials_to_the_best(world: World) -> int | None:
    """How many trials the agent takes; None if it does not find it in `TRIALS`."""
    trials: list[Trial] = []
    incumbent = BASELINE
    for number in range(1, TRIALS + 1):
        packed = incumbent.get(METHOD, "none") != "none"
        own = tuple(recorded_parts("machete" if incumbent.get(KERNEL) == "auto" else "marlin"))
        physics = replace(PHYSICS, incumbent_profile=own if packed else ())
        beliefs = Beliefs.learn(SPACE, physics, trials, Margins(), judges_quality=False)
        view = replace(
            campaigns.view(),
            space=SPACE,
            baseline=BASELINE,
            incumbent=incumbent,
            trials=tuple(trials),
            taken=frozenset(trial.candidate.digest for trial in trials),
            profile=PARTS,
            incumbent_profile=physics.incumbent_profile,
            bandwidth_bytes_per_s=PHYSICS.bandwidth_bytes_per_s,
            serves_packed=True,
            predict=beliefs.predict,
            predict_on=beliefs.predict,
        )
        candidate = first_of(view, beliefs).candidate
        trials.append(judged(world, number, incumbent, candidate))
        if trials[-1].outcome == Outcome.SUPPORTED:
            incumbent = candidate
        now_ms = world.step_ms(incumbent)
        if now_ms is not None and now_ms <= GOOD_ENOUGH * world.best_ms:
            return number
    return None


def judged(world: World, number: int, control: Configuration, candidate: Configuration) -> Trial:
    before, after = world.step_ms(control), world.step_ms(candidate)
    effect = None if before is None or after is None else math.log(after / before)
    supported = effect is not None and effect < math.log1p(-0.03)
    ran = Outcome.SUPPORTED if supported else Outcome.REFUTED
    return replace(
        campaigns.trial(campaigns.COMPILED, Outcome.INFEASIBLE, None, hypothesis_id=number),
        control=control,
        candidate=candidate,
        lever=joined(SPACE.levers_between(control, candidate)),
        outcome=Outcome.INFEASIBLE if effect is None else ran,
        effect_log=effect,
        effect_se_log=None if effect is None else 0.005,
        failure_kind="unsupported" if effect is None else None,
    )


@pytest.mark.parametrize("turn", range(len(LABELS)))
def test_the_best_is_found_in_every_turn_of_the_labels(turn: int) -> None:
    found = trials_to_the_best(World(LABELS[turn:] + LABELS[:turn]))
    print(f"labels turned by {turn}: {found} trials")
    assert found is not None


def test_what_multiplies_8_bit_weights_is_open_by_as_much_as_one_kernel_is_beside_another() -> None:
    def open_of(lever: str, knob: str, value: str) -> float:
        products = PHYSICS.expect(lever, ((knob, value),)).parts["gemm"]
        return math.hypot(*products.open.values())

    between_two = math.sqrt(2) * open_of("kernel", KERNEL, LABELS[0])
    assert open_of("weight_dtype", "serving.weight_dtype", "fp8") == pytest.approx(between_two)
