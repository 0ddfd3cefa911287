"""Ways to time the same requests on one running vLLM: by HTTP, in its engine, by
vLLM's own bench.

Each gives one `Figures`: medians and means over the requests, and throughput, by the definitions of `vllm
bench serve`; and what is kept of each request.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from statistics import mean, median
from typing import Any

from tokenizers import Tokenizer

from experiments.engines.port import GenerationRequest, GenerationTrace
from experiments.engines.vllm.http_client_process import HttpClient
from experiments.engines.vllm.launch import VllmLaunch
from experiments.engines.vllm.openai_app import SERVED_AS
from experiments.job.block_samples import block_samples
from experiments.measurement.evidence import Metric
from tests.benchmarks.vllm_bench import LIMIT_S, VllmBench

TRIES = 20
"""How often a text is cut until it has its number of tokens."""


@dataclass(frozen=True)
class Figures:
    """What one run of requests showed: medians in ms, output tokens and requests a second over all, and means
    in ms, which scatter less where requests come in groups; without means in what was kept before there were
    any."""

    ttft_ms: float
    tpot_ms: float
    itl_ms: float
    e2el_ms: float
    output_tokens_per_s: float
    requests_per_s: float
    mean_ttft_ms: float | None = None
    mean_tpot_ms: float | None = None
    mean_e2el_ms: float | None = None


Run = tuple[Figures, dict[str, Any]]
"""What one run of requests showed, and what is kept of each of them: see `kept_of`."""


@dataclass(frozen=True)
class Load:
    """What is asked for: requests of so many tokens in and out, so many at once."""

    requests: int
    concurrency: int
    prompt_tokens: int
    new_tokens: int


@dataclass(frozen=True)
class Prompt:
    """A text, and its tokens as the server makes them of it."""

    text: str
    ids: tuple[int, ...]


def prompts(tokenizer: Tokenizer, load: Load, seed: int) -> list[Prompt]:
    """Random texts of so many tokens; where decoding and encoding moves the number, the nearest found."""
    chance = random.Random(seed)
    special = set(tokenizer.get_added_tokens_decoder())
    words = [token for token in range(tokenizer.get_vocab_size()) if token not in special]
    return [_prompt(tokenizer, words, load.prompt_tokens, chance) for _ in range(load.requests)]


def _prompt(tokenizer: Tokenizer, words: Sequence[int], tokens: int, chance: random.Random) -> Prompt:
    ids = chance.choices(words, k=tokens)
    found = Prompt("", ())
    for _ in range(TRIES):
        text = tokenizer.decode(ids, skip_special_tokens=False)
        made = tuple(tokenizer.encode(text, add_special_tokens=False).ids)
        if not found.ids or abs(len(made) - tokens) < abs(len(found.ids) - tokens):
            found = Prompt(text, made)
        if len(made) == tokens:
            break
        ids = [*made[:tokens], *chance.choices(words, k=max(0, tokens - len(made)))]
    return found


def by_http(launch: VllmLaunch, asked: Sequence[Prompt], load: Load) -> Run:
    """As a campaign measures vLLM: a client process of its own asks vLLM's HTTP server."""
    requests = requests_of(asked, load)
    return _run_of(requests, launch.serve(requests, load.concurrency))


def by_client(client: HttpClient, asked: Sequence[Prompt], load: Load) -> Run:
    """As `by_http`, by another client: `token_ids_client.py` or `later_client.py`."""
    requests = requests_of(asked, load)
    traces, _ = client.ask(requests, load.concurrency, LIMIT_S)
    return _run_of(requests, traces)


def by_driver(launch: VllmLaunch, asked: Sequence[Prompt], load: Load) -> Run:
    """As a campaign measures where it is asked in the engine's process."""
    requests = requests_of(asked, load)
    return _run_of(requests, launch.answer(requests, load.concurrency))


def requests_of(asked: Sequence[Prompt], load: Load) -> list[GenerationRequest]:
    """What each of ours is given: token ids, as a block of a campaign has them."""
    return [GenerationRequest(str(place), prompt.ids, load.new_tokens) for place, prompt in enumerate(asked)]


