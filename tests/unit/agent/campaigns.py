"""A small campaign as proposers and surrogate see it: the packaged space, a made-up profile, trials."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from agent.proposers.port import CampaignView, CarriedBest, StaleFinding, Trial
from agent.surrogate.beliefs import Beliefs
from agent.surrogate.physics import Physics
from experiments.engines.port import PartTime
from experiments.measurement.judging import Outcome
from experiments.measurement.plan import Margins
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.loading import load_space

SPACE = load_space("reference").restrict({"serving.threads": [1, 2]})
BASELINE = SPACE.configuration({"serving.threads": 2})
LAYERS = ("linear_attention", "linear_attention", "linear_attention", "full_attention") * 3
TPOT_MS = 12.5
BANDWIDTH_BYTES_PER_S = 10e9

PROFILE = (
    PartTime("embed_tokens", "embedding", 0.1, 1_000),
    *(
        part
        for number, kind in enumerate(LAYERS)
        for part in (
            PartTime(
                f"layers.{number}.mixer",
                "gdn" if kind == "linear_attention" else "attention",
                0.8 if kind == "linear_attention" else 0.4,
                800_000,
            ),
            PartTime(f"layers.{number}.mlp", "mlp", 0.2, 600_000),
        )
    ),
    PartTime("lm_head", "lm_head", 0.3, 4_000_000),
    PartTime("rest", "rest", 1.5, 0),
)

PHYSICS = Physics(BASELINE, TPOT_MS, PROFILE, LAYERS, BANDWIDTH_BYTES_PER_S)


def changed(knobs: Mapping[str, KnobValue], control: Configuration = BASELINE) -> Configuration:
    return SPACE.with_change(control, knobs)


COMPILED = changed({"serving.compile": "default"})
HALF = changed({"serving.dtype": "bfloat16"})


def pruned(layers: int, restrict: str = "any", control: Configuration = BASELINE) -> Configuration:
    return changed(
        {"pruning.method": "depth", "pruning.layers_removed": layers, "pruning.restrict": restrict}, control
    )


def trial(
    candidate: Configuration,
    outcome: Outcome,
    change: float | None,
    *,
    control: Configuration = BASELINE,
    hypothesis_id: int = 1,
    se: float | None = 0.01,
    bits: float | None = None,
    points: float | None = None,
    cost_s: float = 60.0,
    failure: str | None = None,
) -> Trial:
    """`change` is the relative change of TPOT: −0.1 is ten percent faster."""
    return Trial(
        hypothesis_id=hypothesis_id,
        experiment_id=hypothesis_id,
        control=control,
        candidate=candidate,
        lever="+".join(sorted(SPACE.levers_between(control, candidate))),
        outcome=outcome,
        effect_log=None if change is None else math.log1p(change),
        effect_se_log=None if change is None else se,
        bits_ratio_log=bits,
        task_points=points,
        cost_s=cost_s,
        failure_kind=failure,
    )


def carried_best(
    configuration: Configuration,
    *,
    baseline: Configuration = BASELINE,
    campaign: str = "C-1",
    finding: str = "",
) -> CarriedBest:
    """The best of another campaign, which one test found to take half of the time."""
    return CarriedBest(campaign, "E-0005", finding, baseline, configuration, math.log(0.5), steps=1)


def beliefs(trials: Sequence[Trial] = (), built: frozenset[str] = frozenset()) -> Beliefs:
    return Beliefs.learn(SPACE, PHYSICS, trials, Margins(), built)


def view(
    trials: Sequence[Trial] = (),
    *,
    incumbent: Configuration = BASELINE,
    incumbent_hypothesis_id: int | None = None,
    banned: frozenset[str] = frozenset(),
    taken: frozenset[str] = frozenset(),
    profile: tuple[PartTime, ...] = PROFILE,
    seed: int = 7,
    carried_bests: Sequence[CarriedBest] = (),
    stale_findings: Sequence[StaleFinding] = (),
) -> CampaignView:
    return CampaignView(
        space=SPACE,
        baseline=BASELINE,
        incumbent=incumbent,
        incumbent_hypothesis_id=incumbent_hypothesis_id,
        tpot_ms=TPOT_MS,
        profile=profile,
        model_layers=LAYERS,
        cores=2,
        trials=tuple(trials),
        taken=taken | {each.candidate.digest for each in trials},
        banned_levers=banned,
        predict=beliefs(trials).predict,
        min_effect=0.03,
        seed=seed,
        carried_bests=tuple(carried_bests),
        stale_findings=tuple(stale_findings),
    )
