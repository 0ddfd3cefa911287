"""When vLLM can schedule the next step while one still runs, by what drafts and by its version. Pure.

Read in `VllmConfig.__post_init__` of 0.26 to 0.33: to 0.32 drafts by n-grams forbid it; asked for it
all the same vLLM refuses to start, left to choose it schedules none ahead. From 0.33 on that binds its first
runner alone, and a GPU's is the second (docs/vllm.md, "Two runners").
"""

from __future__ import annotations

from collections.abc import Mapping

from experiments.space.configuration import KnobValue
from experiments.space.gpu import VLLM, Gpu
from experiments.space.knob import SameBeside

AHEAD, ON, OFF, AUTO = "serving.async_scheduling", "on", "off", "auto"
DRAFTING, NGRAM = "drafting.method", "ngram"

BESIDE_NGRAMS_FROM = (0, 33)
"""The first version of vLLM that can schedule steps ahead beside drafts by n-grams, on a GPU."""


def never_ahead(gpu: Gpu | None) -> SameBeside | None:
    """That it is off beside drafts by n-grams where it may be chosen; None where it need not be, and where it
    is not known which vLLM serves."""
    if (version := _before_ngrams(gpu)) is None:
        return None
    why = (
        f"vLLM {version} schedules no step ahead beside drafts by n-grams: there off and its own choice, "
        "auto, are the same, so auto alone is timed."
    )
    return SameBeside(OFF, AUTO, why, DRAFTING, NGRAM)


def ahead_refused(configuration: Mapping[str, KnobValue], gpu: Gpu | None) -> str | None:
    """Why steps can't be scheduled ahead as a configuration asks, in a sentence; None where they can, where
    it does not ask, and where it is not known which vLLM serves."""
    if (version := _before_ngrams(gpu)) is None:
        return None
    if configuration.get(DRAFTING) != NGRAM or configuration.get(AHEAD) != ON:
        return None
    first = _written(BESIDE_NGRAMS_FROM)
    return (
        f"vLLM {version} schedules no step ahead beside drafts by n-grams, which {first} is the first to do; "
        f"leave {AHEAD} at auto, or take another {DRAFTING}."
    )


def _before_ngrams(gpu: Gpu | None) -> str | None:
    """The version of a vLLM that schedules no step ahead beside drafts by n-grams; None of any other, and
    where it is not known which one serves."""
    if gpu is None or gpu.engine != VLLM or gpu.version is None or gpu.version >= BESIDE_NGRAMS_FROM:
        return None
    return _written(gpu.version)


def _written(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
