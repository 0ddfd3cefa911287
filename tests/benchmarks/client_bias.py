"""How far from the truth are the times that a client tells? On a server whose times are known. Run by hand.

    python -m tests.benchmarks.client_bias --rounds 8 --json told.json
    python -m tests.benchmarks.client_bias --concurrency 64 --step-ms 20 --rounds 8 --json told.json

No engine and no GPU runs: the server answers by a timetable and notes when it did (`paced_server.py`). At
each concurrency our client (`http_client.py`, in vLLM's Python as in a campaign) and `vllm bench serve` ask
it in turns, every second round reversed, by one timetable a round: the i-th request of either has the same
delay. Each asks as many requests as are under way at once beforehand, which are in no figure.

Of each run is told what the client says, and what the server's record of the same requests says by the same
definitions: from a request's arrival, as the server read it, to the handing over of its tokens. Differences
(`client_bias_tables.py`) are those of `serving_comparison.py`: the geometric mean of the rounds' ratios with
its 95 % interval, *within* `--within` where the whole interval is, *beyond* where none of it is, else *not
settled*. Beside them stands how well the server kept its timetable, and how long a request went there and a
token back.

With `--json` everything is written after each run; after `--limit` seconds no further turn begins. `--table
FILE` prints the tables of such a file, no more.
"""

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import accumulate, product
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from configs.errors import AutoinferError
from experiments.engines.port import GenerationRequest, GenerationTrace, Infeasible
from experiments.engines.vllm.environment import PYTHON_VARIABLE, VllmEnvironment, installed, vllm_python
from experiments.engines.vllm.http_client_process import HttpClient
from experiments.reference_model.load import reference_model_path
from tests.benchmarks.arguments import above_zero, at_least_two, file_to_write
from tests.benchmarks.client_bias_tables import ARMS, OURS, biases, line_of, tables
from tests.benchmarks.paced_process import PacedServer, late_ms, trace_of, ways_ms
from tests.benchmarks.paced_server import Answered, Timetable
from tests.benchmarks.serving_arms import LIMIT_S, Figures, Load, by_vllm_bench, figures_of
from tests.benchmarks.serving_comparison import WITHIN, requests_of_run
from tests.benchmarks.vllm_bench import VllmBench
from tests.proofs.counting import at_least_one

VOCABULARY = 50_000
"""Numbers of tokens that prompts are drawn from; the server reads none of them."""

LATE_SHARE_OF_STEP = 0.1
"""A token counts as late where it was handed over by more than this share of a step after it was due."""


@dataclass(frozen=True)
class Pace:
    """How the server answers: a step's time, and between which times a request's delay is drawn evenly."""

    step_ms: float
    first_low_ms: float
    first_high_ms: float

    def table(self, load: Load, seed: int) -> Timetable:
        """The timetable of one run."""
        chance = random.Random(f"{seed} {load.concurrency}")
        first = [chance.uniform(self.first_low_ms, self.first_high_ms) for _ in range(load.requests)]
        return Timetable(self.step_ms, first)


PACES = {4: Pace(5.3, 60, 120), 16: Pace(6, 100, 300), 10**9: Pace(7.5, 100, 300)}
"""By the most requests at once: about the steps and first tokens of the shape of 9B on an H200
(docs/results/h200-serving-comparison.md)."""


def pace_of(concurrency: int, step_ms: float | None, first_ms: tuple[float, float] | None) -> Pace:
    """The pace at so many at once, where it is not asked for otherwise."""
    usual = next(pace for most, pace in PACES.items() if concurrency <= most)
    low, high = first_ms or (usual.first_low_ms, usual.first_high_ms)
    return Pace(step_ms or usual.step_ms, low, high)


