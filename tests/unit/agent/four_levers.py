"""A campaign over all four levers as proposers and surrogate see it: the packaged space, the shape of the
reference model, a made-up profile."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from agent.proposers.port import CampaignView, Trial, nothing_refused
from agent.surrogate.beliefs import Beliefs
from agent.surrogate.levers import LeverView
from agent.surrogate.physics import Physics
from configs.models import load_model_profile
from experiments.measurement.evidence import Metric
from experiments.measurement.judging import Outcome
from experiments.measurement.plan import Margins
from experiments.space.budget import ParameterBudget, Refused
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.legality import ModelFacts, legal_levers
from experiments.space.loading import load_space
from tests.unit.agent import campaigns

SHAPE = load_model_profile("reference")
FACTS = ModelFacts.of(SHAPE, packaged_drafters=frozenset({"dflash"}), cores=2)
SPACE, WITHHELD = legal_levers(load_space("levers"), FACTS)
BASELINE = SPACE.configuration({"serving.threads": 2})
PHYSICS = replace(campaigns.PHYSICS, baseline=BASELINE, shape=SHAPE)
VIEW = LeverView.of(SPACE, BASELINE)
BUDGET = ParameterBudget.of(SHAPE, "baseline", {("dflash", "packaged"): 400_000})


def set_to(knobs: Mapping[str, KnobValue], control: Configuration = BASELINE) -> Configuration:
    return SPACE.with_change(control, knobs)


ASYMMETRIC_128: Mapping[str, KnobValue] = {"quantization.group_size": 128, "quantization.symmetric": False}
AWQ = set_to({"quantization.method": "awq", **ASYMMETRIC_128})
AWQ_32 = set_to({"quantization.group_size": 32}, AWQ)
RTN_4 = set_to({"quantization.method": "rtn", **ASYMMETRIC_128})
RTN_8 = set_to({"quantization.bits": 8}, RTN_4)
DFLASH = set_to({"drafting.method": "dflash"})


def mtp(tokens: int, control: Configuration = BASELINE) -> Configuration:
    return set_to({"drafting.method": "mtp", "drafting.draft_tokens": tokens}, control)


def pruned(layers: int, control: Configuration = BASELINE, **other: KnobValue) -> Configuration:
    knobs: dict[str, KnobValue] = {"pruning.method": "depth", "pruning.layers_removed": layers}
    return set_to({**knobs, **{f"pruning.{name}": value for name, value in other.items()}}, control)


def trial(
    candidate: Configuration,
    outcome: Outcome,
    effect: float | None,
    *,
    control: Configuration = BASELINE,
    hypothesis_id: int = 1,
    length: float | None = None,
    metric: Metric | None = None,
    bits: float | None = None,
    cost_s: float = 60.0,
) -> Trial:
    """`effect` is a relative change: −0.1 is ten percent less; `length` the acceptance length."""
    return Trial(
        hypothesis_id=hypothesis_id,
        experiment_id=hypothesis_id,
        control=control,
        candidate=candidate,
        lever="+".join(sorted(SPACE.levers_between(control, candidate))),
        outcome=outcome,
        effect_log=None if effect is None else math.log1p(effect),
        effect_se_log=None if effect is None else 0.01,
        bits_ratio_log=bits,
        task_points=None,
        cost_s=cost_s,
        acceptance_length=length,
        metric=metric,
    )


def beliefs(trials: Sequence[Trial] = (), physics: Physics = PHYSICS) -> Beliefs:
    return Beliefs.learn(SPACE, physics, trials, Margins())


def view(
    trials: Sequence[Trial] = (),
    *,
    incumbent: Configuration = BASELINE,
    refused: Refused = nothing_refused,
    serves_packed: bool = False,
    other_metrics: bool = True,
) -> CampaignView:
    known = beliefs(trials, replace(PHYSICS, serves_packed=serves_packed))
    return replace(
        campaigns.view(),
        space=SPACE,
        baseline=BASELINE,
        incumbent=incumbent,
        trials=tuple(trials),
        taken=frozenset(each.candidate.digest for each in trials),
        predict=known.predict,
        refused=refused,
        serves_packed=serves_packed,
        predict_on=known.predict if other_metrics else None,
    )
