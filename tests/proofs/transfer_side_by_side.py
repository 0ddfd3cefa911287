"""What the bests of `transfer_real`'s campaigns are worth beside each other, and the trials by that.

python -m tests.proofs.transfer_side_by_side FOLDER … [--launches N] [--turns N]

A campaign measures a gain once, and on a busy processor the same configuration comes out several percent
higher or lower: as much as the 5 % by which trials are counted. Here every configuration that was the best
of a campaign on the variant at some time, and what they began from, is loaded afresh and served in turns
with all others, by the campaigns' own workload, each turn backwards after forwards. Told is what each takes
a token, and for each seed the trials until 95 % of the best gain by these figures. Nothing else should run
meanwhile.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from agent.campaign.known.facts import Facts
from agent.campaign.known.incumbent import find_incumbent
from agent.campaign.known.reading_facts import read_facts
from configs.cpu import usable_cores
from db.session import open_database
from experiments.engines.port import GenerationTrace, Launch
from experiments.engines.reference.engine import ReferenceEngine
from experiments.measurement.material import HeldOutMaterial
from experiments.measurement.plan import Workload
from experiments.space.configuration import Configuration
from tests.proofs.transfer_real import REACHED

DEVICE = "cpu"
MS_PER_S = 1e3


@dataclass(frozen=True)
class Course:
    """A campaign on the variant: what it began from, and its best after each trial."""

    baseline: Configuration
    bests: tuple[Configuration, ...]


@dataclass(frozen=True)
class Seed:
    """The two campaigns of a seed, with what was carried and alone."""

    seed: int
    with_: Course
    without: Course


def path_of(facts: Facts) -> Course:
    """A campaign's best after each of its trials."""
    if facts.baseline is None or not facts.trials:
        raise SystemExit(f"The campaign {facts.label} judged nothing.")
    trials = [each for each in facts.trials if each.on_objective]
    bests = [
        find_incumbent(facts.baseline, trials[: count + 1], facts.objective).configuration
        for count in range(len(trials))
    ]
    return Course(facts.baseline, tuple(bests))


def seeds_in(folder: Path) -> list[Seed]:
    """The seeds whose campaigns are all in a folder of `transfer_real`."""
    found = []
    for done in sorted(folder.glob("done-*-2")):
        seed = int(done.name.split("-")[1])
        with_, without = _facts(folder / f"after-{seed}", 2), _facts(folder / f"alone-{seed}", 1)
        found.append(Seed(seed, path_of(with_), path_of(without)))
    return found


def _facts(data: Path, campaign_id: int) -> Facts:
    database = open_database(f"sqlite:///{data.resolve() / 'autoinfer.db'}")
    with database.read() as session:
        return read_facts(session, campaign_id)


def trials_to(path: Course, ms: dict[Configuration, float], wanted_ms: float) -> int | None:
    """Trials until the best takes no more than this; None where it never did."""
    return next((number for number, each in enumerate(path.bests, start=1) if ms[each] <= wanted_ms), None)


def told(seed: Seed, ms: dict[Configuration, float]) -> dict[str, object]:
    """The trials of a seed's campaigns by what their bests take beside each other. Gains are counted from
    what the campaign alone began from."""
    base = ms[seed.without.baseline]
    best = min(ms[each] for each in (*seed.with_.bests, *seed.without.bests))
    wanted = base * (1 - REACHED * (1 - best / base))
    return {
        "seed": seed.seed,
        "gain_looked_for": round(1 - wanted / base, 4),
        "trials_with": trials_to(seed.with_, ms, wanted),
        "trials_without": trials_to(seed.without, ms, wanted),
        "gains_with": [round(1 - ms[each] / base, 4) for each in seed.with_.bests],
        "gains_without": [round(1 - ms[each] / base, 4) for each in seed.without.bests],
    }


def side_by_side(
    configurations: Sequence[Configuration],
    checkpoint: Path,
    workload: Workload,
    launches: int,
    turns: int,
) -> dict[Configuration, list[float]]:
    """What each configuration takes, ms a token: the median of each of its launches. All of a pass are up
    at the same time and served one at a time."""
    engine, material = (
        ReferenceEngine(),
        HeldOutMaterial(checkpoint, DEVICE, seed=0),
    )
    found: dict[Configuration, list[float]] = {each: [] for each in configurations}
    with tempfile.TemporaryDirectory() as kept:
        for number in range(launches):

            def up(configuration: Configuration, number: int = number) -> Launch:
                log = Path(kept) / f"{number}-{configuration.digest[:12]}.log"
                return engine.launch(configuration, checkpoint, DEVICE, log, Path(kept) / "cache")

            with ThreadPoolExecutor(usable_cores()) as pool:
                ups = list(pool.map(up, configurations))
            try:
                times = _in_turns(ups, material, workload, turns, number)
            finally:
                for each in ups:
                    each.close()
            for configuration, each_ms in zip(configurations, times, strict=True):
                found[configuration].append(median(each_ms))
    return found


def _in_turns(
    ups: Sequence[Launch], material: HeldOutMaterial, workload: Workload, turns: int, number: int
) -> list[list[float]]:
    for each in ups:
        each.serve(material.warmup(workload, number), workload.concurrency)
    times: list[list[float]] = [[] for _ in ups]
    order = list(range(len(ups)))
    for turn in range(turns):
        if turn % 2 == 0:
            random.Random(f"{number}/{turn}").shuffle(order)
        requests = material.requests(workload, number, 0, turn)
        for place in reversed(order) if turn % 2 else order:
            traces = ups[place].serve(requests, workload.concurrency)
            times[place] += [_tpot_ms(each) for each in traces]
    return times


def _tpot_ms(trace: GenerationTrace) -> float:
    first, last = trace.token_times_s[0], trace.token_times_s[-1]
    return MS_PER_S * (last - first) / (len(trace.token_times_s) - 1)


def distinct(seeds: Iterable[Seed]) -> list[Configuration]:
    """Every configuration that some campaign began from or had as its best, in the order that they came."""
    found: dict[Configuration, None] = {}
    for seed in seeds:
        for path in (seed.without, seed.with_):
            found |= dict.fromkeys((path.baseline, *path.bests))
    return list(found)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each configuration and for each seed, as JSON."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.proofs.transfer_side_by_side",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--launches", type=int, default=4, help="fresh launches of each configuration")
    parser.add_argument("--turns", type=int, default=12, help="turns of each launch, each of a block")
    asked = parser.parse_args(arguments)
    seeds = [each for folder in asked.folders for each in seeds_in(folder)]
    if not seeds:
        raise SystemExit("No seed of these folders is done: run python -m tests.proofs.transfer_real first.")
    configurations = distinct(seeds)
    workload = _workload(asked.folders[0], seeds[0].seed)
    found = side_by_side(configurations, asked.folders[0] / "pruned", workload, asked.launches, asked.turns)
    ms = {each: math.exp(fmean(math.log(one) for one in medians)) for each, medians in found.items()}
    base = seeds[0].without.baseline
    for each in configurations:
        changed = {change.knob: change.after for change in base.changes_to(each)}
        told_ms = [round(one, 3) for one in found[each]]
        print(json.dumps({"changed": changed, "ms": round(ms[each], 3), "launches_ms": told_ms}), flush=True)
    for seed in seeds:
        print(json.dumps(told(seed, ms)), flush=True)
    return 0


def _workload(folder: Path, seed: int) -> Workload:
    spec = _facts(folder / f"alone-{seed}", 1).spec
    return Workload.model_validate(spec.plan.workload.model_dump())


if __name__ == "__main__":
    sys.exit(main())
