import json
import struct
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from experiments.engines.port import Infeasible
from experiments.engines.reference.inspection import inspect_checkpoint, tensor_headers

CONFIG = {"model_type": "qwen3_5_text", "num_hidden_layers": 8}

MIXTURE = {
    "model_type": "qwen3_5_moe_text",
    "num_hidden_layers": 8,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 16,
}


def checkpoint(folder: Path, config: object = CONFIG) -> Path:
    (folder / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    save_file({"a": np.ones((2, 3), np.float32)}, folder / "model.safetensors")
    return folder


def test_every_fourth_layer_is_attention_where_kinds_are_not_given(tmp_path: Path) -> None:
    kinds = inspect_checkpoint(checkpoint(tmp_path)).layer_types
    assert kinds == (("linear_attention",) * 3 + ("full_attention",)) * 2


def test_an_interval_is_taken_where_kinds_are_not_given(tmp_path: Path) -> None:
    kinds = inspect_checkpoint(checkpoint(tmp_path, CONFIG | {"full_attention_interval": 2})).layer_types
    assert kinds == ("linear_attention", "full_attention") * 4


def test_a_model_without_experts_is_dense(tmp_path: Path) -> None:
    files = inspect_checkpoint(checkpoint(tmp_path, CONFIG | {"num_experts": 0}))
    assert len(files.layer_types) == 8
    assert not files.has_experts


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_mixture_of_experts_is_read(tmp_path: Path, wrapped: bool) -> None:
    config = {"model_type": "qwen3_5_moe", "text_config": MIXTURE} if wrapped else MIXTURE
    files = inspect_checkpoint(checkpoint(tmp_path, config))
    assert (len(files.layer_types), files.has_experts) == (8, True)


def test_explicit_kinds_win(tmp_path: Path) -> None:
    layers = ["full_attention", "linear_attention"]
    config = CONFIG | {"num_hidden_layers": 2, "layer_types": layers, "full_attention_interval": 4}
    assert inspect_checkpoint(checkpoint(tmp_path, config)).layer_types == tuple(layers)


def test_the_wrapper_s_text_config_counts(tmp_path: Path) -> None:
    config = {"model_type": "qwen3_5", "tie_word_embeddings": True, "text_config": {"num_hidden_layers": 4}}
    files = inspect_checkpoint(checkpoint(tmp_path, config))
    assert len(files.layer_types) == 4
    assert files.text_config["tie_word_embeddings"] is True


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ("{not json", "can't be read"),
        ([1], "does not hold a JSON object"),
        ({"model_type": "llama"}, "is of type 'llama'"),
        (CONFIG | {"num_experts": 256}, r"num_experts is 256, and .* is a dense model's\. Put the config"),
        ({"model_type": "qwen3_5_moe", "text_config": {"num_experts": 8}}, "there is no num_experts_per_tok"),
        (CONFIG | {"num_experts": "8"}, r"num_experts is '8', and .* is a dense model's"),
        ({"model_type": "qwen3_5_moe_text"}, r"Experts', and there is no num_experts\. Put the config"),
        (MIXTURE | {"num_experts": 0}, r"num_experts is 0, where a whole number above 0 belongs\. Put the"),
        (MIXTURE | {"num_experts_per_tok": "2"}, r"is '2', where a whole number above 0 belongs\. Put the"),
        ({"model_type": "qwen3_5", "text_config": 3}, "is not an object"),
        ({"model_type": "qwen3_5_text"}, "how many layers there are: put num_hidden_layers there"),
        (CONFIG | {"layer_types": ["full_attention"]}, "list of 8, each linear_attention or full_attention"),
        (CONFIG | {"num_hidden_layers": 1, "layer_types": ["mamba"]}, "make it a list of 1, each"),
    ],
)
def test_a_configuration_that_is_no_use_is_named(tmp_path: Path, config: object, sentence: str) -> None:
    with pytest.raises(Infeasible, match=sentence) as told:
        inspect_checkpoint(checkpoint(tmp_path, config))
    assert told.value.kind == "checkpoint"
    assert str(tmp_path) in told.value.cause


def test_an_index_names_the_shards_and_a_missing_one_is_told(tmp_path: Path) -> None:
    checkpoint(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "one.safetensors")
    weight_map = {"a": "one.safetensors"}
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    assert inspect_checkpoint(tmp_path).weight_files == (tmp_path / "one.safetensors",)
    index.write_text(json.dumps({"weight_map": weight_map | {"b": "two.safetensors"}}))
    with pytest.raises(Infeasible, match=r"has no two\.safetensors"):
        inspect_checkpoint(tmp_path)
    index.write_text("{}")
    with pytest.raises(Infeasible, match="no weight_map"):
        inspect_checkpoint(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"short",
        struct.pack("<Q", 2**60) + b"{}",
        struct.pack("<Q", 4) + b"nope",
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 12) + b'{"a": "text"}'[:12],
    ],
)
def test_a_file_that_is_no_safetensors_file_is_told(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(Infeasible, match=r"model\.safetensors is no readable"):
        tensor_headers(path)


@pytest.mark.parametrize("change", [-1, 1, 8])
def test_a_file_of_another_length_than_it_tells_is_damaged(tmp_path: Path, change: int) -> None:
    path = checkpoint(tmp_path) / "model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:change] if change < 0 else content + b"\0" * change)
    with pytest.raises(Infeasible, match="cut short or damaged"):
        tensor_headers(path)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"dtype": None}, "no dtype"),
        ({"dtype": 16}, "no dtype"),
        ({"shape": None}, "no shape"),
        ({"shape": 2}, "no shape"),
        ({"shape": [2, -1]}, "no shape"),
        ({"data_offsets": None}, "no data_offsets"),
        ({"data_offsets": [0]}, "no data_offsets"),
        ({"data_offsets": [4, 0]}, "no data_offsets"),
        ({"data_offsets": [-4, 4]}, "no data_offsets"),
        ({"data_offsets": ["0", "4"]}, "no data_offsets"),
    ],
)
def test_a_tensor_whose_entry_does_not_tell_where_and_what_it_is_is_named(
    tmp_path: Path, change: dict[str, object], told: str
) -> None:
    whole = {"dtype": "F16", "shape": [2], "data_offsets": [0, 4]}
    entry = {key: value for key, value in {**whole, **change}.items() if value is not None}
    header = json.dumps({"layer.first": whole, "layer.other": entry}).encode()
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    with pytest.raises(Infeasible, match=rf"layer\.other in .*model\.safetensors has {told}") as refused:
        tensor_headers(path)
    assert "fetch it again" in refused.value.cause
