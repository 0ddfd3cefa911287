"""The cache of keys, values and GDN states that a launch of vLLM reserves, by its configuration."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from experiments.engines.device_memory import Held, reserved_cache_bytes
from experiments.engines.hybrid_cache import CacheLayout, cache_layout
from experiments.engines.reference.device_fit import held
from experiments.engines.reference.drafting.order import drafter_layers
from experiments.engines.reference.shape import read_profile
from experiments.engines.vllm.order import chosen_knobs, drafting_of
from experiments.space.configuration import Configuration


def cache_bytes(configuration: Configuration, checkpoint: Path, memory_bytes: int | None = None) -> int:
    """Bytes for keys, values and GDN states of as many sequences as are served at once, as
    `reserved_cache_bytes` says for a card of `memory_bytes`."""
    chosen = chosen_knobs(configuration)
    sequences, length = int(chosen["serving.max_sequences"]), int(chosen["serving.max_model_len"])
    least = layout_of(configuration, checkpoint).least_bytes(sequences, length)
    return reserved_cache_bytes(one_sequence(configuration, checkpoint), sequences, least, memory_bytes)


def layout_of(configuration: Configuration, checkpoint: Path) -> CacheLayout:
    """How vLLM lays out the cache of a launch. Raises `Infeasible` for a drafter that can't be read."""
    drafter = drafter_layers(drafting_of(configuration), checkpoint)
    return cache_layout(read_profile(checkpoint), {**configuration, **chosen_knobs(configuration)}, drafter)


def one_sequence(configuration: Configuration, checkpoint: Path) -> Held:
    """What a launch would hold for one sequence of `serving.max_model_len` tokens."""
    chosen = chosen_knobs(configuration)
    context = int(chosen["serving.max_model_len"])
    dtype = "float32" if chosen["serving.dtype"] == "float32" else "bfloat16"
    drafting = drafting_of(configuration)
    found = held(checkpoint, dtype, drafting, context)
    return replace(found, cached=context, window_tokens=drafting.draft_tokens)
