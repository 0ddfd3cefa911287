"""Where the time of a decode step goes, by part of the model, and that to a prompt's first token
(`prompt_profile.py`). In the driver; see `kernel_trace.py`.

The same requests are served twice: first untouched, which tells how long a step takes, then while kernels are
recorded. The time of each part is that of its kernels in a typical step; what is left of the untouched step
is `outside`: launching, scheduling, the way of a token between vLLM's processes. So parts sum to the step.
Where kernels took longer than the step (a trace slows a CPU's operators, each by about a microsecond), their
times are scaled down to it and `outside` is 0: then they tell shares.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, replace
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

from experiments.engines.port import GenerationRequest, Infeasible
from experiments.engines.vllm.kernel_parts import kernel_times, typical
from experiments.engines.vllm.kernel_steps import Step, settled, steps_of
from experiments.engines.vllm.part_times import parts_of
from experiments.engines.vllm.prompt_profile import profile_prompt
from experiments.engines.vllm.read_of_experts import step_weights
from experiments.measurement.evidence import Json

if TYPE_CHECKING:
    from experiments.engines.vllm.loaded_engine import LoadedEngine

PROFILE_VERSION = 5
"""Raised when the same would be profiled otherwise, or more of it: the first had no lone prompt, the second
counted the weights of DFlash's drafter once for each token, the third did not know a kernel of weights
rounded to 8 bits (`absmax_reduction_flat`), and the fourth put products of experts that Humming computes to
the layers. That experts are a kind of their own did not raise it, for no profile with experts of a GPU had
been kept."""

MOST_TOKENS = 48
"""Tokens that are generated while kernels are recorded: each step has hundreds of them."""

METHOD = (
    "torch.profiler over the later half of the steps; the step's time from the same requests served untouched"
)


async def profile(engine: LoadedEngine, request: GenerationRequest, concurrency: int = 1) -> dict[str, Json]:
    """Profile decode steps of a request, `concurrency` of which are served at once.

    Gives `parts` (of `PartTime`) and the `record` that they rest on: every kernel by name, one step in
    order, and under `prompt` the same of a lone prompt, or the `failure` for which there is none. Raises
    `Infeasible` where no step was recorded.
    """
    short = replace(request, new_tokens=min(request.new_tokens, MOST_TOKENS))
    step_ms = await _step_ms(engine, short, concurrency)
    order = engine.order
    read = await engine.call("autoinfer_read_by_step", order.draft_tokens, order.draft_passes)
    await engine.call("autoinfer_trace", True)
    try:
        traced_ms = await _step_ms(engine, short, concurrency)
    finally:
        trace = await engine.call("autoinfer_trace", False)
    recorded = settled(steps_of(trace))
    if not recorded:
        raise Infeasible("crashed", "The profiler recorded no whole step, so its parts can't be told.")
    steps = typical(recorded)
    kernels = kernel_times(steps, read["linears"])
    try:
        prompt = await profile_prompt(engine, request, read)
    except Infeasible as failure:
        prompt = {"failure": failure.cause}
    bytes_of = cache_bytes(read, len(request.prompt_ids) + short.new_tokens // 2, concurrency)
    weights = step_weights(read, concurrency * (order.draft_tokens + 1), concurrency)
    parts = parts_of(kernels, step_ms, weights, bytes_of)
    record: dict[str, Json] = {
        "method": METHOD,
        "concurrency": concurrency,
        "context_tokens": len(request.prompt_ids) + short.new_tokens // 2,
        "draft_tokens": engine.order.draft_tokens,
        "step_ms": step_ms,
        "traced_step_ms": traced_ms,
        "steps": len(steps),
        "recorded_steps": len(recorded),
        "read": read,
        "kernels": [each.data() for each in kernels],
        "step": _written(steps[len(steps) // 2]),
        "prompt": prompt,
    }
    return {"parts": [asdict(part) for part in parts], "record": record}


def cache_bytes(read: Mapping[str, Any], context_tokens: int, concurrency: int) -> dict[str, int]:
    """Bytes of caches and states that a step reads and writes, by part."""
    return {
        "attention": concurrency * context_tokens * int(read["kv_bytes_per_token"]),
        "gdn_state": concurrency * int(read["state_bytes"]),
        "conv1d": concurrency * int(read["conv_bytes"]),
    }


async def _step_ms(engine: LoadedEngine, request: GenerationRequest, concurrency: int) -> float:
    """The median time from one step's tokens to the next's, in the later half of the request."""
    traces = await asyncio.gather(*(engine.generate(request) for _ in range(concurrency)))
    times_s = sorted(set(traces[0].token_times_s))
    gaps_s = [after - before for before, after in pairwise(times_s)]
    return 1e3 * median(gaps_s[len(gaps_s) // 2 :])


def _written(step: Step) -> dict[str, Json]:
    """A step as data: `names`, and `rows` of the name's number, region, start and own microseconds, grid."""
    names = list(dict.fromkeys(each.name for each in step))
    return {
        "names": [*names],
        "rows": [
            [
                names.index(each.name),
                each.region.value,
                round(each.start_us, 3),
                round(each.own_us, 3),
                list(each.grid),
            ]
            for each in step
        ],
    }
