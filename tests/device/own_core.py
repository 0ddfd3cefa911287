"""Does a token come sooner where vLLM's engine has a core for itself? Timed on one server.

    python -m tests.device.own_core --shape qwen3.5-9b --device cuda:0 --four-bits humming --json own.json
    python -m tests.device.own_core --table own.json

One vLLM is loaded and asked over HTTP as a campaign asks it, one request at a time, under several placings
of its processes, in turns: `free`, where the system puts them; and `on N`, the engine's process on processor
N alone, and the server, its client and this process on the others, those left out that `core_pairs.py` finds
to share a core with N, for a virtual machine may hide it. Before `free` the engine is put off N, for it
would stay there (until 30 November 2026 it was not: of 40 rounds on an H200 it was seen on N alone in 24 of
those called free). Every second round has the turns reversed. Beside
each request is kept on which processors the engine's main thread was seen, looked at every 5 ms. Told are the
medians of the rounds' medians by placing, and how far each lies from `free` (the geometric mean of the
rounds' ratios with its 95 % interval by Student's t on their logarithms). Nothing else should run. It is for
a GPU: on a CPU the engine's own threads compute, and one processor is far too few for them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from configs.asked_over import HTTP as HTTP_WAY
from configs.core_shares import usable
from configs.errors import AutoinferError
from configs.models import load_model_profile
from experiments.engines.port import Infeasible
from experiments.engines.vllm.engine import VllmEngine
from experiments.engines.vllm.launch import VllmLaunch
from experiments.measurement.prompts import load_tokenizer
from experiments.reference_model.load import reference_model_path
from experiments.shapes.folder import write_shape
from experiments.space.configuration import Configuration, KnobValue
from tests.benchmarks.arguments import above_zero, file_to_write
from tests.benchmarks.serving_arms import Load, by_http, prompts
from tests.benchmarks.serving_comparison import difference
from tests.device.core_pairs import SLOWER, slowdowns
from tests.proofs.counting import at_least_one

FREE = "free"
METRICS = ("ttft_ms", "tpot_ms")

LOOK_S = 0.005
"""Seconds between two looks at where the engine's main thread is."""

FOUR_BITS: Mapping[str, KnobValue] = {
    "quantization.method": "awq",
    "quantization.bits": 4,
    "quantization.group_size": 128,
    "quantization.symmetric": True,
    "quantization.lm_head": "quantized",
}


def knobs_of(four_bits: str | None) -> dict[str, KnobValue]:
    """What is served: 16 bits, or 4 with the head by a kernel; pure."""
    room: dict[str, KnobValue] = {"serving.max_sequences": 16, "serving.max_model_len": 4096}
    return room if four_bits is None else {**room, **FOUR_BITS, "serving.linear_backend": four_bits}


def placings(
    on: Sequence[int], sharing: Mapping[int, Collection[int]], processors: Collection[int]
) -> dict[str, tuple[frozenset[int], frozenset[int]]]:
    """By name the processors of the engine and of all else; pure."""
    every = frozenset(processors)
    found = {FREE: (every, every)}
    for each in on:
        found[f"on {each}"] = (frozenset({each}), every - {each, *sharing[each]})
    return found


def threads_of(pid: int) -> list[int]:
    """The threads of a process."""
    with suppress(OSError):
        return [int(each) for each in os.listdir(f"/proc/{pid}/task")]
    return []


def put(pids: Collection[int], processors: Collection[int]) -> None:
    """All threads of these processes on processors."""
    for thread in [each for pid in pids for each in threads_of(pid)]:
        with suppress(OSError):  # it has ended
            os.sched_setaffinity(thread, processors)


def processor_of(pid: int) -> int | None:
    """The processor on which a process's main thread ran last."""
    with suppress(OSError, IndexError, ValueError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[36])
    return None


@contextmanager
def watched(pid: int) -> Iterator[Counter[int]]:
    """Counts on which processors a process's main thread is seen."""
    seen: Counter[int] = Counter()
    over = threading.Event()

    def look() -> None:
        while not over.wait(LOOK_S):
            if (found := processor_of(pid)) is not None:
                seen[found] += 1

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def busiest(processes: Collection[psutil.Process], work: Callable[[], object]) -> psutil.Process:
    """Which of the processes took the most time of processors while work was done; raises `RuntimeError`
    where there is none."""
    before = {each: _taken_s(each) for each in processes}
    work()
    took_s = {each: _taken_s(each) - before[each] for each in before}
    if not took_s:
        raise RuntimeError("vLLM serves in one process, so its engine can't be put anywhere for itself.")
    return max(took_s, key=lambda each: took_s[each])


