"""When vLLM can schedule the next step while one still runs, by what drafts and by its version. Pure.

Read in `VllmConfig.__post_init__` of 0.26, 0.32 and 0.33: to 0.32 drafts by n-grams forbid it; asked for it
all the same vLLM refuses to start, left to choose it schedules none ahead. From 0.33 on that binds its first
runner alone, and a GPU's is the second (docs/vllm.md, "Two runners").
"""

from __future__ import annotations

from collections.abc import Mapping

from experiments.space.configuration import KnobValue
from experiments.space.gpu import VLLM, Gpu

AHEAD, ON = "serving.async_scheduling", "on"
DRAFTING, NGRAM = "drafting.method", "ngram"

BESIDE_NGRAMS_FROM = (0, 33)
"""The first version of vLLM that can schedule steps ahead beside drafts by n-grams, on a GPU."""


def ahead_refused(configuration: Mapping[str, KnobValue], gpu: Gpu | None) -> str | None:
    """Why steps can't be scheduled ahead as a configuration asks, in a sentence; None where they can, where
    it does not ask, and where it is not known which vLLM serves."""
    if gpu is None or gpu.engine != VLLM or gpu.version is None or gpu.version >= BESIDE_NGRAMS_FROM:
        return None
    if configuration.get(DRAFTING) != NGRAM or configuration.get(AHEAD) != ON:
        return None
    version, first = (".".join(map(str, each)) for each in (gpu.version, BESIDE_NGRAMS_FROM))
    return (
        f"vLLM {version} schedules no step ahead beside drafts by n-grams, which {first} is the first to do; "
        f"leave {AHEAD} at auto, or take another {DRAFTING}."
    )
