"""A shape is a checkpoint's description without weights, of the sizes of its profile."""

import json
from pathlib import Path

import pytest

from configs.checkpoints import profile_of_checkpoint
from configs.models import ModelProfile, load_model_profile
from experiments.engines.port import Infeasible
from experiments.engines.reference.drafting.order import drafting_order
from experiments.engines.reference.inspection import CheckpointFiles
from experiments.engines.vllm.checked_order import check_dummy_drafting
from experiments.engines.vllm.order import order_for
from experiments.shapes import stored_as as layouts
from experiments.shapes.config import mrope_section
from experiments.shapes.folder import shape_files, shape_in, write_shape
from experiments.shapes.stored_as import StoredAs
from experiments.space.configuration import Configuration

AWQ = {"quantization.method": "awq", "quantization.symmetric": False, "quantization.group_size": 128}


def profile(name: str = "qwen3.5-9b") -> ModelProfile:
    return load_model_profile(name)


@pytest.mark.parametrize(
    "name", ["qwen3.5-0.8b", "qwen3.5-4b", "qwen3.5-9b", "qwen3.5-27b", "qwen3.5-35b-a3b", "reference"]
)
def test_the_config_of_a_shape_has_the_sizes_of_its_profile(name: str, tmp_path: Path) -> None:
    wanted = profile(name)
    folder = write_shape(wanted, Configuration.of({}), tmp_path)
    config = json.loads((folder / "config.json").read_text())
    found = profile_of_checkpoint(config, name, "config.json")
    told = {"confirmed", "source"}
    assert found.model_dump(exclude=told) == wanted.model_dump(exclude=told)


def test_a_mixture_of_experts_is_in_the_wrapper_that_vllm_knows_and_transformers_reads_it(
    tmp_path: Path,
) -> None:
    transformers = pytest.importorskip("transformers")
    wanted = profile("qwen3.5-35b-a3b")
    folder = write_shape(wanted, Configuration.of({}), tmp_path)
    config = json.loads((folder / "config.json").read_text())
    assert config["architectures"] == ["Qwen3_5MoeForConditionalGeneration"]
    assert (config["model_type"], config["text_config"]["model_type"]) == ("qwen3_5_moe", "qwen3_5_moe_text")
    assert config["text_config"]["mtp_num_hidden_layers"] == 1
    read = transformers.AutoConfig.from_pretrained(folder).text_config
    assert (read.num_experts, read.num_experts_per_tok) == (256, 8)
    assert (read.moe_intermediate_size, read.shared_expert_intermediate_size) == (512, 512)
    shape = shape_in(folder)
    assert shape is not None
    assert shape.weight_bytes == 2 * wanted.text_parameters
    assert shape_files(folder).has_experts


def test_weights_take_the_bytes_that_the_floor_table_tells(tmp_path: Path) -> None:
    """GB of the 9B shape as FACTS has them for a step, and the embedding, which a step reads a row of."""
    embedding_gb = 248_320 * 4096 * 2 / 1e9
    for knobs, stored_as, gb in (
        ({}, StoredAs.COMPRESSED_TENSORS, 15.87),
        (AWQ, StoredAs.AWQ, 5.64),
        ({**AWQ, "quantization.group_size": 32}, StoredAs.AWQ, 6.05),
        ({**AWQ, "quantization.lm_head": "quantized"}, StoredAs.COMPRESSED_TENSORS, 4.13),
    ):
        folder = write_shape(profile(), Configuration.of(knobs), tmp_path, stored_as)
        shape = shape_in(folder)
        assert shape is not None
        assert shape.weight_bytes / 1e9 == pytest.approx(gb + embedding_gb, abs=0.02)


def test_quantized_layouts_leave_the_head_the_gates_and_the_mtp_layer_alone(tmp_path: Path) -> None:
    for stored_as, key in ((StoredAs.AWQ, "modules_to_not_convert"), (StoredAs.COMPRESSED_TENSORS, "ignore")):
        folder = write_shape(profile(), Configuration.of(AWQ), tmp_path, stored_as)
        quantization = shape_files(folder).quantization
        assert quantization is not None
        assert quantization["quant_method"] == stored_as
        assert {"lm_head", "mtp"} <= set(quantization[key])
        assert any("in_proj_" in name for name in quantization[key])


@pytest.mark.parametrize(
    ("knobs", "model", "stored_as", "why"),
    [
        ({**AWQ, "quantization.symmetric": True}, "qwen3.5-9b", "awq", "asymmetric"),
        ({**AWQ, "quantization.bits": 8}, "qwen3.5-9b", "awq", "4 bits alone"),
        (
            {**AWQ, "quantization.lm_head": "quantized"},
            "qwen3.5-4b",
            "compressed-tensors",
            "is its embedding",
        ),
        ({**AWQ, "quantization.group_size": 4096 * 3}, "qwen3.5-9b", "awq", "does not divide 4096"),
        (
            AWQ,
            "qwen3.5-35b-a3b",
            "awq",
            "qwen3.5-35b-a3b is a Mixture of Experts, .* store it as compressed-tensors",
        ),
        ({**AWQ, "quantization.group_size": 1024}, "qwen3.5-35b-a3b", "awq", "does not divide 512 inputs"),
    ],
)
def test_what_can_not_be_stored_so_is_refused(
    knobs: dict[str, object], model: str, stored_as: str, why: str, tmp_path: Path
) -> None:
    with pytest.raises(Infeasible, match=why):
        write_shape(profile(model), Configuration.of(knobs), tmp_path, StoredAs(stored_as))  # type: ignore[arg-type]


