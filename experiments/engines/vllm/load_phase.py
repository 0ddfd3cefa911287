"""What a load of vLLM does now, read from its log. Pure.

vLLM tells in its log what it begins and what it has ended (`gpu_model_runner.py`, `backends.py`,
`monitor.py`, `kv_cache_utils.py`), and draws bars of what has many parts. The words are those of logs in its
issues 38820, 39559, 44106, 46389 and 49011; what another version words otherwise is told as what came before.
"""

from __future__ import annotations

import re

IMPORTING = "importing vLLM"
"""What it does before it says anything."""

_BEGINS: tuple[tuple[str, str], ...] = (
    (r"Initializing a V1 LLM engine", "starting its engine"),
    (r"Starting to load model|Loading model from scratch", "loading weights"),
    (r"Loading drafter model", "loading the drafter"),
    (r"Model loading took|for vLLM's torch\.compile|Dynamo bytecode transform time", "compiling"),
    (r"torch\.compile (?:takes|took) [\d.]+ s in total", "measuring memory"),
    (r"GPU KV cache size|Profiling CUDA graph memory|Capturing CUDA graphs", "capturing graphs"),
    (r"Graph capturing finished|init engine \(profile", "warming up"),
)
"""Words of the log, and what vLLM does from there on."""

_BEGUN = re.compile("|".join(f"({words})" for words, _ in _BEGINS))

_FILES = re.compile(r"Loading \w+ checkpoint shards:[^|\n\r]*\|\s*(\d+)/(\d+)")
_GRAPHS = re.compile(r"Capturing CUDA graphs[^\n\r]*?\|\s*(\d+)/(\d+)")


def load_phase(log: str) -> str:
    """What it does now, with how much of it is done where that is told; `log` is of the load alone."""
    begun = list(_BEGUN.finditer(log))
    if not begun:
        return IMPORTING
    last = begun[-1]
    phase = _BEGINS[(last.lastindex or 1) - 1][1]
    rest = log[last.start() :]
    if phase.startswith("loading") and (files := _FILES.findall(rest)):
        return f"{phase} ({files[-1][0]} of {files[-1][1]} files)"
    if phase == "capturing graphs" and (graphs := _GRAPHS.findall(rest)):
        return f"{phase} ({graphs[-1][0]} of {graphs[-1][1]})"
    return phase
