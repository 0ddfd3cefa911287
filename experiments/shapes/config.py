"""The config.json of a shape: a Qwen3.5 of a profile's sizes, in the wrapper that each vLLM knows. Pure.

Sizes are the profile's. What a profile does not tell (rotary embedding, norms) is as in Qwen3.5's published
configurations, since it decides which kernels run.
"""

from __future__ import annotations

from typing import Any

from configs.model_types import EXPERTS_FIELDS, SHARED_EXPERT_FIELD
from configs.models import ModelProfile
from experiments.engines.vllm.wrapped_checkpoint import DENSE, MIXTURE, wrapped_config

PARTIAL_ROTARY = 0.25
"""Share of an attention head that is rotated (FACTS §1)."""

ROPE_THETA = 10_000_000
MAX_POSITIONS = 262_144
RMS_NORM_EPSILON = 1e-6
"""As in Qwen3.5's config.json, where a profile does not say otherwise."""

MROPE_AXES = 3
"""Time, height and width: the rotated pairs of a head are shared out among them as evenly as they go."""


def shape_config(profile: ModelProfile, quantization: dict[str, Any] | None) -> dict[str, Any]:
    """The config.json of a profile's shape; `quantization` is its `quantization_config`, if any."""
    names = DENSE if profile.experts is None else MIXTURE
    text: dict[str, Any] = {
        "architectures": [names.text_architecture],
        "model_type": names.text_type,
        "dtype": "bfloat16",
        "vocab_size": profile.vocabulary,
        "hidden_size": profile.hidden,
        **_mlps(profile),
        "num_hidden_layers": profile.layers,
        "layer_types": list(profile.layer_types),
        "num_attention_heads": profile.attention_q_heads,
        "num_key_value_heads": profile.attention_kv_heads,
        "head_dim": profile.attention_head_dim,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "attn_output_gate": True,
        "linear_num_key_heads": profile.gdn_k_heads,
        "linear_num_value_heads": profile.gdn_v_heads,
        "linear_key_head_dim": profile.gdn_k_head_dim,
        "linear_value_head_dim": profile.gdn_v_head_dim,
        "linear_conv_kernel_dim": profile.gdn_conv_kernel,
        "mamba_ssm_dtype": "float32",
        "hidden_act": "silu",
        "rms_norm_eps": RMS_NORM_EPSILON,
        "max_position_embeddings": profile.max_positions or MAX_POSITIONS,
        "partial_rotary_factor": PARTIAL_ROTARY,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": ROPE_THETA,
            "partial_rotary_factor": PARTIAL_ROTARY,
            "mrope_interleaved": True,
            "mrope_section": mrope_section(profile.attention_head_dim),
        },
        "tie_word_embeddings": profile.tied_embeddings,
        "mtp_num_hidden_layers": profile.mtp_layers,
        "use_cache": True,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
    }
    if quantization is not None:
        text["quantization_config"] = quantization
    return wrapped_config(text)


def _mlps(profile: ModelProfile) -> dict[str, Any]:
    """The widths of a model's MLPs; of a Mixture of Experts those of its experts."""
    experts = profile.experts
    if experts is None:
        return {"intermediate_size": profile.intermediate}
    told = {theirs: getattr(experts, ours) for theirs, ours in EXPERTS_FIELDS.items()}
    return {**told, SHARED_EXPERT_FIELD: profile.intermediate}


def mrope_section(head_dim: int) -> list[int]:
    """The rotated pairs of a head by axis: 11, 11 and 10 for heads of 256."""
    pairs = int(head_dim * PARTIAL_ROTARY) // 2
    share, rest = divmod(pairs, MROPE_AXES)
    return [share + (axis < rest) for axis in range(MROPE_AXES)]
