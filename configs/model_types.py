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

PER_TOKEN_FIELD = "num_experts_per_tok"

EXPERTS_FIELDS = {
    "num_experts": "count",
    PER_TOKEN_FIELD: "per_token",
    "moe_intermediate_size": "intermediate",
}
"""What `config.json` tells of the experts, and what a `ModelProfile` calls it."""

SHARED_EXPERT_FIELD = "shared_expert_intermediate_size"
"""The width of the expert that every token goes through."""

ONE_MODEL_HINT = "Put the config.json of one model there, or fetch it again."
"""What to do where `experts_fault` finds something."""


def experts_fault(config: Mapping[str, object]) -> str | None:
    """What the `config.json` of a Qwen3.5 tells wrongly of experts, as a clause; None where it tells of a
    dense model, or of a Mixture of Experts with its sizes."""
    told, model_type = config.get("text_config", config), config.get("model_type")
    text = told if isinstance(told, Mapping) else {}
    count = text.get("num_experts")
    if model_type in DENSE_TYPES:
        return (
            f"num_experts is {count!r}, and model_type {model_type!r} is a dense model's" if count else None
        )
    if model_type not in MOE_TYPES:
        return None
    of_one = f"model_type {model_type!r} is a Mixture of Experts', and"
    for field in (*EXPERTS_FIELDS, SHARED_EXPERT_FIELD):
        size = text.get(field)
        if size is None:
            return f"{of_one} there is no {field}"
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            return f"{of_one} {field} is {size!r}, where a whole number above 0 belongs"
    sent = text[PER_TOKEN_FIELD]
    if isinstance(count, int) and isinstance(sent, int) and sent > count:
        return f"{of_one} {PER_TOKEN_FIELD} is {sent}, more than the {count} that there are"
    return None