@pytest.mark.parametrize(("bits", "gb"), [(4, 19.5), (8, 36.5)])
def test_a_mixture_of_experts_is_stored_packed_with_its_router_in_16_bits(
    bits: int, gb: float, tmp_path: Path
) -> None:
    wanted = profile("qwen3.5-35b-a3b")
    knobs = {**AWQ, "quantization.bits": bits}
    folder = write_shape(wanted, Configuration.of(knobs), tmp_path)
    shape, files = shape_in(folder), shape_files(folder)
    assert shape is not None
    assert shape.weight_bytes / 1e9 == pytest.approx(gb, abs=0.1)
    high = sum(part.other_parameters for part in wanted.parts if part.kind.value != "mtp")
    head = wanted.vocabulary * wanted.hidden
    packed = wanted.text_parameters - high - head
    each = bits + (16 + bits) / 128
    assert shape.weight_bytes == pytest.approx(2 * (high + head) + packed * each / 8)
    assert files.quantization is not None
    (group,) = files.quantization["config_groups"].values()
    assert group["weights"]["num_bits"] == bits


def test_groups_that_do_not_divide_the_experts_width_are_no_shape(tmp_path: Path) -> None:
    data = profile("qwen3.5-35b-a3b").model_dump()
    data["experts"] |= {"intermediate": 192}
    with pytest.raises(Infeasible, match="group_size=128 does not divide 192 inputs"):
        write_shape(ModelProfile.model_validate(data), Configuration.of(AWQ), tmp_path)


def test_a_quantization_is_asked_of_the_shapes_own_config(monkeypatch: pytest.MonkeyPatch) -> None:
    """By what it tells of experts these are packed or not."""
    told: list[CheckpointFiles] = []

    def asked(files: CheckpointFiles, recipe: object) -> dict[str, object]:
        told.append(files)
        return {}

    monkeypatch.setattr(layouts, "quantization_config", asked)
    for name in ("qwen3.5-35b-a3b", "qwen3.5-9b"):
        layouts.quantization_of(profile(name), Configuration.of(AWQ), StoredAs.COMPRESSED_TENSORS)
    assert [files.has_experts for files in told] == [True, False]
    assert [len(files.layer_types) for files in told] == [40, 32]


def test_a_folder_with_weights_is_no_shape(tmp_path: Path) -> None:
    assert shape_in(tmp_path) is None
    (tmp_path / "shape.json").write_text('{"model": "m"}')
    with pytest.raises(Infeasible, match="does not describe a shape"):
        shape_in(tmp_path)


def test_vllm_makes_up_the_weights_of_a_shape_and_sets_how_many_drafts_are_accepted() -> None:
    knobs = {"drafting.method": "mtp", "drafting.draft_tokens": 2, "serving.weight_dtype": "fp8"}
    told = order_for(Configuration.of(knobs), "shape", "cuda:0", 1, dummy=True).arguments
    assert (told["load_format"], told["quantization"]) == ("dummy", "fp8")
    speculative = told["speculative_config"]
    assert (speculative["rejection_sample_method"], speculative["synthetic_acceptance_length"]) == (
        "synthetic",
        2.0,
    )
    real = order_for(Configuration.of(knobs), "checkpoint", "cuda:0", 1).arguments
    assert "load_format" not in real
    assert "rejection_sample_method" not in real["speculative_config"]


def test_drafts_that_no_made_up_weights_give_are_refused(tmp_path: Path) -> None:
    folder = write_shape(profile(), Configuration.of({}), tmp_path)
    shape, files = shape_in(folder), shape_files(folder)
    assert shape is not None
    check_dummy_drafting(drafting_order(Configuration.of({"drafting.method": "mtp"})), shape, files)
    with pytest.raises(Infeasible, match="means nothing"):
        check_dummy_drafting(drafting_order(Configuration.of({"drafting.method": "ngram"})), shape, files)


def test_a_cache_for_64_sequences_of_the_9b_shape_leaves_room_for_a_second_launch(tmp_path: Path) -> None:
    from experiments.engines.vllm.reserved_cache import cache_bytes

    knobs = {"serving.max_sequences": 64, "serving.max_model_len": 4096}
    folder = write_shape(profile(), Configuration.of(knobs), tmp_path)
    needed = cache_bytes(Configuration.of(knobs), folder)
    by_count = 64 * (4096 * profile().kv_bytes_per_token + profile().gdn_state_bytes)
    assert by_count < needed < 40e9


def test_the_rotated_pairs_of_a_head_are_shared_among_three_axes() -> None:
    assert mrope_section(256) == [11, 11, 10]  # as in Qwen3.5's config.json
    assert sum(mrope_section(64)) == 8