def _taken_s(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:  # it has ended
        return 0.0
    return float(times.user + times.system)


def processes(launch: VllmLaunch, work: Callable[[], object]) -> tuple[int, list[int]]:
    """The engine's process, and the server, its client and this process.

    The engine's is the server's busiest child while it works: what vLLM calls it is not seen on every system.
    """
    driver = psutil.Process(launch.pid)
    within = driver.children(recursive=True)
    engine = busiest(within, work)
    others = [driver.pid, *(each.pid for each in within if each != engine), os.getpid()]
    return engine.pid, others + ([] if launch.client_pid is None else [launch.client_pid])


def measured(given: argparse.Namespace, sharing: Mapping[int, Sequence[int]], folder: Path) -> dict[str, Any]:
    """Load, ask in turns, end; what was measured is kept after each round. Raises `Infeasible`."""
    knobs = knobs_of(given.four_bits)
    configuration = Configuration.of(knobs)
    tokenizer = load_tokenizer(reference_model_path())
    model = reference_model_path()
    if given.shape is not None:
        model = write_shape(load_model_profile(given.shape), configuration, folder / "shape")
    load = Load(given.requests, 1, given.prompt_tokens, given.new_tokens)
    places = placings(given.on, sharing, usable())
    began = time.monotonic()
    with ExitStack() as stack:
        launch = (
            VllmEngine()
            .asked_over(HTTP_WAY)
            .launch(configuration, model, given.device, folder / "log", given.cache or folder / "cache")
        )
        assert isinstance(launch, VllmLaunch)
        stack.callback(launch.close)
        by_http(launch, prompts(tokenizer, load, -1), load)  # with which a client begins
        engine, others = processes(launch, lambda: by_http(launch, prompts(tokenizer, load, -1), load))
        told: dict[str, Any] = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "command": sys.argv[1:],
            "knobs": knobs,
            "resolved": dict(launch.resolved()),
            "sharing": {str(each): list(found) for each, found in sharing.items()},
            "rounds": [],
        }
        for turn in range(given.rounds):
            if time.monotonic() - began > given.limit:
                break
            order = list(places) if turn % 2 == 0 else list(reversed(places))
            of_round: dict[str, Any] = {}
            for name in order:
                if name == FREE and given.on:  # it would stay where it was put before
                    put([engine], places[f"on {given.on[0]}"][1])
                for pids, processors in zip(([engine], others), places[name], strict=True):
                    put(pids, processors)
                with watched(engine) as seen:
                    figures, saved = by_http(launch, prompts(tokenizer, load, turn), load)
                took = {metric: getattr(figures, metric) for metric in METRICS}
                of_round[name] = {**took, "saved": saved, "seen": dict(seen)}
                print(
                    turn, name, {metric: round(took[metric], 2) for metric in METRICS}, dict(seen), flush=True
                )
            told["rounds"].append(of_round)
            if given.json is not None:
                given.json.write_text(json.dumps(told), encoding="utf-8")
    return told


def table(told: Mapping[str, Any]) -> str:
    """What was measured, as lines of Markdown; pure."""
    rounds = told["rounds"]
    names = list(dict.fromkeys(name for each in rounds for name in each))
    head = ["engine", *METRICS, *(f"{metric} against `{FREE}`" for metric in METRICS), "seen on"]
    rows = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for name in [FREE, *(each for each in names if each != FREE)]:
        of = {metric: [each[name][metric] for each in rounds] for metric in METRICS}
        free = {metric: [each[FREE][metric] for each in rounds] for metric in METRICS}
        middle = [f"{median(of[metric]):.2f}" for metric in METRICS]
        against = ["—" if name == FREE else _said(of[metric], free[metric]) for metric in METRICS]
        seen = {int(cpu) for each in rounds for cpu in each[name]["seen"]}
        on = f"{len(seen)} processors" if len(seen) > 1 else f"processor {min(seen, default='—')}"
        rows.append(f"| {' | '.join([name, *middle, *against, on])} |")
    return "\n".join(rows)


def _said(of: Sequence[float], free: Sequence[float]) -> str:
    found = difference(of, free)
    if found.low is None or found.high is None:
        return f"{100 * found.value:+.1f} %"
    return f"{100 * found.value:+.1f} % ({100 * found.low:+.1f} to {100 * found.high:+.1f})"


def kept(file: str) -> dict[str, Any]:
    """What a file keeps; refused in a sentence where it keeps no rounds."""
    try:
        told = json.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError) as cause:
        raise argparse.ArgumentTypeError(f"{file} can't be read: {cause}") from None
    if not isinstance(told, dict) or not told.get("rounds"):
        raise argparse.ArgumentTypeError(f"{file} keeps no rounds")
    return told


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, or tell what was measured; 1 where it can't be done."""
    every = sorted(usable())
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    one = parser.add_mutually_exclusive_group(required=True)
    one.add_argument("--device")
    one.add_argument("--table", type=kept, metavar="FILE", help="measure nothing; the table of what was kept")
    parser.add_argument(
        "--shape", metavar="MODEL", help="a packaged profile; the packaged model if not given"
    )
    parser.add_argument("--four-bits", metavar="KERNEL", help="4 bits with the head by this kernel, not 16")
    parser.add_argument("--on", type=int, nargs="+", default=every[1:4], choices=every, metavar="PROCESSOR")
    parser.add_argument("--rounds", type=at_least_one, default=20)
    parser.add_argument("--requests", type=at_least_one, default=4)
    parser.add_argument("--prompt-tokens", type=at_least_one, default=512)
    parser.add_argument("--new-tokens", type=at_least_one, default=128)
    parser.add_argument("--json", type=file_to_write, metavar="FILE")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="compiled code that is kept between runs")
    parser.add_argument("--limit", type=above_zero, default=float("inf"), metavar="SECONDS")
    given = parser.parse_args(arguments)
    if given.table is not None:
        print(table(given.table))
        return 0
    found = {each: slowdowns(each, [cpu for cpu in every if cpu != each]) for each in given.on}
    os.sched_setaffinity(0, every)
    sharing = {each: [cpu for cpu, share in told.items() if share >= SLOWER] for each, told in found.items()}
    print("shares a core with:", sharing, flush=True)
    with tempfile.TemporaryDirectory(prefix="own-core-") as folder:
        try:
            told = measured(given, sharing, Path(folder))
        except (Infeasible, AutoinferError, RuntimeError) as reason:
            print(reason, file=sys.stderr)
            return 1
    print(table(told))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
