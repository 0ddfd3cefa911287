"""What vLLM's kernels take for the two products of a layer's experts, alone, on a GPU; run by vLLM's Python:

    python tests/device/experts_alone.py [--width 512] [--experts 256] …

Weights are random, as many bytes as a whole layer's, and every call is sent to experts drawn anew, so that
they come from memory more than from a cache. Times are those of the kernels themselves, by torch.profiler: of
each product the median of its runs, and both together, in microseconds, for one token and more. Written for
vLLM 0.33; a format that fails is told with its error.
"""

import argparse
import json
import re
from collections import defaultdict
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile
from vllm.model_executor.layers.fused_moe.experts import marlin_moe
from vllm.model_executor.layers.fused_moe.fused_moe import (
    fused_experts_impl,
    invoke_fused_moe_wna16_triton_kernel,
    moe_align_block_size,
    try_get_optimal_moe_config,
)
from vllm.scalar_type import scalar_types
from vllm.triton_utils import tl

CALLS, WARM_CALLS = 30, 6
TOKENS = (1, 4, 16)
PRODUCTS = re.compile("marlin|fused_moe_kernel|wna16", re.IGNORECASE)

Call = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Any]


def integers(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    """Random bits."""
    most = torch.iinfo(dtype).max
    return torch.randint(0, most, shape, dtype=dtype, device="cuda")


def numbers(*shape: int) -> torch.Tensor:
    """Small random numbers."""
    return torch.randn(*shape, dtype=torch.bfloat16, device="cuda") / 64


def in_16_bits(asked: argparse.Namespace) -> Call:
    """Triton's kernel for dense experts."""
    gate_up = numbers(asked.experts, 2 * asked.width, asked.hidden)
    down = numbers(asked.experts, asked.hidden, asked.width)
    return lambda x, weights, ids: fused_experts_impl(x, gate_up, down, weights, ids)


def by_marlin(asked: argparse.Namespace) -> Call:
    """Marlin's for 4 bits without zero points."""
    hidden, width, group = asked.hidden, asked.width, asked.group
    gate_up = integers(asked.experts, hidden // 16, 2 * width * 2, dtype=torch.int32)
    down = integers(asked.experts, width // 16, hidden * 2, dtype=torch.int32)
    scales = (
        numbers(asked.experts, hidden // group, 2 * width),
        numbers(asked.experts, width // group, hidden),
    )
    kind = scalar_types.uint4b8.id

    def halved(_: Any, out: torch.Tensor, both: torch.Tensor, **__: Any) -> None:
        out.copy_(both[:, :width])

    return lambda x, weights, ids: marlin_moe.fused_marlin_moe(
        x, gate_up, down, None, None, *scales, weights, ids, quant_type_id=kind, activation_func=halved
    )


def by_triton(asked: argparse.Namespace) -> Call:
    """Triton's for 4 bits without zero points, as `TritonWNA16Experts` calls it."""
    hidden, width, group, block = asked.hidden, asked.width, asked.group, [0, asked.group]
    gate_up = integers(asked.experts, 2 * width, hidden // 2, dtype=torch.uint8)
    down = integers(asked.experts, hidden, width // 2, dtype=torch.uint8)
    scales = (
        numbers(asked.experts, 2 * width, hidden // group),
        numbers(asked.experts, hidden, width // group),
    )

    def call(x: torch.Tensor, weights: torch.Tensor, ids: torch.Tensor) -> None:
        tokens, top = ids.shape
        config = try_get_optimal_moe_config(
            gate_up.size(), down.size(), top, "int4_w4a16", tokens, block_shape=block
        )
        sorted_ids, of_block, padded = moe_align_block_size(ids, config["BLOCK_SIZE_M"], asked.experts)
        between = torch.empty(tokens, top, 2 * width, dtype=x.dtype, device="cuda")
        out = torch.empty(tokens, top, hidden, dtype=x.dtype, device="cuda")
        same: dict[str, Any] = {
            "compute_type": tl.bfloat16,
            "use_int8_w8a16": False,
            "use_int4_w4a16": True,
            "block_shape": block,
        }
        run, blocks = invoke_fused_moe_wna16_triton_kernel, (sorted_ids, of_block, padded)
        run(x, gate_up, between, scales[0], None, None, *blocks, False, top, config, **same)
        halved = between.view(-1, 2 * width)[:, :width].contiguous()
        run(halved, down, out, scales[1], None, weights, *blocks, True, 1, config, **same)

    return call


def products_us(call: Call, tokens: int, asked: argparse.Namespace) -> dict[str, float]:
    """Each kernel of the products and what it takes in a call, in microseconds."""
    torch.manual_seed(tokens)
    x = numbers(tokens, asked.hidden)
    weights = torch.full((tokens, asked.per_token), 1 / asked.per_token, device="cuda")
    sent = [
        torch.rand(tokens, asked.experts, device="cuda").topk(asked.per_token).indices.to(torch.int32)
        for _ in range(CALLS + WARM_CALLS)
    ]
    for ids in sent[:WARM_CALLS]:
        call(x, weights, ids)
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as recorded:
        for ids in sent[WARM_CALLS:]:
            call(x, weights, ids)
        torch.cuda.synchronize()
    found: defaultdict[str, list[float]] = defaultdict(list)
    for event in recorded.events():
        if event.device_type.name == "CUDA" and PRODUCTS.search(event.name):
            found[event.name[:60]].append(event.time_range.elapsed_us())
    return {name: round(in_a_call(us), 2) for name, us in found.items()}


def in_a_call(us: list[float]) -> float:
    """What a kernel takes in a call, of which it computes both products or one: the sum of their medians."""
    runs, left = divmod(len(us), CALLS)
    if left:
        raise ValueError(f"{len(us)} runs of a kernel in {CALLS} calls can't be told apart.")
    return sum(median(us[turn::runs]) for turn in range(runs))


def main() -> None:
    """Time each format, and print a line of JSON each."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (
        ("hidden", 2048),
        ("width", 512),
        ("experts", 256),
        ("per-token", 8),
        ("group", 128),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    for make in (by_marlin, in_16_bits, by_triton):
        try:
            call = make(asked)
            for tokens in TOKENS:
                print(json.dumps([make.__name__, tokens, products_us(call, tokens, asked)]), flush=True)
        except Exception as error:  # the others are timed all the same
            print(json.dumps([make.__name__, repr(error)[:500]]), flush=True)


if __name__ == "__main__":
    main()
