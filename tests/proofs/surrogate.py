"""The proof of the surrogate: what it says before a trial against what is told, on frozen tables.

python -m tests.proofs.surrogate [--orders N] [--output FILE]

Writes docs/results/surrogate.md. Every configuration of a table is tried once, in an order drawn at random,
so that what is asked about is no choice of the planner's; each prediction knows the trials before it and none
after. The table of Qwen3.5-4B's shape (h200-4b) is held out: nothing here reads it. Equal orders give equal
figures.
"""

from __future__ import annotations

import argparse
import csv
import math
import random
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import NormalDist, fmean
from tempfile import TemporaryDirectory
from unittest.mock import patch

from agent.proposers.port import Trial
from agent.replay.errors_told import errors_log
from agent.replay.port import Told, accepted
from agent.replay.read import Asked, read_table
from agent.replay.table import Table
from agent.replay.world import World, problem_of
from agent.surrogate.beliefs import Beliefs
from agent.surrogate.carried import Carried
from agent.surrogate.kernel_parts import KernelParts
from agent.surrogate.levers import joined
from agent.surrogate.physics import Physics
from experiments.measurement.judging import Outcome
from experiments.measurement.plan import Margins, Prediction
from tests.proofs.surrogate_page import FIRST, Group, Scored, page

RESULTS = Path(__file__).parents[2] / "docs" / "results"
OUTPUT = RESULTS / "surrogate.md"
ORDERS = 10
MIN_EFFECT = 0.03
HALF_WIDTH_SD = NormalDist().inv_cdf(0.9)
"""Half of the 80 % interval of a normal, in standard deviations."""

NEVER = 1e9
"""As many outcomes as `SCALE_COUNT` that no table moves it."""


class WholeStep(Physics):
    """Physics for which a step has no parts."""

    @cached_property
    def own(self) -> KernelParts | None:
        """None, whatever was profiled."""
        return None


@dataclass(frozen=True)
class Variant:
    """The surrogate with something left out: attributes of its modules by name, the physics, whether profiles
    teach, and whether anything does."""

    name: str
    patched: tuple[tuple[str, object], ...] = ()
    physics: type[Physics] = Physics
    profiles: bool = True
    learns: bool = True


LAUNCHES = "agent.surrogate.residual.LAUNCHES_SD_LOG"

