"""The proof of the verdicts: simulates, reads the real A/A series, and writes docs/results/verdicts.md.

python -m tests.proofs.verdicts [--quick] [--real-aa SERIES …] [--launch-sd SHARE] [--seed N]
                                [--processes N] [--output FILE]

Equal seeds give equal counts, whatever the number of processes.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from agent.plan.length import LEAST_PAIRS
from configs.campaign import load_campaign
from configs.quantities import parse_percent
from experiments.measurement.judging import Outcome
from experiments.measurement.plan import StoppingPlan
from tests.proofs.counting import Share, Workers
from tests.proofs.discovery_rate import discoveries
from tests.proofs.hypothesis_streams import LENGTH, Kind, Mixture
from tests.proofs.later_tests import cells, later_powers
from tests.proofs.page import Made, page
from tests.proofs.real_equal_arms import RealSeries, grouped, told_of
from tests.proofs.recorded_series import read
from tests.proofs.shared_profile import sharing
from tests.proofs.simulated_rates import CONDITIONS, EVERYTHING, TimeNoise, counted, gain_of, plan_of
from tests.proofs.stopping_early import PROFILE_FREEDOM, Streams, run_stream
from tests.proofs.targets import (
    LATER_TEST,
    SCARCE_FREEDOM,
    TRUE_GAIN,
    LaterPower,
    Power,
    Results,
    all_of,
)
from tests.simulation.experiment import DEFAULT_PLAN

OUTPUT = Path(__file__).parents[2] / "docs" / "results" / "verdicts.md"
RECORDED = OUTPUT.parent / "aa" / "reference.jsonl"
"""Launches of equal arms on the reference engine, recorded by tests/proofs/recorded_series.py."""

ASSUMED_LAUNCH_SD = "1%"
"""Between launches where no series was measured: what the simulations of docs/judging.md take."""


@dataclass(frozen=True)
class Sizes:
    """How much is simulated."""

    equal_arms: int
    each_condition: int
    each_power: int
    full_pairs: tuple[int, ...]
    streams: int
    campaigns: int


WHOLE = Sizes(
    equal_arms=10_000, each_condition=300, each_power=300, full_pairs=(4, 8, 12, 16), streams=60, campaigns=40
)
QUICK = Sizes(equal_arms=100, each_condition=10, each_power=10, full_pairs=(4, 8), streams=2, campaigns=2)

_EQUAL_ARMS, _CONDITIONS, _POWER, _LATER = 0, 100, 200, 300
"""Places of the seeds of each part."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked and write the page; the exit code is 0 whatever was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.verdicts", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a hundredth of the experiments: does it work?")
    parser.add_argument(
        "--real-aa",
        metavar="SERIES",
        nargs="*",
        default=[str(RECORDED)],
        help="recorded series, or databases in which autoinfer aa stored one; power is at the noise of the "
        f"first; none are read where nothing follows [default: {RECORDED.name}]",
    )
    parser.add_argument("--launch-sd", metavar="SHARE", help="between launches, where no series was measured")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--output", type=Path, default=OUTPUT)
    given = list(sys.argv[1:] if arguments is None else arguments)
    asked = parser.parse_args(given)
    begun, used = time.monotonic(), _processor_s()
    stored = [each for name in asked.real_aa for each in read(name)]
    series = grouped([told for each in stored if (told := told_of(each)) is not None])
    sizes, launch_sd = QUICK if asked.quick else WHOLE, parse_percent(asked.launch_sd or ASSUMED_LAUNCH_SD)
    calm = TimeNoise(launch_sd)
    noise = series[0].noise if series else calm
    with Workers(asked.processes) as workers:
        results = measure(workers, sizes, asked.seed, series, noise, calm)
    made = Made(
        command=f"python -m tests.proofs.verdicts {shlex.join(given)}".strip(),
        seed=asked.seed,
        quick=asked.quick,
        wall_s=time.monotonic() - begun,
        processor_s=_processor_s() - used,
        processes=asked.processes,
    )
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    asked.output.write_text(page(results, made), encoding="utf-8")
    print(f"{asked.output} ({made.wall_s:.0f} s)")
    return 0


