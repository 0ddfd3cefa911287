"""A drafter's `config.json`: the one that vLLM 0.32 loads as `DFlashDraftModel`. Imports no torch.

vLLM runs more than this package's own network does, such as layers of sliding attention: `built_here` says
which of the two is asked about.

`vllm/model_executor/models/qwen3_dflash.py` reads a `qwen3` configuration with a `dflash_config` of
`mask_token_id` and `target_layer_ids`; `block_size` and `num_target_layers` stand in published drafters.
Embedding and head are the target's and stand in no file, so hidden size and vocabulary must be the target's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.drafters.dflash.shape import RMS_EPSILON, DFlashShape
from experiments.engines.port import Infeasible
from experiments.engines.reference.inspection import CONFIG_FILE, json_object

ARCHITECTURE = "DFlashDraftModel"
"""The name under which vLLM 0.32 registers the class."""

UNSUPPORTED = {
    "draft_vocab_size": "a vocabulary of its own",
    "has_own_lm_head": "a head of its own",
    "has_own_embed_tokens": "an embedding of its own",
    "attention_bias": "biases in attention",
    "is_causal": "causal attention",
}
"""Fields that vLLM knows and this package's network does not, which refuses a drafter that sets one to
something true."""


def to_config(shape: DFlashShape) -> dict[str, Any]:
    """Return the content of `config.json`."""
    return {
        "architectures": [ARCHITECTURE],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "block_size": shape.block_tokens,
        "dflash_config": {
            "mask_token_id": shape.mask_token_id,
            "target_layer_ids": list(shape.target_layer_ids),
        },
        "dtype": "bfloat16",
        "head_dim": shape.head_size,
        "hidden_act": "silu",
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "layer_types": ["full_attention"] * shape.layers,
        "max_position_embeddings": shape.max_positions,
        "model_type": "qwen3",
        "num_attention_heads": shape.query_heads,
        "num_hidden_layers": shape.layers,
        "num_key_value_heads": shape.kv_heads,
        "num_target_layers": shape.target_layers,
        "rms_norm_eps": shape.rms_epsilon,
        "rope_parameters": {"rope_theta": shape.rope_theta, "rope_type": "default"},
        "tie_word_embeddings": False,
        "use_cache": True,
        "vocab_size": shape.vocabulary,
    }


def read_shape(folder: Path, *, built_here: bool = True) -> DFlashShape:
    """Read a drafter's configuration; `built_here` as in `from_config`.

    Raises:
        Infeasible: kind `checkpoint`, when there is none, or none that can be run here.
    """
    if not folder.is_dir():
        raise Infeasible("checkpoint", f"There is no drafter at {folder}: the folder does not exist.")
    path = folder / CONFIG_FILE
    return from_config(json_object(path, "drafter"), str(path), built_here=built_here)


def from_config(config: Mapping[str, Any], source: str, *, built_here: bool = True) -> DFlashShape:
    """Return the shape that a `config.json` tells of; `source` names the file in messages.

    Unless `built_here`, an engine is to run it that has a network of its own, and judges itself what that
    lacks; `hidden` is then the size of the streams that it reads, where the file tells that of both.

    Raises:
        Infeasible: kind `checkpoint`, when it is no DFlash drafter, asks for what is not built here, or
        contradicts itself.
    """
    if ARCHITECTURE not in (config.get("architectures") or []):
        raise _refused(source, f"names the architecture {config.get('architectures')}, not {ARCHITECTURE}")
    if not isinstance(config.get("dflash_config"), Mapping):
        raise _refused(source, "has no dflash_config")
    if built_here:
        _check_supported(config, source)
    inner = config.get("dflash_config")
    rope = config.get("rope_parameters") or {"rope_theta": config.get("rope_theta")}
    try:
        return DFlashShape(
            vocabulary=_whole(config, "vocab_size"),
            hidden=_whole(config, "hidden_size" if built_here else _read_size(config)),
            intermediate=_whole(config, "intermediate_size"),
            layers=_whole(config, "num_hidden_layers"),
            query_heads=_whole(config, "num_attention_heads"),
            kv_heads=_whole(config, "num_key_value_heads"),
            head_size=_whole(config, "head_dim"),
            block_tokens=_whole(config, "block_size"),
            mask_token_id=_whole(inner, "mask_token_id"),
            target_layer_ids=tuple(int(layer) for layer in inner["target_layer_ids"]),  # type: ignore[index]
            target_layers=_whole(config, "num_target_layers") if "num_target_layers" in config else 0,
            rope_theta=float(rope["rope_theta"]),
            max_positions=_whole(config, "max_position_embeddings"),
            rms_epsilon=float(config.get("rms_norm_eps", RMS_EPSILON)),
        )
    except KeyError as missing:
        raise _refused(source, f"does not say {missing.args[0]}") from None
    except (TypeError, ValueError) as cause:
        raise _refused(source, f"is not acceptable: {cause}") from None


def _check_supported(config: Mapping[str, Any], source: str) -> None:
    """Refuse what vLLM would run and this package's network would run wrongly."""
    for name, meaning in UNSUPPORTED.items():
        value = config.get(name)
        if value and not (name == "draft_vocab_size" and value == config.get("vocab_size")):
            raise _refused(source, f"asks for {meaning} ({name}), which is not built here")
    if set(config.get("layer_types") or ["full_attention"]) != {"full_attention"}:
        raise _refused(source, "has layers of sliding attention, which are not built here")
    for name in ("causal", "use_swa", "attention_sink_bias", "attention_value_scale", "sample_from_anchor"):
        if config["dflash_config"].get(name):
            raise _refused(source, f"sets dflash_config.{name}, which is not built here")
    rope_type = (config.get("rope_parameters") or {}).get("rope_type", "default")
    if rope_type != "default":
        raise _refused(source, f"scales its rotary positions ({rope_type}), which is not built here")


def _read_size(config: Mapping[str, Any]) -> str:
    """The field with the target's hidden size: vLLM knows drafters whose own is another."""
    return "target_hidden_size" if config.get("target_hidden_size") else "hidden_size"


def _whole(config: Mapping[str, Any] | None, name: str) -> int:
    """Return a whole number; raises `KeyError` when absent, `TypeError` when it is something else."""
    if config is None or name not in config:
        raise KeyError(name)
    value = config[name]
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is {value!r}, no whole number")
    return value


def _refused(source: str, why: str) -> Infeasible:
    return Infeasible("checkpoint", f"The drafter's {source} {why}.")
