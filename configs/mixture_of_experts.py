"""Which checkpoints are of a Mixture-of-Experts model, by their `config.json`. Imports nothing of ours: the
processes of other environments look at checkpoints too."""

from __future__ import annotations

from collections.abc import Mapping

DENSE_HINT = "Take a dense Qwen3.5 checkpoint, such as Qwen/Qwen3.5-4B."
"""What to do with a checkpoint of a Mixture-of-Experts model."""


def mixture_of_experts(config: Mapping[str, object]) -> str | None:
    """How a `config.json` says that its model is a Mixture of Experts, in words; None for a dense one.

    The experts lie in tensors that nothing here serves, prunes or quantizes.
    """
    text = config.get("text_config", config)
    experts = text.get("num_experts") if isinstance(text, Mapping) else None
    if isinstance(experts, int) and experts > 0:
        return f"num_experts is {experts}"
    model_type = config.get("model_type")
    return f"model_type is {model_type!r}" if "_moe" in str(model_type) else None
