"""The cache of keys, values and GDN states that a launch of vLLM reserves, by its configuration."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from experiments.engines.device_memory import Held, reserved_cache_bytes
from experiments.engines.reference.device_fit import held
from experiments.engines.vllm.order import chosen_knobs, drafting_of
from experiments.space.configuration import Configuration


def cache_bytes(configuration: Configuration, checkpoint: Path, memory_bytes: int | None = None) -> int:
    """Bytes for keys, values and GDN states of as many sequences as are served at once, as
    `reserved_cache_bytes` says for a card of `memory_bytes`."""
    sequences = int(chosen_knobs(configuration)["serving.max_sequences"])
    return reserved_cache_bytes(one_sequence(configuration, checkpoint), sequences, memory_bytes)


def one_sequence(configuration: Configuration, checkpoint: Path) -> Held:
    """What a launch would hold for one sequence of `serving.max_model_len` tokens."""
    chosen = chosen_knobs(configuration)
    context = int(chosen["serving.max_model_len"])
    dtype = "float32" if chosen["serving.dtype"] == "float32" else "bfloat16"
    drafting = drafting_of(configuration)
    found = held(checkpoint, dtype, drafting, context)
    return replace(found, cached=context, window_tokens=drafting.draft_tokens)