FULL = Variant("as it is")
VARIANTS = (
    FULL,
    Variant("spreads as they are stated", (("agent.surrogate.linear.SCALE_COUNT", NEVER),)),
    Variant("nothing open of two levers together", (("agent.surrogate.composed.TOGETHER_SHARE", 0.0),)),
    Variant("twice as much open of two levers together", (("agent.surrogate.composed.TOGETHER_SHARE", 1.0),)),
    Variant("neighbouring values tell nothing of each other", (("agent.surrogate.ordered.ADJACENT", 0.0),)),
    Variant("launches don't differ", ((LAUNCHES, 0.0),)),
    Variant("launches differ twice as much", ((LAUNCHES, 0.07),)),
    Variant("profiles of candidates teach nothing", profiles=False),
    Variant("a step without parts", physics=WholeStep),
    Variant("prior alone", learns=False),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Score all tables and write the page; the exit code is 0 whatever was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.surrogate", description=__doc__)
    parser.add_argument("--orders", type=int, default=ORDERS)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    given = list(sys.argv[1:] if arguments is None else arguments)
    asked = parser.parse_args(given)
    begun = time.monotonic()
    reference, h200 = tables()
    groups = [
        Group(name, tuple(scored(list(found), variant, asked.orders) for variant in VARIANTS))
        for name, found in (
            ("reference", [reference]),
            ("h200-9b", h200),
            ("reference, the half that was looked at", [half(reference, 0)]),
            ("reference, the other half", [half(reference, 1)]),
        )
    ]
    first = h200[0]
    carried = tuple(
        scored(h200[1:], replace(FULL, name=name), asked.orders, over)
        for name, over in (("nothing carried over", ()), (f"from `{first.name}`", others_of(first)))
    )
    command = f"python -m tests.proofs.surrogate {shlex.join(given)}".strip()
    asked.output.write_text(
        page(groups, carried, command, asked.orders, time.monotonic() - begun), encoding="utf-8"
    )
    print(asked.output)
    return 0


def tables() -> tuple[Table, list[Table]]:
    """The reference engine's table, and the H200's of Qwen3.5-9B's shape, a table for each workload."""
    folder = RESULTS / "tables"
    h200 = [
        read_table(folder / "h200-9b.csv", Asked(where={"concurrency": each, "prompt_tokens": tokens}))
        for tokens in ("512", "3840")
        for each in ("1", "4", "16", "64")
    ]
    with TemporaryDirectory() as made:
        return read_table(beside_control(folder / "reference.csv", Path(made)), Asked()), h200


def beside_control(path: Path, folder: Path) -> Path:
    """A copy of a table whose times are as a campaign judges them: each configuration's samples over the
    control measured beside it, times what trial 0 took. Its machine was slower in some sessions than in
    others by more than many levers do."""
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    base_ms = next(float(line["tpot_ms_median"]) for line in lines if line["baseline"] == "yes")
    for line in lines:
        if line["tpot_ms"]:
            factor = float(line["tpot_over_control"]) * base_ms / float(line["tpot_ms_median"])
            line["tpot_ms"] = " ".join(f"{factor * float(each):.6g}" for each in line["tpot_ms"].split())
        for name in ("median", "sd", "n"):
            line.pop(f"tpot_ms_{name}")
    made = folder / path.name
    with made.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, lines[0].keys())
        writer.writeheader()
        writer.writerows(lines)
    made.with_suffix(".jsonl").symlink_to(path.with_suffix(".jsonl"))
    return made


def half(table: Table, odd: int) -> Table:
    """Trial 0 and the rows whose digest is even, or odd."""
    chosen = [row for row in table.rows[1:] if int(row.configuration.digest[:8], 16) % 2 == odd]
    return table.with_rows((table.rows[0], *chosen))


def scored(found: Sequence[Table], variant: Variant, orders: int, carried: Sequence[Carried] = ()) -> Scored:
    """The scores of a variant on these tables, over so many orders."""
    with ExitStack() as stack:
        for name, value in variant.patched:
            stack.enter_context(patch(name, value))
        walks = [list(walk(table, order, variant, carried)) for order in range(orders) for table in found]
    steps = [step for each in walks for step in each]
    ran = [(number, belief, effect) for number, belief, effect, _, _ in steps if effect is not None]
    early = [(belief, effect) for number, belief, effect in ran if number <= FIRST]
    return Scored(
        variant.name,
        outcomes=len(ran) // orders,
        inside=fmean(_inside(belief, effect) for _, belief, effect in ran),
        noise_inside=fmean(
            _inside(belief, effect, error)
            for _, belief, effect, _, error in steps
            if effect is not None and error is not None
        ),
        crps=fmean(crps(belief, effect) for _, belief, effect in ran),
        early_inside=fmean(_inside(belief, effect) for belief, effect in early),
        early_crps=fmean(crps(belief, effect) for belief, effect in early),
        sd_log=fmean(belief.log_ratio_sd for _, belief, _ in ran),
        brier=fmean((chance - (effect is not None)) ** 2 for _, _, effect, chance, _ in steps),
        failed=(len(steps) - len(ran)) // orders,
    )


Step = tuple[int, Prediction, float | None, float, float | None]
"""A trial's number, what was predicted, the effect (None where it did not run), the chance that it runs, and
the standard error of the effect."""


