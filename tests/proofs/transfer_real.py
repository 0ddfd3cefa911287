"""Transfer on the real engine: a campaign on a pruned variant of the packaged model, after one on the model.

python -m tests.proofs.transfer_real FOLDER [--seeds N] [--first-seed N] [--budget TIME] [--first-budget TIME]
    [--beside]

For each seed three campaigns on the reference engine, one after the other: the packaged model; the variant
with one layer pruned, in the same database; and the variant in a database of its own. Told are the trials
until 95 % of the best gain that either campaign on the variant found. A campaign measures a gain once, and
two tests of one configuration differ by as much as those 5 %. So they are told a second time, as `pooled`,
with one gain where both had one configuration as a best, tested from the same baseline: the mean of what each
measured. Nothing else should run meanwhile. FOLDER keeps everything: what is there already is not run again.

With `--beside` each campaign has half of the processors that this process may run on, and the two on the
variant run at the same time, so that an hour which is slow is slow for both.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from agent.campaign.known.incumbent import find_incumbent
from agent.campaign.known.reading_facts import read_facts
from agent.ground.checkpoint import find_checkpoint
from configs.core_shares import usable
from db.session import open_database
from experiments.space.configuration import Configuration
from experiments.stages.pruning.calibration import calibration_documents
from experiments.stages.pruning.choosing import Choice
from experiments.stages.pruning.prune import prune
from knowledge.queries.order.carried import carried_view
from tests.proofs.counting import at_least_one

REACHED = 0.95


@dataclass(frozen=True)
class Course:
    """A campaign on the variant: what it began from; after each trial its best, and the share that this saves
    of a token's time; the seconds that its trials took; and the last word on what was carried over."""

    baseline: Configuration
    bests: tuple[Configuration, ...]
    gains: tuple[float, ...]
    cost_s: tuple[float, ...]
    carried: str

    def trials_to(self, gain: float) -> int | None:
        """Trials until this gain; None where it was not reached."""
        return next((number for number, each in enumerate(self.gains, start=1) if each >= gain), None)


def pooled(one: Course, other: Course) -> tuple[Course, Course]:
    """Both with one gain for each configuration that was a best in both, in logarithms of a token's time the
    mean of what each measured; as they are where they began from different baselines."""
    if one.baseline != other.baseline:
        return one, other
    ours, theirs = (dict(zip(each.bests, each.gains, strict=True)) for each in (one, other))
    in_both = {best: 1 - math.sqrt((1 - ours[best]) * (1 - theirs[best])) for best in ours.keys() & theirs}

    def with_those(course: Course) -> Course:
        told = zip(course.bests, course.gains, strict=True)
        return replace(course, gains=tuple(in_both.get(best, gain) for best, gain in told))

    return with_those(one), with_those(other)


def counted(with_: Course, without: Course) -> dict[str, object]:
    """The gain that is looked for, and the trials of both until it."""
    gain = REACHED * max(with_.gains[-1], without.gains[-1])
    return {
        "gain_looked_for": round(gain, 4),
        "trials_with": with_.trials_to(gain),
        "trials_without": without.trials_to(gain),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all campaigns and print what came of them; exit code 1 where one did not end well."""
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.transfer_real", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=at_least_one, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--budget", default="9m40s", help="of each campaign on the variant")
    parser.add_argument("--first-budget", help="of the campaign on the packaged model; else the same")
    parser.add_argument(
        "--beside", action="store_true", help="both campaigns on the variant at the same time"
    )
    asked = parser.parse_args(arguments)
    asked.folder.mkdir(parents=True, exist_ok=True)
    variant = asked.folder.resolve() / "pruned"
    if not (variant / "config.json").is_file():
        _prune(variant)
    for seed in range(asked.first_seed, asked.first_seed + asked.seeds):
        after, alone = asked.folder / f"after-{seed}", asked.folder / f"alone-{seed}"
        first, second = _halves() if asked.beside else (frozenset[int](), frozenset[int]())
        done = [asked.folder / f"done-{seed}-{place}" for place in range(3)]
        runs = [
            Run(after, "reference", seed, asked.first_budget or asked.budget, first, done[0]),
            Run(after, str(variant), seed, asked.budget, first, done[1]),
            Run(alone, str(variant), seed, asked.budget, second, done[2]),
        ]
        for turn in ([runs[0]], runs[1:]) if asked.beside else ([each] for each in runs):
            with ThreadPoolExecutor(len(turn)) as together:
                if any(together.map(Run.go, turn)):
                    return 1
        with_, without = course(after, 2), course(alone, 1)
        told = {
            "seed": seed,
            **counted(with_, without),
            "pooled": counted(*pooled(with_, without)),
            "gains_with": [round(each, 4) for each in with_.gains],
            "gains_without": [round(each, 4) for each in without.gains],
            "cost_s_with": [round(each, 1) for each in with_.cost_s],
            "cost_s_without": [round(each, 1) for each in without.cost_s],
            "carried": with_.carried,
        }
        print(json.dumps(told), flush=True)
    return 0


@dataclass(frozen=True)
class Run:
    """A campaign that is to run: where its database is, on which processors (none: all), and the file that
    says that it has ended."""

    data: Path
    model: str
    seed: int
    budget: str
    processors: frozenset[int]
    done: Path

    def go(self) -> int:
        """Run it, unless it ended before; its exit code."""
        if self.done.exists():
            return 0
        command = [sys.executable, "-m", "cli", "run", "--new", "--no-dashboard", "--model", self.model]
        command += ["--budget", self.budget, "--seed", str(self.seed)]
        if self.processors:
            command = ["taskset", "--cpu-list", ",".join(map(str, sorted(self.processors))), *command]
        environment = {**os.environ, "AUTOINFER_DATA_DIR": str(self.data.resolve())}
        code = subprocess.run(command, env=environment, check=False).returncode
        if code == 0:
            self.done.touch()
        return code


def _halves() -> tuple[frozenset[int], frozenset[int]]:
    """The processors that this process may run on, neighbours together, in two halves."""
    allowed = sorted(usable())
    if len(allowed) < 2:
        raise SystemExit("--beside needs two processors; leave it out.")
    half = len(allowed) // 2
    return frozenset(allowed[:half]), frozenset(allowed[half : 2 * half])


def course(data: Path, campaign_id: int) -> Course:
    """What a campaign found, trial by trial."""
    database = open_database(f"sqlite:///{data.resolve() / 'autoinfer.db'}")
    with database.read() as session:
        facts, view = read_facts(session, campaign_id), carried_view(session, campaign_id)
    if facts.baseline is None or not facts.trials:
        raise SystemExit(f"The campaign {campaign_id} in {data} judged nothing.")
    trials = [each for each in facts.trials if each.on_objective]
    bests = [
        find_incumbent(facts.baseline, trials[: count + 1], facts.objective) for count in range(len(trials))
    ]
    return Course(
        facts.baseline,
        tuple(each.configuration for each in bests),
        tuple(-math.expm1(each.log_ratio) for each in bests),
        tuple(each.cost_s for each in trials),
        "" if view is None else view.sentence,
    )


def _prune(variant: Path) -> None:
    """The packaged model less the layer of least influence, by the house's own stage."""
    source = find_checkpoint("reference").folder
    prune(
        source,
        variant,
        choice=Choice(1, "any"),
        criterion="block_influence",
        documents=calibration_documents(source),
    )


if __name__ == "__main__":
    sys.exit(main())