def _run_of(requests: Sequence[GenerationRequest], traces: Sequence[GenerationTrace]) -> Run:
    starts_s = [trace.start_s for trace in traces]
    ttfts_s = [trace.token_times_s[0] for trace in traces]
    decode_s = [trace.token_times_s[-1] - trace.token_times_s[0] for trace in traces]
    return figures_of(requests, traces), kept_of(starts_s, ttfts_s, decode_s)


def kept_of(starts_s: Sequence[float], ttfts_s: Sequence[float], decode_s: Sequence[float]) -> dict[str, Any]:
    """Of each request, in seconds to a microsecond: when it was sent, from when the first one was; from
    then to its first token; and from that to its last."""
    first = min(starts_s)
    return {
        "start_s": [round(each - first, 6) for each in starts_s],
        "ttft_s": [round(each, 6) for each in ttfts_s],
        "decode_s": [round(each, 6) for each in decode_s],
    }


def figures_of(requests: Sequence[GenerationRequest], traces: Sequence[GenerationTrace]) -> Figures:
    """The figures of a block as a campaign stores it, medians of its raw samples, and their means."""
    samples = block_samples(requests, traces, 0)
    values: dict[Metric, list[float]] = {}
    for _, _, metric, value in samples:
        values.setdefault(metric, []).append(value)
    middle = {metric: median(each) for metric, each in values.items()}
    return Figures(
        middle[Metric.TTFT_MS],
        middle[Metric.TPOT_MS],
        middle[Metric.ITL_MS],
        middle[Metric.E2EL_MS],
        middle[Metric.OUTPUT_TOKENS_PER_S],
        middle[Metric.REQUESTS_PER_S],
        *(mean(values[metric]) for metric in (Metric.TTFT_MS, Metric.TPOT_MS, Metric.E2EL_MS)),
    )


def by_vllm_bench(
    bench: VllmBench, address: str, tokenizer: Path, load: Load, seed: int
) -> tuple[Figures, dict[str, Any]]:
    """`vllm bench serve` with its random data set; also what it saved, without the texts."""
    arguments = [
        "--backend", "openai", "--base-url", address, "--endpoint", "/v1/completions",
        "--model", SERVED_AS, "--tokenizer", str(tokenizer),
        "--dataset-name", "random", "--random-input-len", str(load.prompt_tokens),
        "--random-output-len", str(load.new_tokens), "--random-range-ratio", "0",
        "--num-prompts", str(load.requests), "--max-concurrency", str(load.concurrency),
        "--num-warmups", str(load.concurrency), "--seed", str(seed),
        "--ignore-eos", "--temperature", "0", "--disable-tqdm",
        "--percentile-metrics", "ttft,tpot,itl,e2el",
    ]  # fmt: skip
    saved = bench.saved(arguments, load.requests, load.new_tokens)
    middle = [saved[f"median_{metric}_ms"] for metric in ("ttft", "tpot", "itl", "e2el")]
    means = [saved[f"mean_{metric}_ms"] for metric in ("ttft", "tpot", "e2el")]
    return Figures(*middle, saved["output_throughput"], saved["request_throughput"], *means), saved


def as_we_define_them(saved: Mapping[str, Any]) -> Figures:
    """What autoinfer would tell of the very requests that vLLM's bench timed, from what it saved of each.

    Raises `ValueError` where the server joined tokens of several steps, so that their times are not known.
    """
    requests, traces = [], []
    told = zip(saved["start_times"], saved["ttfts"], saved["itls"], saved["input_lens"], strict=True)
    for place, (start_s, ttft_s, itl_s, prompt_tokens) in enumerate(told):
        times_s = tuple(accumulate((ttft_s, *itl_s)))
        if len(times_s) != saved["output_lens"][place]:
            raise ValueError("the server joined tokens of several steps")
        requests.append(GenerationRequest(str(place), (0,) * prompt_tokens, len(times_s)))
        traces.append(GenerationTrace((0,) * len(times_s), times_s, start_s=start_s))
    return figures_of(requests, traces)