def measure(
    workers: Workers,
    sizes: Sizes,
    seed: int,
    series: tuple[RealSeries, ...],
    noise: TimeNoise,
    calm: TimeNoise,
) -> Results:
    """Everything that the page tells; power is told at `noise`, and at `calm` where that is another."""
    _say(f"{sizes.equal_arms} experiments of equal arms")
    equal = counted(workers, DEFAULT_PLAN, EVERYTHING, sizes.equal_arms, seed, _EQUAL_ARMS)
    _say("equal arms under single conditions")
    conditions = {
        name: counted(workers, DEFAULT_PLAN, truth, sizes.each_condition, seed, _CONDITIONS + place)
        for place, (name, truth) in enumerate(CONDITIONS.items())
    }
    _say("a gain of 5 %")
    power = powers(workers, sizes, seed, noise)
    _say("gains at later tests of a campaign")
    later = later_powers(workers, sizes.each_power, noise, seed, _LATER, list(cells()))
    _say(f"{sizes.streams} streams to the end of their plans")
    streams = run_streams(workers, sizes.streams, controlled=True, in_full=True)
    _say("the same streams without online control, and the hardest ones")
    at_margin = run_streams(workers, sizes.streams, controlled=True, mixture=Mixture.AT_MARGIN)
    rates = {
        (Mixture.USUAL, True): discoveries(streams),
        (Mixture.AT_MARGIN, True): discoveries(at_margin),
    }
    for mixture, controlled in ((Mixture.USUAL, False), (Mixture.HARDEST, True), (Mixture.HARDEST, False)):
        rates[mixture, controlled] = discoveries(
            run_streams(workers, sizes.streams, controlled=controlled, mixture=mixture)
        )
    _say("campaigns that share one noise profile")
    scarce = run_streams(
        workers, sizes.streams, controlled=True, mixture=Mixture.HARDEST, freedom=SCARCE_FREEDOM
    )
    lossy = [each for each in all_of(at_margin) if each.kind is Kind.AT_MARGIN]
    return Results(
        equal=equal,
        conditions=conditions,
        power=[*power, *dispatched(later)],
        calm=powers(workers, sizes, seed, calm) if noise != calm else [],
        later=later,
        streams=streams,
        rates=rates,
        shared=[
            sharing(workers, freedom, sizes.campaigns, seed) for freedom in (SCARCE_FREEDOM, PROFILE_FREEDOM)
        ],
        scarce=discoveries(scarce),
        at_margin=Share(sum(each.early is Outcome.SUPPORTED for each in lossy), len(lossy)),
        series=series,
        noise=noise,
        plan=DEFAULT_PLAN,
    )


def powers(workers: Workers, sizes: Sizes, seed: int, noise: TimeNoise) -> list[Power]:
    """A true gain of 5 % under plans with more and more pairs, where times vary so."""
    truth = gain_of(TRUE_GAIN, noise)
    return [
        Power(plan, TRUE_GAIN, noise, counted(workers, plan, truth, sizes.each_power, seed, _POWER + place))
        for place, plan in enumerate(power_plans(sizes.full_pairs))
    ]


def power_plans(full_pairs: Iterable[int]) -> list[StoppingPlan]:
    """Plans with so many exploratory pairs, those of campaigns of minutes and of hours among them, that call
    support at alpha."""
    whole = load_campaign("default", {}).plan.full_pairs
    return [plan_of(pairs) for pairs in sorted({*full_pairs, LEAST_PAIRS, whole})]


def dispatched(later: Iterable[LaterPower]) -> list[Power]:
    """Of what campaigns dispatch, the tests whose power has a target: the first, and a later one before which
    nothing was supported."""
    return [
        each.power
        for each in later
        if each.power.gain == TRUE_GAIN and each.test in (1, LATER_TEST) and not each.supported
    ]


def run_streams(
    workers: Workers,
    streams: int,
    *,
    controlled: bool,
    in_full: bool = False,
    mixture: Mixture = Mixture.USUAL,
    freedom: int = PROFILE_FREEDOM,
) -> Streams:
    """The frozen streams 0, 1, 2 …, with online control or without."""
    work = partial(
        run_stream, length=LENGTH, controlled=controlled, in_full=in_full, mixture=mixture, freedom=freedom
    )
    return workers.map(work, range(streams))


def _processor_s() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def _say(text: str) -> None:
    print(f"{text} …", flush=True)


if __name__ == "__main__":
    sys.exit(main())
