"""Which checkpoints are of a Qwen3.5, dense or a Mixture of Experts, by their `config.json`. Imports nothing
of ours: the processes of other environments look at checkpoints too."""

from __future__ import annotations

from collections.abc import Mapping

DENSE_TYPES = ("qwen3_5_text", "qwen3_5")
"""`model_type` of a dense model: the text model, and the wrapper with a `text_config`."""

MOE_TYPES = ("qwen3_5_moe_text", "qwen3_5_moe")
"""The same of a Mixture of Experts."""

QWEN3_5_TYPES = (*DENSE_TYPES, *MOE_TYPES)
"""`model_type` of checkpoints whose shape is understood."""

EXPERTS_FIELDS = {
    "num_experts": "count",
    "num_experts_per_tok": "per_token",
    "moe_intermediate_size": "intermediate",
}
"""What `config.json` tells of the experts, and what a `ModelProfile` calls it."""

SHARED_EXPERT_FIELD = "shared_expert_intermediate_size"
"""The width of the expert that every token goes through."""

ONE_MODEL_HINT = "Put the config.json of one model there, or fetch it again."
"""What to do where `experts_fault` finds something."""


def experts_fault(config: Mapping[str, object]) -> str | None:
    """What the `config.json` of a Qwen3.5 tells wrongly of experts, as a clause; None where it tells of a
    dense model, or of a Mixture of Experts with its sizes. Of these only 0 experts are looked at."""
    told, model_type = config.get("text_config", config), config.get("model_type")
    text = told if isinstance(told, Mapping) else {}
    count = text.get("num_experts")
    some = isinstance(count, int) and count > 0
    if model_type in DENSE_TYPES:
        return f"num_experts is {count}, and model_type {model_type!r} is a dense model's" if some else None
    if model_type not in MOE_TYPES:
        return None
    lacking = next((each for each in (*EXPERTS_FIELDS, SHARED_EXPERT_FIELD) if each not in text), None)
    if lacking is not None:
        return f"model_type {model_type!r} is a Mixture of Experts', and there is no {lacking}"
    return (
        None if some else f"model_type {model_type!r} is a Mixture of Experts', and num_experts is {count!r}"
    )
