"""The profile of a checkpoint, from its `config.json`."""

from __future__ import annotations

from collections.abc import Mapping

from configs.errors import UsageError
from configs.model_types import (
    EXPERTS_FIELDS,
    MOE_TYPES,
    ONE_MODEL_HINT,
    QWEN3_5_TYPES,
    SHARED_EXPERT_FIELD,
    experts_fault,
)
from configs.models import ModelProfile
from configs.validation import validated

_CONFIG_FIELDS = {
    "vocab_size": "vocabulary",
    "hidden_size": "hidden",
    "num_attention_heads": "attention_q_heads",
    "num_key_value_heads": "attention_kv_heads",
    "head_dim": "attention_head_dim",
    "linear_num_key_heads": "gdn_k_heads",
    "linear_num_value_heads": "gdn_v_heads",
    "linear_key_head_dim": "gdn_k_head_dim",
    "linear_value_head_dim": "gdn_v_head_dim",
    "linear_conv_kernel_dim": "gdn_conv_kernel",
}


def most_positions(text_config: Mapping[str, object]) -> int | None:
    """The most tokens of a sequence by the config of a text model; None where it does not say, or scales its
    rotary embedding, so that there are more."""
    rope, told = text_config.get("rope_parameters"), text_config.get("max_position_embeddings")
    scaled = isinstance(rope, Mapping) and rope.get("rope_type", "default") != "default"
    return told if isinstance(told, int) and told >= 1 and not scaled else None


def profile_of_checkpoint(
    config: object, name: str, where: str, mtp_layers: int | None = None
) -> ModelProfile:
    """The profile of a checkpoint from the data of its `config.json`.

    `where` names the file in errors. `mtp_layers` are the layers of the MTP head that the weight files hold;
    without it the field of `config.json` is believed, which a checkpoint keeps when it is saved again without
    its head. Raises `UsageError` for data that is no mapping, another architecture, missing fields, and for
    a model that is half a Mixture of Experts and half a dense one.
    """
    if not isinstance(config, Mapping):
        raise UsageError(f"{where} does not hold a JSON object.", "Name a folder with a whole checkpoint.")
    if (fault := experts_fault(config)) is not None:
        raise UsageError(f"{where}: {fault}.", ONE_MODEL_HINT)
    wrapper, text = config, config.get("text_config", config)
    if not isinstance(text, Mapping) or config.get("model_type") not in QWEN3_5_TYPES:
        raise UsageError(
            f"{where}: model_type is {config.get('model_type')!r}, which is not understood yet.",
            f"Give a checkpoint of type {' or '.join(QWEN3_5_TYPES)}.",
        )
    data = {ours: text[theirs] for theirs, ours in _CONFIG_FIELDS.items() if theirs in text}
    data |= _mlps(text, mixture=config.get("model_type") in MOE_TYPES)
    data |= {"max_positions": most_positions(text)}
    if text.get("layer_types") is None:
        data |= {"layers": text.get("num_hidden_layers")}
        data |= {"full_attention_interval": text.get("full_attention_interval", 4)}
    else:
        data["layer_types"] = text["layer_types"]
    data |= {
        "name": name,
        "confirmed": True,
        "source": where,
        "tied_embeddings": text.get("tie_word_embeddings", wrapper.get("tie_word_embeddings", False)),
        "mtp_layers": text.get("mtp_num_hidden_layers", 0) if mtp_layers is None else mtp_layers,
    }
    return validated(ModelProfile, data, where)


def _mlps(text: Mapping[str, object], *, mixture: bool) -> dict[str, object]:
    """The widths of a model's MLPs, by the names of a profile."""
    width = SHARED_EXPERT_FIELD if mixture else "intermediate_size"
    found = {"intermediate": text[width]} if width in text else {}
    if not mixture:
        return found
    return {**found, "experts": {ours: text[theirs] for theirs, ours in EXPERTS_FIELDS.items()}}
