"""Where the time to a prompt's first token goes, by part of the model. In the driver; see `profile.py`.

Prompts are read one after the other, each answered with one token: first untouched, which tells how long that
takes, then while kernels are recorded. What is left of the untouched time beside kernels is `outside`: a
processor that launches them one by one, scheduling, the way between vLLM's processes. HTTP and a tokenizer
are not in it. Every prompt has its words in another order, so that none is found in a cache of prefixes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import TYPE_CHECKING, Any

from experiments.engines.port import GenerationRequest, Infeasible
from experiments.engines.vllm.kernel_parts import kernel_times, typical
from experiments.engines.vllm.kernel_steps import Region, Step, steps_of
from experiments.engines.vllm.part_times import parts_of
from experiments.engines.vllm.read_of_experts import DRAFT, step_weights, token_operations
from experiments.measurement.evidence import Json

if TYPE_CHECKING:
    from experiments.engines.vllm.loaded_engine import LoadedEngine

PROMPTS = 6
"""Prompts that are read untouched, and as many while kernels are recorded."""

WARM_PROMPTS = 2
"""Prompts before them whose times count nothing."""

PROMPTS_READ = WARM_PROMPTS + 2 * PROMPTS + 1
"""All of them: the last step of a trace is never whole, so one more is recorded."""

METHOD = "torch.profiler over lone prompts; the time from the same number of prompts read untouched"

OPERATIONS_A_WEIGHT = 2

LEAST_BYTES_OF_8_BITS, MOST_BYTES_OF_8_BITS = 0.75, 1.5
"""Between these bytes a weight, scales included, are those of 8 bits."""

MS_PER_S = 1e3


async def profile_prompt(
    engine: LoadedEngine, request: GenerationRequest, read: Mapping[str, Any]
) -> dict[str, Json]:
    """The `parts` (of `PartTime`) of reading a lone prompt of the request's length, and what they rest on.

    `read` is what the worker told of the model's weights (`served_weights.py`). Raises `Infeasible` where the
    recorded steps are not those of so many prompts.
    """
    prompts = _Prompts(engine, request.prompt_ids)
    for _ in range(WARM_PROMPTS):
        await prompts.read_one_s()
    times_s = [await prompts.read_one_s() for _ in range(PROMPTS)]
    await engine.call("autoinfer_trace", True)
    try:
        traced_s = [await prompts.read_one_s() for _ in range(PROMPTS + 1)]  # the last step is never whole
    finally:
        trace = await engine.call("autoinfer_trace", False)
    whole, steps_each = by_prompt(steps_of(trace), PROMPTS + 1)
    same = typical(whole)
    kernels = kernel_times(same, [*read["linears"]] * steps_each)
    tokens, first_ms = len(request.prompt_ids), MS_PER_S * median(times_s)
    parts = parts_of(
        kernels,
        first_ms,
        weights_read(read, tokens, steps_each),
        {},
        operations_of(read, tokens, steps_each),
    )
    return {
        "method": METHOD,
        "prompt_tokens": tokens,
        "prompt_steps": steps_each,
        "first_token_ms": first_ms,
        "times_ms": [MS_PER_S * each for each in times_s],
        "traced_times_ms": [MS_PER_S * each for each in traced_s],
        "prompts": len(same),
        "recorded_prompts": len(whole),
        "parts": [asdict(part) for part in parts],
        "kernels": [each.data() for each in kernels],
    }


def weights_read(read: Mapping[str, Any], tokens: int, steps: int) -> dict[str, int]:
    """Bytes of weights that reading a prompt of so many tokens in so many steps takes, by part; pure.

    Not a drafter's: what of it a prompt runs, its whole or what makes keys and values alone, is its own.
    """
    by_part = step_weights(read, tokens / steps)
    return {part: steps * count for part, count in by_part.items() if part != DRAFT}


def by_prompt(steps: Sequence[Step], prompts: int) -> tuple[list[Step], int]:
    """The kernels of each prompt that was recorded whole, and by how many steps each was read; pure.

    `steps` are those of so many prompts of one length, two or more, read one after the other, of whose steps
    the last may be missing. Steps that compute no logits read nothing. Raises `Infeasible` where none reads,
    and where they can't be shared out.
    """
    reading = [step for step in steps if any(kernel.region is Region.HEAD for kernel in step)]
    if not reading:
        raise Infeasible(
            "crashed", "The profiler recorded no step that reads a prompt, so a prompt's parts can't be told."
        )
    each = -(-len(reading) // prompts)
    if prompts * each - len(reading) > 1:
        raise Infeasible(
            "crashed",
            f"The profiler recorded {len(reading)} steps of {prompts} prompts, so a prompt's parts can't be "
            "told.",
        )
    found = [
        tuple(kernel for step in reading[each * place : each * (place + 1)] for kernel in step)
        for place in range(len(reading) // each)
    ]
    return found, each


def operations_of(read: Mapping[str, Any], tokens: int, steps: int) -> dict[str, int]:
    """Multiplications and additions of a prompt's products by part: the output head's of one token a step,
    attention's of each token with itself and those before it, states' of each token, less what the first may
    spare.

    Of weights in 8 bits none: their products may be faster than the rate in 16 bits that was measured.
    """
    pairs = tokens * (tokens + 1) // 2
    without_weights = {
        "attention": pairs * read.get("attention_operations", 0),
        "gdn_state": tokens * read.get("state_operations", 0) - read.get("spared_operations", 0),
    }
    found = {part: count for part, count in without_weights.items() if count > 0}
    weights = step_weights(read, 1)
    for part, count in token_operations(read).items():
        bytes_each = OPERATIONS_A_WEIGHT * weights.get(part, 0) / count if count else 0.0
        if not LEAST_BYTES_OF_8_BITS < bytes_each < MOST_BYTES_OF_8_BITS:
            found[part] = count * (steps if part == "lm_head" else tokens)
    return found


class _Prompts:
    """Prompts of one length, no two of which begin alike."""

    def __init__(self, engine: LoadedEngine, ids: Sequence[int]) -> None:
        self._engine, self._ids, self._turn = engine, tuple(ids), 0

    async def read_one_s(self) -> float:
        """Read the next one; the seconds until its answer of one token is whole."""
        self._turn = (self._turn + 1) % len(self._ids)
        turned = self._ids[self._turn :] + self._ids[: self._turn]
        begun_s = time.perf_counter()
        await self._engine.say(turned, 1)
        return time.perf_counter() - begun_s