@dataclass(frozen=True)
class Spread:
    """Values in ms by three of their quantiles."""

    median: float
    p99: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Of at least two values."""
        p99 = quantiles(values, n=100, method="inclusive")[98]
        return cls(*(round(each, 4) for each in (median(values), p99, max(values))))


@dataclass(frozen=True)
class Seen:
    """What else a run showed of the server and the machine.

    `late` tells how late its tokens were, `late_share` which share of them was late; `waited` how many of
    them a socket did not take at once; `there` how long requests took from their start at the client to their
    arrival, `back` tokens from their handing over to when the client says it read them; `load_average` how
    many processes the machine had to run, of one minute.
    """

    late: Spread
    late_share: float
    waited: int
    there: Spread
    back: Spread
    load_average: float


def seen(pace: Pace, noted: Sequence[Answered], told: Sequence[GenerationTrace]) -> Seen:
    """What the record and the client's times of the same requests show."""
    late = late_ms(noted)
    share = sum(each > LATE_SHARE_OF_STEP * pace.step_ms for each in late) / len(late)
    there, back = ways_ms(noted, told)
    waited = sum(each.waited for each in noted)
    average = round(os.getloadavg()[0], 2)
    return Seen(Spread.of(late), round(share, 5), waited, Spread.of(there), Spread.of(back), average)


def requests_of(load: Load, seed: int) -> list[GenerationRequest]:
    """Requests of random tokens."""
    chance = random.Random(seed)
    return [
        GenerationRequest(
            str(place), tuple(chance.choices(range(VOCABULARY), k=load.prompt_tokens)), load.new_tokens
        )
        for place in range(load.requests)
    ]


def by_client(
    client: HttpClient, load: Load, seed: int
) -> tuple[Figures, list[GenerationTrace], Sequence[str]]:
    """As a campaign asks; what it tells, its traces and the names that the server knows them by."""
    warm = requests_of(Load(load.concurrency, load.concurrency, load.prompt_tokens, load.new_tokens), -1)
    client.ask(warm, load.concurrency, LIMIT_S)
    requests = requests_of(load, seed)
    client.prepare(requests, LIMIT_S)
    traces, names = client.ask(requests, load.concurrency, LIMIT_S)
    return figures_of(requests, traces), traces, names


def traces_of_bench(saved: Mapping[str, Any]) -> list[GenerationTrace]:
    """The times that `vllm bench serve` saved; this server sends each token alone."""
    traces = []
    for start_s, ttft_s, itl_s in zip(saved["start_times"], saved["ttfts"], saved["itls"], strict=True):
        times_s = tuple(accumulate((ttft_s, *itl_s)))
        traces.append(GenerationTrace((0,) * len(times_s), times_s, start_s=start_s))
    return traces


def of_run(answered: Sequence[Answered], names: Sequence[str] | None, requests: int) -> list[Answered]:
    """What was noted of a run's requests, in their order: by `names`, or those that have a name at all.

    Raises `RuntimeError` where they are not all there.
    """
    if names is None:
        named = [each for each in answered if each.name]
        found = sorted(named, key=lambda each: int(each.name.rpartition("-")[2]))
    else:
        by_name = {each.name: each for each in answered}
        found = [by_name[name] for name in names if name in by_name]
    if len(found) != requests:
        raise RuntimeError(f"The server noted {len(found)} requests of the {requests} of this run.")
    return found


