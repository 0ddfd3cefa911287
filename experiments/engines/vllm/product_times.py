"""How long a matrix product takes by itself: one call after the other over distinct weights. Needs torch.

On a GPU the calls are captured in one CUDA graph, as vLLM serves them, and replayed between two CUDA events,
so that nothing of the processor's is in the time. On a CPU they are called in turn between two readings of a
monotonic clock. How many copies of the weights there are is in `product_copies.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median

import torch

from experiments.engines.vllm.product_copies import CACHES

CPU_CACHE_BYTES = 16 * 2**20
"""What a CPU's last cache is taken for; it is shared, and what of it is ours is not to be had."""

UNTOLD_CACHE_BYTES = 64 * 2**20
"""What a GPU's L2 cache is taken for where torch does not tell it: more than an H200's 60 MB."""

CALLS = 8
"""Calls in one graph at least, so that a sample is long against the clock of events, half a microsecond."""

SAMPLES, WARM_UPS = 15, 3
"""Times that are kept, and replays before them."""

ENOUGH_MS = 120.0
"""Milliseconds of one product after which no further sample is begun; `FEWEST` are taken in any case."""

FEWEST = 3

METHOD = {
    "cuda": (
        f"calls over copies of {CACHES} times the L2 cache in one CUDA graph, replayed between CUDA events; "
        f"median of up to {SAMPLES}"
    ),
    "cpu": (
        f"calls in turn over copies of {CACHES} times {CPU_CACHE_BYTES // 2**20} MiB by the monotonic clock; "
        f"median of up to {SAMPLES}"
    ),
}
"""How products are timed, by kind of device."""

US_PER_MS, US_PER_S = 1e3, 1e6

WARM_UP_S, WARM_UP_SIZE = 0.5, 4096
"""Seconds of square products of this size before anything is timed: clocks of an idle GPU are low, and what
is timed first is what all is held against."""


def cache_bytes(device: torch.device) -> int:
    """Bytes of the last cache that copies must not fit into."""
    if device.type == "cuda":
        told = getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0)
        return int(told) or UNTOLD_CACHE_BYTES
    return CPU_CACHE_BYTES


AGAIN_S = 0.03
"""The same before each product: a GPU that waited for a compiler lets its clocks fall."""


def warm_up(device: torch.device, seconds: float = WARM_UP_S) -> None:
    """Raise a GPU's clocks."""
    if device.type != "cuda":
        return
    square = torch.ones(WARM_UP_SIZE, WARM_UP_SIZE, dtype=torch.bfloat16, device=device)
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        square @ square
        torch.cuda.synchronize()


def give_back(device: torch.device) -> None:
    """Return what torch keeps of a GPU's memory: preparing weights may take several times their size, and
    other processes want it too."""
    if device.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.empty_cache()


def free_bytes(device: torch.device) -> int | None:
    """Bytes of a GPU's memory that nobody holds; None on a CPU."""
    return int(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else None


@torch.inference_mode()
def first_call_s(layer: torch.nn.Module, inputs: torch.Tensor) -> float:
    """Seconds of a first call: what is compiled when it first runs is compiled then. Raises whatever the
    kernel does."""
    begun_s = time.monotonic()
    layer(inputs)
    if inputs.device.type == "cuda":
        torch.cuda.synchronize()
    return time.monotonic() - begun_s


@torch.inference_mode()
def product_us(layers: Sequence[torch.nn.Module], inputs: torch.Tensor) -> list[float]:
    """Microseconds of one call, a value a sample. Raises whatever the kernel does."""
    warm_up(inputs.device, AGAIN_S)
    if inputs.device.type == "cuda":
        return _on_gpu(layers, inputs)
    return _sampled(lambda: _wall_us(layers, inputs), len(layers))


def _on_gpu(layers: Sequence[torch.nn.Module], inputs: torch.Tensor) -> list[float]:
    rounds = -(-CALLS // len(layers))
    stream: torch.cuda.Stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for layer in layers:
            layer(inputs)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(rounds):
            for layer in layers:
                layer(inputs)

    def replay_us() -> float:
        begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        begun.record()
        graph.replay()
        ended.record()
        ended.synchronize()
        return US_PER_MS * float(begun.elapsed_time(ended))

    return _sampled(replay_us, rounds * len(layers))


def _wall_us(layers: Sequence[torch.nn.Module], inputs: torch.Tensor) -> float:
    begun_s = time.perf_counter()
    for layer in layers:
        layer(inputs)
    return US_PER_S * (time.perf_counter() - begun_s)


def _sampled(run_us: Callable[[], float], calls: int) -> list[float]:
    """Microseconds a call of up to `SAMPLES` runs of so many calls each."""
    took_us = sum(run_us() for _ in range(WARM_UPS))
    samples: list[float] = []
    while len(samples) < SAMPLES and (len(samples) < FEWEST or took_us < US_PER_MS * ENOUGH_MS):
        samples.append(run_us())
        took_us += samples[-1]
    return [each / calls for each in samples]


def typical_us(samples_us: Sequence[float]) -> float:
    """The median: on a GPU that others use single runs stall."""
    return median(samples_us)
