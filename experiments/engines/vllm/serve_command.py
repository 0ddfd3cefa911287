"""`vllm serve` with the arguments of an order: the engine that is measured, behind vLLM's server. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.engines.serve_command import ServeCommand
from experiments.engines.vllm.order import VllmOrder
from experiments.engines.vllm.plain_path import MISLEADING_WORDS, misleading

MEASURED_ONLY = frozenset(
    {"model", "skip_tokenizer_init", "gpu_memory_utilization", "distributed_executor_backend"}
)
"""Arguments that a measurement needs and a server does not: it reads text, has its device to itself, and
names its model first."""

BATCH_TOKENS, RESOLVED_BATCH_TOKENS = "max_num_batched_tokens", "max_batch_tokens"
"""The argument of how many tokens a step reads at most, which vLLM's server chooses by the card, and as what
a launch tells it."""

NOTE = (
    "vLLM's own OpenAI server over the same engine arguments that were measured. Not as measured: what a "
    "request does not name, such as its temperature, it takes from the checkpoint's generation_config.json, "
    "where greedy decoding was measured (--generation-config vllm leaves the file out), and vLLM's own share "
    "of the device's memory must be free at the start, where launches are measured side by side. The size of "
    "the cache is the measured one; a server that has the device to itself may leave it out."
)

MOVE = (
    " Move what drafts first, or name it by a link: vLLM takes another way to draft from a path that holds "
    f"{', '.join(MISLEADING_WORDS[:-1])} or {MISLEADING_WORDS[-1]}, and launches here were given a link."
)


def as_measured(resolved: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of what vLLM chose by the card where a configuration was measured, so that another card,
    or a vLLM that chooses otherwise, serves it alike."""
    tokens = resolved.get(RESOLVED_BATCH_TOKENS)
    return {BATCH_TOKENS: tokens} if isinstance(tokens, int) else {}


def vllm_serve(order: VllmOrder, told: Mapping[str, Any] | None = None) -> ServeCommand:
    """The command of an order; `told` are further arguments, such as that only the text model is loaded."""
    arguments = {**order.arguments, **(told or {})}
    words = ["vllm", "serve", str(arguments["model"])]
    for name, value in arguments.items():
        if name not in MEASURED_ONLY:
            words += _option(name, value)
    note = NOTE + (MOVE if _led_astray(arguments) else "")
    return ServeCommand(tuple(words), note, environment=order.variables)


def _led_astray(arguments: Mapping[str, Any]) -> bool:
    """Whether vLLM would take another way to draft from the path of what drafts (`plain_path.py`)."""
    drafts = arguments.get("speculative_config", {})
    drafter = drafts.get("model", arguments["model"])
    return drafts.get("method") in ("mtp", "draft_model") and misleading(Path(drafter))


def _option(name: str, value: object) -> list[str]:
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return [f"--{flag}" if value else f"--no-{flag}"]
    said = json.dumps(value, separators=(",", ":")) if isinstance(value, dict | list) else str(value)
    return [f"--{flag}", said]