def walk(table: Table, order: int, variant: Variant, carried: Sequence[Carried]) -> Iterator[Step]:
    """Try every configuration against the best before it, and predict each before."""
    problem, world = problem_of(table), World(table, order)
    first = world.measure(0, problem.baseline)
    best, known = first, believed(table, first, variant, carried)
    left = [each for each in problem.configurations if each != problem.baseline]
    random.Random(order).shuffle(left)
    trials: list[Trial] = []
    for number, candidate in enumerate(left, start=1):
        belief = known.about([(best.configuration, candidate)])[0]
        now = world.measure(number, candidate)
        trial = trial_of(table, best, now, profiles=variant.profiles)
        yield number, belief.prediction, trial.effect_log, belief.p_feasible, trial.effect_se_log
        trials.append(trial)
        if variant.learns and trial.profile:  # which changes what the trials before it are taken to say
            known = believed(table, first, variant, carried, trials)
        elif variant.learns:
            known = known.after(trial)
        if accepted(problem, first, now) and now.mean_ms < (1 - MIN_EFFECT) * best.mean_ms:
            best = now


def believed(
    table: Table, first: Told, variant: Variant, carried: Sequence[Carried], trials: Sequence[Trial] = ()
) -> Beliefs:
    """The surrogate of a campaign on this table's ground after these trials."""
    prior = table.prior
    physics = variant.physics(
        baseline=first.configuration,
        tpot_ms=first.mean_ms,
        profile=first.profile,
        model_layers=() if prior.shape is None else prior.shape.layer_types,
        bandwidth_bytes_per_s=prior.bandwidth_bytes_per_s,
        shape=prior.shape,
        serves_packed=prior.serves_packed,
    )
    return Beliefs.learn(
        table.space, physics, trials, Margins(), judges_quality=first.quality is not None, carried=carried
    )


def trial_of(table: Table, control: Told, told: Told, *, profiles: bool) -> Trial:
    """A trial judged by its mean."""
    effect = math.log(told.mean_ms / control.mean_ms) if told.ran else None
    faster = effect is not None and effect < math.log1p(-MIN_EFFECT)
    ran = Outcome.SUPPORTED if faster else Outcome.REFUTED
    return Trial(
        hypothesis_id=told.trial,
        experiment_id=told.trial,
        control=control.configuration,
        candidate=told.configuration,
        lever=joined(table.space.levers_between(control.configuration, told.configuration)),
        outcome=Outcome.INFEASIBLE if effect is None else ran,
        effect_log=effect,
        effect_se_log=None if effect is None else math.hypot(*errors_log((control, told))),
        bits_ratio_log=None,
        task_points=None,
        cost_s=told.cost_s,
        failure_kind=None if told.ran else told.cause,
        profile=told.profile if profiles else (),
    )


def others_of(table: Table) -> tuple[Carried, ...]:
    """A table's outcomes against its trial 0, as another campaign with another workload has them."""
    problem, world = problem_of(table), World(table, 0)
    first = world.measure(0, problem.baseline)
    measured = [
        world.measure(number, each)
        for number, each in enumerate(problem.configurations, start=1)
        if each != problem.baseline
    ]
    return tuple(
        Carried(
            trial_of(table, first, told, profiles=False),
            table.name,
            same_model=True,
            same_workload=False,
            tpot_ms=first.mean_ms,
        )
        for told in measured
    )


def crps(prediction: Prediction, effect_log: float) -> float:
    """The continuous ranked probability score of a normal, in logs; less is better (Gneiting and Raftery,
    Journal of the American Statistical Association 102, 2007, §4.2)."""
    sd, normal = prediction.log_ratio_sd, NormalDist()
    z = (effect_log - prediction.log_ratio_mean) / sd
    return sd * (z * (2 * normal.cdf(z) - 1) + 2 * normal.pdf(z) - 1 / math.sqrt(math.pi))


def _inside(prediction: Prediction, effect_log: float, error_log: float = 0.0) -> bool:
    """Whether an effect lies in the 80 % interval, widened by the error with which it was measured."""
    spread = math.hypot(prediction.log_ratio_sd, error_log)
    return abs(effect_log - prediction.log_ratio_mean) <= HALF_WIDTH_SD * spread


if __name__ == "__main__":
    sys.exit(main())
