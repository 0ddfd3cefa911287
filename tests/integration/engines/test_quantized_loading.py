"""Quantized checkpoints, whoever wrote them, load as the weights that their integers stand for."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from agent.plan.model import find_model
from agent.surrogate.weight_bytes import step_weight_bytes as read_by_a_step
from agent.tables.floor import step_bytes
from agent.tables.grid import TableWorkload
from cli.tables.table_shape import shape_of
from experiments.engines.launch_memory import weight_bytes
from experiments.engines.port import Infeasible
from experiments.engines.reference.checkpoint import load_model
from experiments.engines.reference.inspection import inspect_checkpoint
from experiments.engines.reference.mtp_head import MtpHead, load_head
from experiments.engines.reference.packed_layout import packed_modules
from experiments.engines.reference.stored_weights import (
    PARTS,
    bytes_by_part,
    part_of,
    step_bytes_by_part,
    step_weight_bytes,
    stored_weights,
)
from experiments.engines.vllm.needed_memory import parts_needed
from experiments.reference_model.load import reference_model_path
from experiments.space.configuration import Configuration, KnobValue
from tests.integration.engines.checkpoints import tiny_model, write_checkpoint
from tests.integration.engines.packed_checkpoints import (
    AWQ_CONFIG,
    awq_gemm,
    by_hand,
    compressed_tensors_config,
    pack_quantized,
    write_gptq,
)

CPU = torch.device("cpu")
IDS = torch.arange(40)[None]


def awq(folder: Path) -> dict[str, torch.Tensor]:
    return by_hand(folder, awq_gemm, AWQ_CONFIG)


def packed(bits: int, symmetric: bool) -> Callable[[Path], dict[str, torch.Tensor]]:
    def write(folder: Path) -> dict[str, torch.Tensor]:
        return by_hand(
            folder,
            pack_quantized,
            compressed_tensors_config(bits, symmetric),
            bits=bits,
            symmetric=symmetric,
        )

    return write


@pytest.mark.parametrize(
    "quantize", [awq, packed(4, False), packed(4, True), packed(8, False), packed(8, True)]
)
def test_the_weights_are_integer_less_zero_point_times_scale(
    tmp_path: Path, quantize: Callable[[Path], dict[str, torch.Tensor]]
) -> None:
    write_checkpoint(tmp_path, tiny_model())
    expected = quantize(tmp_path)
    loaded = load_model(inspect_checkpoint(tmp_path), torch.float32, CPU).state_dict()
    assert len(expected) > 10
    for name, weight in expected.items():
        assert torch.equal(loaded[name], weight), name
    narrow = load_model(inspect_checkpoint(tmp_path), torch.bfloat16, CPU).state_dict()
    for name, weight in expected.items():
        assert torch.equal(narrow[name], weight.to(torch.bfloat16)), name


def test_a_packed_mtp_head_is_unpacked_too(tmp_path: Path) -> None:
    """As of a checkpoint that was quantized without `mtp` among what to ignore."""
    model = tiny_model()
    write_checkpoint(tmp_path, model)
    tensors = load_file(tmp_path / "model.safetensors")
    head = {f"mtp.{name}": value for name, value in MtpHead(model).state_dict().items()}
    trunk = {name: value for name, value in tensors.items() if not name.startswith("mtp.")}
    save_file(trunk | head, tmp_path / "model.safetensors", metadata={"format": "pt"})
    config = compressed_tensors_config(4, False)
    expected = by_hand(tmp_path, pack_quantized, config, with_head=True, bits=4, symmetric=False)
    files = inspect_checkpoint(tmp_path)
    loaded = load_head(files, load_model(files, torch.float32, CPU)).state_dict()
    packed_too = {name.removeprefix("mtp.") for name in expected if name.startswith("mtp.")}
    assert "layers.0.mlp.gate_proj.weight" in packed_too
    for name, weight in loaded.items():
        of_file = expected[f"mtp.{name}"] if name in packed_too else head[f"mtp.{name}"]
        assert torch.equal(weight, of_file), name


@pytest.mark.parametrize(("bits", "symmetric"), [(4, False), (4, True), (8, False)])
def test_transformers_reads_the_same_model(tmp_path: Path, bits: int, symmetric: bool) -> None:
    write_checkpoint(tmp_path, tiny_model())
    packed(bits, symmetric)(tmp_path)
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    ours = load_model(inspect_checkpoint(tmp_path), torch.float32, CPU)
    with torch.inference_mode():
        torch.testing.assert_close(ours(IDS).logits, theirs(IDS).logits, atol=1e-4, rtol=1e-4)


def test_parts_of_a_weight_may_lie_in_several_files_under_a_wrapper_s_names(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, tiny_model(), wrapper=True)
    expected = packed(4, False)(tmp_path)
    single = load_file(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    weight_map = {}
    for shard in range(3):
        part = dict(list(single.items())[shard::3])
        save_file(part, tmp_path / f"{shard}.safetensors")
        weight_map |= dict.fromkeys(part, f"{shard}.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    loaded = load_model(inspect_checkpoint(tmp_path), torch.float32, CPU).state_dict()
    for name, weight in expected.items():
        assert torch.equal(loaded[name.replace("model.language_model.", "model.")], weight), name


def test_of_a_layout_that_is_not_read_its_name_and_its_bytes_are_told(tmp_path: Path) -> None:
    folder = write_gptq(reference_model_path(), tmp_path / "gptq")
    told = stored_weights(inspect_checkpoint(folder), "bfloat16")
    assert (told["stored"], "bits_per_weight" in told) == ("quantized by 'gptq'", False)
    dense = stored_weights(inspect_checkpoint(reference_model_path()), "bfloat16")
    read, before = told["step_bytes_by_part"], dense["step_bytes_by_part"]
    assert isinstance(read, dict)
    assert isinstance(before, dict)
    assert 0.25 < read["mlp"] / before["mlp"] < 0.3
    assert read["gdn"] == before["gdn"]


def test_what_is_stored_is_told_by_part_and_in_bits(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, tiny_model(), dtype=torch.bfloat16)
    dense = inspect_checkpoint(tmp_path)
    told = stored_weights(dense, "float32")
    assert (told["stored"], told["served"], told["latency_representative"]) == ("bfloat16", "float32", True)
    row, vocabulary = 48 * 2, 512
    text = sum(value.numel() * 2 for value in tiny_model().state_dict().values()) - vocabulary * row
    assert step_weight_bytes(dense) == text + row, "a tied head is read whole, the embedding by one row"
    before = step_weight_bytes(dense)
    packed(4, False)(tmp_path)
    files = inspect_checkpoint(tmp_path)
    told = stored_weights(files, "float32")
    assert told["stored"] == "pack-quantized W4 g16 asymmetric"
    assert told["served"] == "float32 (dequantized)"
    assert told["latency_representative"] is False
    assert told["bits_per_weight"] == 4 + (16 + 4) / 16
    assert sum(bytes_by_part(files).values()) == sum(
        value.numel() * value.element_size() for value in load_file(tmp_path / "model.safetensors").values()
    )
    quantized = sum(module.outputs * module.inputs for module in packed_modules(files).values())
    saved = quantized * (16 - 5.25) / 8
    assert before - step_weight_bytes(files) == saved


def test_what_a_step_reads_is_told_by_part_and_sums_to_the_whole(tmp_path: Path) -> None:
    model = tiny_model()
    write_checkpoint(tmp_path, model, dtype=torch.bfloat16)
    files = inspect_checkpoint(tmp_path)
    stored, read = bytes_by_part(files), step_bytes_by_part(files)
    assert "lm_head" not in stored, "a tied head is stored as the embedding alone"
    assert read["embedding"] == stored["embedding"] // model.config.vocab_size == 48 * 2
    assert read["lm_head"] == stored["embedding"]
    for part in ("gdn", "attention", "mlp", "norm"):
        assert read[part] == stored[part]
    assert sum(read.values()) == step_weight_bytes(files)
    packed(4, False)(tmp_path)
    files = inspect_checkpoint(tmp_path)
    read = step_bytes_by_part(files)
    assert sum(read.values()) == step_weight_bytes(files)
    shapes = sum(2 * 8 for name in files.tensors if name.endswith("mlp.up_proj.weight_shape"))
    assert bytes_by_part(files)["mlp"] - read["mlp"] >= shapes > 0, "a packed weight's shape is not read"
    assert stored_weights(files, "float32")["step_bytes_by_part"] == read


def test_neither_an_mtp_head_nor_a_vision_tower_is_read_in_a_step(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, tiny_model(), wrapper=True)
    before = step_bytes_by_part(inspect_checkpoint(tmp_path))
    weights = load_file(tmp_path / "model.safetensors")
    more = {"mtp.fc.weight": torch.ones(4, 4), "model.visual.blocks.0.mlp.fc1.weight": torch.ones(4, 4)}
    save_file(weights | more, tmp_path / "model.safetensors")
    files = inspect_checkpoint(tmp_path)
    assert {"mtp", "vision"} <= bytes_by_part(files).keys()
    assert step_bytes_by_part(files) == before


def test_every_tensor_has_a_part() -> None:
    names = {
        "model.embed_tokens.weight": "embedding",
        "model.layers.0.linear_attn.norm.weight": "gdn",
        "model.layers.0.linear_attn.A_log": "gdn",
        "model.layers.3.self_attn.q_norm.weight": "attention",
        "model.language_model.layers.3.mlp.up_proj.weight_packed": "mlp",
        "model.layers.0.mlp.gate.weight": "mlp",
        "model.layers.0.mlp.shared_expert.up_proj.weight": "mlp",
        "model.layers.0.mlp.experts.gate_up_proj": "experts",
        "model.language_model.layers.0.mlp.experts.7.up_proj.weight_packed": "experts",
        "model.layers.0.input_layernorm.weight": "norm",
        "model.norm.weight": "norm",
        "lm_head.weight_scale": "lm_head",
        "mtp.layers.0.mlp.up_proj.weight": "mtp",
        "mtp.layers.0.mlp.experts.down_proj": "mtp",
        "model.visual.blocks.0.mlp.fc1.weight": "vision",
        "model.something": "other",
    }
    assert {name: part_of(name) for name in names} == names
    assert set(names.values()) == set(PARTS)


class TestRefused:
    def checkpoint(self, folder: Path, change: dict[str, object]) -> Path:
        write_checkpoint(folder, tiny_model())
        packed(4, False)(folder)
        config = json.loads((folder / "config.json").read_text())
        config["quantization_config"] |= change
        (folder / "config.json").write_text(json.dumps(config))
        return folder

    @pytest.mark.parametrize(
        ("change", "sentence"),
        [
            ({"quant_method": "gptq"}, "quantized by 'gptq'"),
            ({"quant_method": None}, "quantized by None"),
            ({"format": "float-quantized"}, "format float-quantized"),
            ({"quant_method": "awq", "bits": 4, "version": "gemv"}, "AWQ of version 'gemv' with 4 bits"),
            ({"quant_method": "awq", "bits": 8, "version": "GEMM"}, "AWQ of version 'gemm' with 8 bits"),
        ],
    )
    def test_a_layout_that_is_not_read_is_named(
        self, tmp_path: Path, change: dict[str, object], sentence: str
    ) -> None:
        folder = self.checkpoint(tmp_path, change)
        with pytest.raises(Infeasible, match=sentence) as told:
            load_model(inspect_checkpoint(folder), torch.float32, CPU)
        assert told.value.kind == "unsupported"

    @pytest.mark.parametrize(
        ("damage", "sentence"),
        [
            ("no scale", "layers.1.mlp.up_proj has weight_packed but no weight_scale"),
            ("short scale", "parts of model.layers.1.mlp.up_proj do not fit"),
            ("flat", "weight_packed or weight_scale of model.layers.1.mlp.up_proj is no matrix"),
            ("shape of one number", "weight_shape does not hold two whole numbers"),
            ("three bits", "packed with 3 bits; autoinfer reads 2, 4, 8"),
            ("nothing packed", "no tensor is named …weight_packed"),
        ],
    )
    def test_parts_that_do_not_fit_are_named(self, tmp_path: Path, damage: str, sentence: str) -> None:
        folder = self.checkpoint(tmp_path, {})
        tensors, at = load_file(folder / "model.safetensors"), "model.layers.1.mlp.up_proj"
        match damage:
            case "no scale":
                del tensors[f"{at}.weight_scale"]
            case "short scale":
                tensors[f"{at}.weight_scale"] = tensors[f"{at}.weight_scale"][1:].clone()
            case "flat":
                tensors[f"{at}.weight_scale"] = tensors[f"{at}.weight_scale"].flatten()
            case "shape of one number":
                tensors[f"{at}.weight_shape"] = tensors[f"{at}.weight_shape"][:1].clone()
            case "three bits":
                tensors[f"{at}.weight_packed"] = tensors[f"{at}.weight_packed"][:, :5].clone()
            case "nothing packed":
                tensors = {name: value for name, value in tensors.items() if "weight_packed" not in name}
        save_file(tensors, folder / "model.safetensors")
        with pytest.raises(Infeasible, match=sentence):
            load_model(inspect_checkpoint(folder), torch.float32, CPU)

    def test_a_quantized_head_tied_to_the_embedding_is_no_model(self, tmp_path: Path) -> None:
        write_checkpoint(tmp_path, tiny_model())
        tensors = load_file(tmp_path / "model.safetensors")
        tensors["model.lm_head_proj.weight"] = tensors["model.embed_tokens.weight"].clone()
        save_file(tensors, tmp_path / "model.safetensors")
        packed(4, False)(tmp_path)
        tensors = {
            name.replace("model.lm_head_proj", "lm_head"): value
            for name, value in load_file(tmp_path / "model.safetensors").items()
        }
        save_file(tensors, tmp_path / "model.safetensors")
        with pytest.raises(Infeasible, match="ties the head to the embedding") as told:
            load_model(inspect_checkpoint(tmp_path), torch.float32, CPU)
        assert told.value.kind == "checkpoint"


@pytest.mark.parametrize("quantize", [awq, packed(4, False), packed(8, True), None])
def test_a_plan_counts_what_the_files_of_a_packed_checkpoint_hold(
    quantize: Callable[[Path], dict[str, torch.Tensor]] | None, tmp_path: Path
) -> None:
    folder = tmp_path / "packed"
    if quantize is None:
        write_gptq(reference_model_path(), folder)
    else:
        write_checkpoint(folder, tiny_model(), dtype=torch.bfloat16)
        quantize(folder)
    found, files = find_model(str(folder)), inspect_checkpoint(folder)
    assert read_by_a_step(found.profile, {}).mean == step_weight_bytes(files)
    assert found.stored_bytes is not None
    names_of_shapes = found.stored_bytes - weight_bytes(found.profile, {})
    assert 0 <= names_of_shapes < 0.01 * found.stored_bytes


def test_a_table_s_floor_is_of_what_the_checkpoint_stores_and_of_a_shape_in_16_bits(tmp_path: Path) -> None:
    folder = write_gptq(reference_model_path(), tmp_path / "gptq")
    workload, none = TableWorkload(1, 512, 129, 4), Configuration.of({})
    stored, made_up = (
        step_bytes(shape_of(str(folder), weights=each), none, workload).weights for each in (True, False)
    )
    assert stored == step_weight_bytes(inspect_checkpoint(folder))
    assert made_up == step_weight_bytes(inspect_checkpoint(reference_model_path()))


def test_vllm_s_own_count_of_a_packed_checkpoint_is_less_without_layers(tmp_path: Path) -> None:
    folder = tmp_path / "packed"
    write_checkpoint(folder, tiny_model(), dtype=torch.bfloat16)
    awq(folder)
    whole: dict[str, KnobValue] = {"quantization.method": "none", "pruning.method": "none"}
    pruned = {**whole, "pruning.method": "depth", "pruning.layers_removed": 1}
    kept, left = (parts_needed(Configuration.of(each), folder, 64, None)[0].bytes for each in (whole, pruned))
    profile = find_model(str(folder)).profile
    smallest = min(
        sum(profile.stored_bytes(part) or 0 for part in profile.parts if part.layer == layer)
        for layer in range(profile.layers)
    )
    assert kept - left == smallest > 0