def measure(
    environment: VllmEnvironment,
    loads: Sequence[tuple[Load, Pace]],
    rounds: int,
    folder: Path,
    limit_s: float,
    keep: Callable[[dict[str, Any]], None],
) -> dict[str, Any]:
    """Run the rounds; everything as a JSON document, which `keep` is given after every run too.

    No further turn begins `limit_s` after the start.
    """
    began = time.monotonic()
    found: dict[str, Any] = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "vllm": environment.version,
        "processors": len(os.sched_getaffinity(0)),
        "runs": [],
    }
    with PacedServer() as server:
        client = HttpClient(server.address, environment, folder / "client.log", folder)
        bench = VllmBench(environment.python, folder)
        try:
            for turn, (load, pace) in product(range(rounds), loads):
                if time.monotonic() - began > limit_s:
                    at = f"round {turn + 1} at {load.concurrency}"
                    print(f"{at} and what follows was left out: {limit_s:g} s are over")
                    break
                for arm in ARMS if turn % 2 == 0 else reversed(ARMS):
                    server.set(pace.table(load, turn))
                    if arm == OURS:
                        figures, traces, names = by_client(client, load, turn)
                        noted = of_run(server.record(), names, load.requests)
                    else:
                        tokenizer = reference_model_path()
                        figures, saved = by_vllm_bench(bench, server.address, tokenizer, load, turn)
                        noted = of_run(server.record(), None, load.requests)
                        traces = traces_of_bench(saved)
                    recorded = figures_of(requests_of(load, turn), [trace_of(each) for each in noted])
                    run = {
                        "arm": arm,
                        "round": turn,
                        "load": asdict(load),
                        "pace": asdict(pace),
                        "told": _rounded(figures),
                        "recorded": _rounded(recorded),
                        "seen": asdict(seen(pace, noted, traces)),
                    }
                    found["runs"].append(run)
                    print(line_of(run), flush=True)
                    keep(found)
        finally:
            client.close()
            bench.close()
    return found


def _rounded(figures: Figures) -> dict[str, float]:
    return {name: float(f"{value:.7g}") for name, value in asdict(figures).items()}


def _keep(file: Path | None, found: dict[str, Any]) -> None:
    if file is not None:
        file.write_text(json.dumps(found), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure as asked on the command line; 1 where it can't be done. What can't be asked for ends the
    process with 2."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--concurrency", type=at_least_one, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument(
        "--step-ms", type=above_zero, nargs="+", default=[None], help="by how many are at once if not given"
    )
    parser.add_argument("--first-token-ms", type=float, nargs=2, metavar=("LOW", "HIGH"), help="likewise")
    parser.add_argument("--prompt-tokens", type=at_least_one, default=512)
    parser.add_argument("--new-tokens", type=at_least_two, default=129)
    parser.add_argument("--rounds", type=at_least_one, default=3)
    parser.add_argument(
        "--limit", type=above_zero, default=float("inf"), metavar="SECONDS", help="no end if not given"
    )
    parser.add_argument("--within", type=above_zero, default=WITHIN)
    parser.add_argument("--json", type=file_to_write, metavar="FILE", help="write everything there")
    parser.add_argument("--table", type=Path, metavar="FILE", help="measure nothing; the tables of that file")
    given = parser.parse_args(arguments)
    if given.table is not None:
        try:
            found = json.loads(given.table.read_text(encoding="utf-8"))
            told = tables(found, given.within)
        except OSError as reason:
            parser.error(f"--table: {given.table} can't be read: {reason.strerror}")
        except (KeyError, TypeError, ValueError):
            parser.error(f"--table: {given.table} is none that --json wrote")
        if not biases(found["runs"]):
            parser.error(f"--table: {given.table} has no round in which both have asked")
        print(told)
        return 0
    if given.first_token_ms is not None:
        low, high = given.first_token_ms
        if not 0 <= low <= high < float("inf"):
            parser.error(
                f"--first-token-ms: {low:g} to {high:g} are no times: give 0 or more, the lower first"
            )
    loads = [
        (
            Load(requests_of_run(each), each, given.prompt_tokens, given.new_tokens),
            pace_of(each, step_ms, given.first_token_ms),
        )
        for each, step_ms in product(given.concurrency, given.step_ms)
    ]
    with tempfile.TemporaryDirectory(prefix="client-bias-") as folder:
        try:
            python = vllm_python()
            environment = None if python is None else installed(python)
            if environment is None:
                print(
                    f"vLLM is not installed; set {PYTHON_VARIABLE} to a Python that has it.", file=sys.stderr
                )
                return 1
            found = measure(
                environment, loads, given.rounds, Path(folder), given.limit, partial(_keep, given.json)
            )
        except (Infeasible, AutoinferError, RuntimeError) as reason:
            print(reason, file=sys.stderr)
            return 1
    print(tables(found, given.within))
    return 0


if __name__ == "__main__":
    sys.exit(main())
